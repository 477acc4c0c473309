"""Read and write capture files, and make twins of a capture that are harder to read.

Pure Python on `struct`: independent of the reader under test. A capture is an iterable of `Packet`;
every twin is a function from packets to packets, so they combine and stream. Checksums are left as
they are (tshark doesn't check them by default).

Formats: pcap (draft-ietf-opsawg-pcap) in both byte orders and with microseconds or nanoseconds; pcapng
(draft-ietf-opsawg-pcapng) with any `if_tsresol`.
"""

from __future__ import annotations

import heapq
import ipaddress
import itertools
import random
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

ETHERNET: Final = 1
NULL: Final = 0  # BSD loopback
RAW: Final = 101
SLL: Final = 113  # Linux cooked
SLL2: Final = 276

_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_VLAN: Final = 0x8100
_PCAP_MAGIC: Final = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}  # → nanoseconds per unit of the fraction
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Packet:
    """`length` is the length on the wire; `data` may be shorter. `link` is the link type."""

    time_ns: int
    data: bytes
    length: int
    link: int = ETHERNET

    @property
    def cut(self) -> bool:
        """True if the file doesn't hold the whole packet."""
        return len(self.data) < self.length


@dataclass(frozen=True, slots=True)
class Layers:
    """Where the layers of a packet begin. `protocol` is 6 for TCP; `transport` is 0 for fragments."""

    version: int
    network: int
    transport: int
    protocol: int


def read(path: Path) -> Iterator[Packet]:
    """The packets of a pcap or pcapng file. A last packet that is cut off ends the input."""
    with path.open("rb") as file:
        head = file.read(4)
        file.seek(0)
        yield from _read_pcapng(file) if head == b"\x0a\x0d\x0d\x0a" else _read_pcap(file)


def _read_pcap(file: BinaryIO) -> Iterator[Packet]:
    header = file.read(24)
    order = next(o for o in "<>" if struct.unpack(o + "I", header[:4])[0] in _PCAP_MAGIC)
    unit = _PCAP_MAGIC[struct.unpack(order + "I", header[:4])[0]]
    link = struct.unpack(order + "I", header[20:24])[0] & 0xFFFF
    while len(record := file.read(16)) == 16:
        seconds, fraction, size, length = struct.unpack(order + "IIII", record)
        if len(data := file.read(size)) < size:
            return
        yield Packet(seconds * _SECOND + fraction * unit, data, length, link)


def _read_pcapng(file: BinaryIO) -> Iterator[Packet]:
    order, interfaces = "<", list[tuple[int, int]]()
    while len(head := file.read(8)) == 8:
        if head[:4] == b"\x0a\x0d\x0d\x0a":
            magic = file.read(4)
            file.seek(-4, 1)
            order, interfaces = ("<" if magic == b"\x4d\x3c\x2b\x1a" else ">"), []
        kind, size = struct.unpack(order + "II", head)
        if len(body := file.read(size - 8)) < size - 8:
            return
        if kind == 1:
            interfaces.append((struct.unpack(order + "H", body[:2])[0], _units(order, body[8:-4])))
        elif kind == 6:
            number, high, low, held, length = struct.unpack(order + "IIIII", body[:20])
            link, units = interfaces[number]
            yield Packet((high << 32 | low) * _SECOND // units, body[20 : 20 + held], length, link)


def _units(order: str, options: bytes) -> int:
    """Units of time in a second, from `if_tsresol` (option 9)."""
    at = 0
    while at + 4 <= len(options):
        code, size = struct.unpack(order + "HH", options[at : at + 4])
        if code == 9:
            power = options[at + 4]
            return int(2 ** (power & 0x7F)) if power & 0x80 else int(10**power)
        at += 4 + (size + 3) // 4 * 4
    return 1_000_000


def write_pcap(
    path: Path,
    packets: Iterable[Packet],
    *,
    link: int = ETHERNET,
    nanoseconds: bool = False,
    order: str = "<",
) -> int:
    """Write a pcap file, `order` "<" or ">" for its byte order; returns the number of packets."""
    magic, unit = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1000)
    count = 0
    with path.open("wb") as file:
        file.write(struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link))
        pack = struct.Struct(order + "IIII").pack
        for packet in packets:
            seconds, rest = divmod(packet.time_ns, _SECOND)
            file.write(pack(seconds, rest // unit, len(packet.data), packet.length) + packet.data)
            count += 1
    return count


def write_pcapng(
    path: Path, packets: Iterable[Packet], *, link: int = ETHERNET, tsresol: int = 9, order: str = "<"
) -> int:
    """Write a pcapng file with one interface. `tsresol` is the byte of the option: 9 = nanoseconds,
    6 = microseconds, 0x80 + n = units of 2^-n seconds."""
    units = 2 ** (tsresol & 0x7F) if tsresol & 0x80 else 10**tsresol
    count = 0
    with path.open("wb") as file:
        file.write(_block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)))
        options = struct.pack(order + "HHB3xHH", 9, 1, tsresol, 0, 0)
        file.write(_block(order, 1, struct.pack(order + "HHI", link, 0, 0) + options))
        for packet in packets:
            time = packet.time_ns * units // _SECOND
            head = struct.pack(
                order + "IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(packet.data), packet.length
            )
            file.write(_block(order, 6, head + packet.data + b"\0" * (-len(packet.data) % 4)))
            count += 1
    return count


def _block(order: str, kind: int, body: bytes) -> bytes:
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def cut_file(source: Path, target: Path, packets: int, extra: int = 20) -> None:
    """Copy a pcap file up to `extra` bytes into the record after the first `packets` packets."""
    whole = source.read_bytes()
    order = next(o for o in "<>" if struct.unpack(o + "I", whole[:4])[0] in _PCAP_MAGIC)
    at = 24
    for _ in range(packets):
        at += 16 + struct.unpack(order + "I", whole[at + 8 : at + 12])[0]
    assert at + extra < len(whole), "nothing is left to cut"
    target.write_bytes(whole[: at + extra])


def layers(packet: Packet) -> Layers | None:
    """Where IP and the transport begin; None if it isn't IP or too short."""
    found = _network(packet.data, packet.link)
    if found is None:
        return None
    kind, at = found
    data = packet.data
    if kind == _IPV4 and len(data) >= at + 20:
        fragment = struct.unpack(">H", data[at + 6 : at + 8])[0] & 0x1FFF
        return Layers(4, at, 0 if fragment else at + (data[at] & 15) * 4, data[at + 9])
    if kind == _IPV6 and len(data) >= at + 40:
        return Layers(6, at, at + 40, data[at + 6])
    return None


def _network(data: bytes, link: int) -> tuple[int, int] | None:
    """(EtherType, offset of the network layer)."""
    if link == RAW and data:
        return (_IPV6 if data[0] >> 4 == 6 else _IPV4), 0
    if link == NULL and len(data) >= 4:
        return (_IPV4 if 2 in (data[0], data[3]) else _IPV6), 4
    at = {ETHERNET: 12, SLL: 14, SLL2: 0}.get(link)
    if at is None or len(data) < 20:
        return None
    kind = struct.unpack(">H", data[at : at + 2])[0]
    start = {ETHERNET: 14, SLL: 16, SLL2: 20}[link]
    while kind == _VLAN and len(data) >= start + 4:
        kind = struct.unpack(">H", data[start + 2 : start + 4])[0]
        start += 4
    return kind, start


def endpoints(packet: Packet) -> tuple[str, int, str, int] | None:
    """(source, source port, destination, destination port) of a TCP or UDP packet."""
    found = layers(packet)
    if found is None or not found.transport or len(packet.data) < found.transport + 4:
        return None
    at, size = (found.network + 12, 4) if found.version == 4 else (found.network + 8, 16)
    source, target = packet.data[at : at + size], packet.data[at + size : at + 2 * size]
    ports = struct.unpack(">HH", packet.data[found.transport : found.transport + 4])
    return str(ipaddress.ip_address(source)), ports[0], str(ipaddress.ip_address(target)), ports[1]


def tcp_payload(packet: Packet) -> bytes:
    """The payload of a TCP packet, as much as the file holds."""
    found = layers(packet)
    if found is None or found.protocol != 6 or len(packet.data) < found.transport + 20:
        return b""
    start = found.transport + (packet.data[found.transport + 12] >> 4) * 4
    if found.version == 4:
        end = found.network + struct.unpack(">H", packet.data[found.network + 2 : found.network + 4])[0]
    else:
        end = found.transport + struct.unpack(">H", packet.data[found.network + 4 : found.network + 6])[0]
    return packet.data[start:end]


def truncated(packets: Iterable[Packet], snaplen: int) -> Iterator[Packet]:
    """As recorded with a snap length."""
    for packet in packets:
        yield replace(packet, data=packet.data[:snaplen])


def dropped(packets: Iterable[Packet], unwanted: Callable[[Packet], bool]) -> Iterator[Packet]:
    """Without the packets that the predicate names."""
    return (packet for packet in packets if not unwanted(packet))


def lost(packets: Iterable[Packet], percent: float, seed: int) -> Iterator[Packet]:
    """Without a random part of the packets."""
    chance = random.Random(seed)
    return dropped(packets, lambda _: chance.random() * 100 < percent)


def one_way(packets: Iterable[Packet], server_port: int, to_server: bool = True) -> Iterator[Packet]:
    """Only one direction of the traffic with a server port."""
    place = 3 if to_server else 1
    for packet in packets:
        ends = endpoints(packet)
        if ends is not None and ends[place] == server_port:
            yield packet


def from_middle(packets: Iterable[Packet], first: int) -> Iterator[Packet]:
    """Without the first packets: the capture begins mid-connection."""
    return itertools.islice(packets, first, None)


def reordered(packets: Iterable[Packet], window: int, seed: int) -> Iterator[Packet]:
    """Shuffled within each window of packets; the times stay in order."""
    chance = random.Random(seed)
    for group in _groups(packets, window):
        times = [packet.time_ns for packet in group]
        chance.shuffle(group)
        yield from (replace(p, time_ns=t) for p, t in zip(group, times, strict=True))


def duplicated(packets: Iterable[Packet], percent: float, seed: int) -> Iterator[Packet]:
    """A random part of the packets comes twice, as from a port that mirrors both directions."""
    chance = random.Random(seed)
    for packet in packets:
        yield packet
        if chance.random() * 100 < percent:
            yield packet


def flipped(packets: Iterable[Packet], percent: float, seed: int, start: int = 0) -> Iterator[Packet]:
    """One random bit after the byte `start` is turned over in a random part of the packets."""
    chance = random.Random(seed)
    for packet in packets:
        if chance.random() * 100 < percent and len(packet.data) > start:
            bit = chance.randrange(start * 8, len(packet.data) * 8)
            data = bytearray(packet.data)
            data[bit // 8] ^= 1 << bit % 8
            yield replace(packet, data=bytes(data))
        else:
            yield packet


def _groups(packets: Iterable[Packet], size: int) -> Iterator[list[Packet]]:
    rest = iter(packets)
    while group := list(itertools.islice(rest, size)):
        yield group


def with_link(packets: Iterable[Packet], link: int) -> Iterator[Packet]:
    """Ethernet packets as another link type would show them; what isn't IP is left out."""
    for packet in packets:
        found = layers(packet)
        if found is None:
            continue
        kind = _IPV4 if found.version == 4 else _IPV6
        if link == NULL:
            head = struct.pack("<I", 2 if found.version == 4 else 30)
        elif link == SLL:
            head = struct.pack(">HHH8sH", 0, 1, 6, packet.data[6:12] + b"\0\0", kind)
        elif link == SLL2:
            head = struct.pack(">HHIHBB8s", kind, 0, 2, 1, 0, 6, packet.data[6:12] + b"\0\0")
        elif link == RAW:
            head = b""
        else:
            raise ValueError(f"no such link type: {link}")
        yield _reheaded(packet, head, found.network, link)


def with_vlan(packets: Iterable[Packet], vlan: int, tags: int = 1) -> Iterator[Packet]:
    """Ethernet packets with 802.1Q tags."""
    for packet in packets:
        tag = struct.pack(">HH", _VLAN, vlan) * tags
        yield replace(
            packet, data=packet.data[:12] + tag + packet.data[12:], length=packet.length + len(tag)
        )


def _reheaded(packet: Packet, head: bytes, skip: int, link: int) -> Packet:
    return Packet(packet.time_ns, head + packet.data[skip:], packet.length + len(head) - skip, link)


def as_ipv6(packets: Iterable[Packet]) -> Iterator[Packet]:
    """Ethernet with IPv4 as Ethernet with IPv6: address A.B.C.D becomes fd00::A.B.C.D."""
    for packet in packets:
        found = layers(packet)
        if found is None or found.version != 4 or not found.transport:
            yield packet
            continue
        at, data = found.network, packet.data
        size = struct.unpack(">H", data[at + 2 : at + 4])[0] - (found.transport - at)
        prefix = b"\xfd" + b"\0" * 11
        addresses = prefix + data[at + 12 : at + 16] + prefix + data[at + 16 : at + 20]
        head = data[:12] + struct.pack(">HIHBB", _IPV6, 6 << 28, size, found.protocol, data[at + 8])
        yield _reheaded(packet, head + addresses, found.transport, packet.link)


def with_ports(packets: Iterable[Packet], ports: Mapping[int, int]) -> Iterator[Packet]:
    """TCP and UDP ports replaced: a privileged client port, another server port."""
    for packet in packets:
        found = layers(packet)
        at = found.transport if found is not None and found.protocol in (6, 17) else 0
        if not at or len(packet.data) < at + 4:
            yield packet
            continue
        source, target = struct.unpack(">HH", packet.data[at : at + 4])
        changed = struct.pack(">HH", ports.get(source, source), ports.get(target, target))
        yield replace(packet, data=packet.data[:at] + changed + packet.data[at + 4 :])


def copies(
    packets: Sequence[Packet], count: int, gap_ns: int | None = None, at_once: int = 1
) -> Iterator[Packet]:
    """The capture `count` times over, each with addresses of its own, one copy after the other.

    In copy i every IPv4 address A.B.C.D becomes (10 + i // 65536).X.Y.n with X.Y = i modulo 65536 and n the
    number of the address in the capture (from 1). Copies begin `gap_ns` apart (default: the capture's
    duration); `at_once` copies are merged by time, so that as many run at the same time. Only the template
    is held in memory, whatever the count. IPv4 on any link type.
    """
    template = [(packet, _address_place(packet)) for packet in packets]
    hosts: dict[bytes, int] = {}
    for packet, place in template:
        for at in (place, place + 4) if place else ():
            hosts.setdefault(packet.data[at : at + 4], len(hosts) + 1)
    assert len(hosts) < 255, "too many addresses for one copy"
    duration = packets[-1].time_ns - packets[0].time_ns + 1_000_000 if packets else 0
    step = duration if gap_ns is None else gap_ns

    def copy(index: int) -> Iterator[Packet]:
        net = bytes([10 + index // 65536, index // 256 % 256, index % 256])
        new = {old: net + bytes([number]) for old, number in hosts.items()}
        shift = index // at_once * step
        for packet, place in template:
            data = packet.data
            if place:
                ends = new[data[place : place + 4]] + new[data[place + 4 : place + 8]]
                data = data[:place] + ends + data[place + 8 :]
            yield Packet(packet.time_ns + shift, data, packet.length, packet.link)

    for first in range(0, count, at_once):
        group = [copy(index) for index in range(first, min(first + at_once, count))]
        yield from heapq.merge(*group, key=lambda packet: packet.time_ns)


def _address_place(packet: Packet) -> int:
    """Offset of the IPv4 source address, 0 if there is none."""
    found = layers(packet)
    return found.network + 12 if found is not None and found.version == 4 else 0
