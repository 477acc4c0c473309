"""TCP and UDP conversations made by hand, as packets, for traffic that no capture at hand holds."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.captures_tools import Packet

START_NS: Final = 1_700_000_000_000_000_000
_MAC: Final = b"\2\0\0\0\0\1" + b"\2\0\0\0\0\2"
SYN, FIN, PUSH, ACK = 0x02, 0x01, 0x08, 0x10


def call(xid: int, program: int, version: int, procedure: int, body: bytes = b"", flavour: int = 0,
         credential: bytes = b"") -> bytes:  # fmt: skip
    """An RPC call (RFC 5531)."""
    head = struct.pack(">IIIIIIII", xid, 0, 2, program, version, procedure, flavour, len(credential))
    return head + credential + struct.pack(">II", 0, 0) + body


def reply(xid: int, body: bytes = b"", verifier: bytes = b"", flavour: int = 0) -> bytes:
    """An accepted and successful RPC reply."""
    return struct.pack(">IIIII", xid, 1, 0, flavour, len(verifier)) + verifier + struct.pack(">I", 0) + body


def record(message: bytes) -> bytes:
    """A message as the only fragment of a record (RFC 5531 section 11)."""
    return struct.pack(">I", 1 << 31 | len(message)) + message


def compound(*operations: bytes, minor: int = 1, tag: bytes = b"") -> bytes:
    """Arguments of an NFSv4 COMPOUND; each operation begins with its number."""
    return opaque(tag) + struct.pack(">II", minor, len(operations)) + b"".join(operations)


def results(*operations: bytes, status: int = 0, tag: bytes = b"") -> bytes:
    """Results of an NFSv4 COMPOUND; each begins with the number and the status of an operation."""
    return (
        struct.pack(">I", status) + opaque(tag) + struct.pack(">I", len(operations)) + b"".join(operations)
    )


def opaque(content: bytes) -> bytes:
    """XDR: length, bytes, padding."""
    return struct.pack(">I", len(content)) + content + b"\0" * (-len(content) % 4)


def numbers(*values: int) -> bytes:
    """XDR unsigned integers."""
    return struct.pack(f">{len(values)}I", *values)


@dataclass(slots=True)
class Conversation:
    """One TCP connection; every method gives the packets to send. Sequence numbers are kept."""

    client: tuple[str, int] = ("10.0.0.7", 900)
    server: tuple[str, int] = ("10.0.0.1", 2049)
    time_ns: int = START_NS
    step_ns: int = 100_000
    next: dict[bool, int] = field(default_factory=lambda: {True: 1000, False: 5000})

    def open(self) -> list[Packet]:
        """The handshake."""
        first = self._segment(True, b"", SYN, ack=False)
        self.next[True] += 1
        second = self._segment(False, b"", SYN)
        self.next[False] += 1
        return [first, second, self._segment(True, b"", 0)]

    def send(self, payload: bytes, to_server: bool = True, size: int = 1448) -> list[Packet]:
        """Payload in segments of `size`."""
        packets = []
        for at in range(0, len(payload), size):
            part = payload[at : at + size]
            packets.append(self._segment(to_server, part, PUSH))
            self.next[to_server] = (self.next[to_server] + len(part)) % (1 << 32)
        return packets

    def ask(self, message: bytes, answer: bytes) -> list[Packet]:
        """A call and its reply, each a record."""
        return [*self.send(record(message)), *self.send(record(answer), to_server=False)]

    def close(self) -> list[Packet]:
        """Both sides end."""
        packets = []
        for way in (True, False):
            packets.append(self._segment(way, b"", FIN))
            self.next[way] = (self.next[way] + 1) % (1 << 32)
        return [*packets, self._segment(True, b"", 0)]

    def _segment(self, to_server: bool, payload: bytes, flags: int, ack: bool = True) -> Packet:
        source, target = (self.client, self.server) if to_server else (self.server, self.client)
        number = self.next[not to_server] if ack else 0
        flags |= ACK if ack else 0
        head = struct.pack(">HHIIBBHHH", source[1], target[1], self.next[to_server], number, 0x50, flags,
                           65535, 0, 0)  # fmt: skip
        self.time_ns += self.step_ns
        return ip_packet(source[0], target[0], 6, head + payload, self.time_ns)


def datagram(source: tuple[str, int], target: tuple[str, int], payload: bytes, time_ns: int) -> Packet:
    """A UDP packet."""
    head = struct.pack(">HHHH", source[1], target[1], 8 + len(payload), 0)
    return ip_packet(source[0], target[0], 17, head + payload, time_ns)


def ip_packet(source: str, target: str, protocol: int, content: bytes, time_ns: int) -> Packet:
    """An Ethernet frame with an IPv4 packet."""
    addresses = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(target).packed
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(content), 0, 0x4000, 64, protocol, 0) + addresses
    data = _MAC + struct.pack(">H", 0x0800) + head + content
    return Packet(time_ns, data, len(data))


def in_order(*streams: Iterable[Packet]) -> Iterator[Packet]:
    """Several conversations by time."""
    yield from sorted((p for stream in streams for p in stream), key=lambda p: p.time_ns)
