"""From link layer to TCP, for a whole block of frames at once.

Link types (LINKTYPE_ registry of tcpdump.org): Ethernet with VLAN tags, raw IP, BSD loopback, and
Linux cooked v1 and v2. IPv4 (RFC 791) and IPv6 with the usual extension headers (RFC 8200).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyzer.wire.packets import Frames, Int64s

ETHERNET, RAW_BSD, RAW_OPENBSD, RAW_IP = 1, 12, 14, 101
NULL, LOOP, LINUX_SLL, IPV4, IPV6, LINUX_SLL2 = 0, 108, 113, 228, 229, 276
SUPPORTED = frozenset(
    {ETHERNET, RAW_BSD, RAW_OPENBSD, RAW_IP, NULL, LOOP, LINUX_SLL, IPV4, IPV6, LINUX_SLL2}
)
_VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
_IPV6_EXTENSIONS = (0, 43, 60, 135)  # hop-by-hop, routing, destination options, mobility
_FRAGMENT = 44
TCP, UDP, GRE, IPIP = 6, 17, 47, 4

Bools = NDArray[np.bool_]


class Octets:
    """Big-endian integers gathered from many places of one buffer; places outside read as 0."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data = data
        self.last = len(data) - 1

    def u8(self, at: Int64s) -> Int64s:
        """One byte at each place."""
        return self.data[np.minimum(at, self.last)].astype(np.int64)

    def u16(self, at: Int64s) -> Int64s:
        """Two bytes at each place."""
        return (self.u8(at) << 8) | self.u8(at + 1)

    def u32(self, at: Int64s) -> Int64s:
        """Four bytes at each place."""
        return (self.u16(at) << 16) | self.u16(at + 2)


@dataclass(frozen=True, slots=True)
class Layers:
    """Where things are in each frame of a block. Offsets are absolute in the block's buffer. `protocol`
    is the IP protocol number, -1 where the frame holds no (whole) IP header. `payload_length` is what
    the packet had on the wire, `payload_captured` what the file holds of it."""

    network: Int64s
    ipv6: Bools
    protocol: Int64s
    fragment: Bools
    transport: Int64s
    end: Int64s  # one past the last captured byte
    network_length: Int64s  # of the IP packet on the wire

    @property
    def ip(self) -> Bools:
        """Frames that hold an IP header."""
        return self.protocol >= 0


def layers(frames: Frames, octets: Octets) -> Layers:
    """Find the IP and transport headers; an unsupported link type gives protocol -1 everywhere."""
    start, end = frames.start, frames.start + frames.captured
    network, is_ip = _network(frames.link_type, start, octets)
    version = octets.u8(network) >> 4
    four = is_ip & (version == 4) & (network + 20 <= end)
    six = is_ip & (version == 6) & (network + 40 <= end)
    header = (octets.u8(network) & 15) * 4
    protocol = np.where(four, octets.u8(network + 9), np.where(six, octets.u8(network + 6), -1))
    fragment = four & ((octets.u16(network + 6) & 0x3FFF) != 0)
    transport = network + np.where(six, 40, header)
    on_wire = frames.length - (network - start)
    total = np.where(four, octets.u16(network + 2), octets.u16(network + 4) + 40)
    # segmentation offload leaves 0 where the length should be
    zero = np.where(four, total == 0, total == 40)
    network_length = np.where((four | six) & ~zero, np.minimum(total, on_wire), on_wire)
    if six.any():
        protocol, transport, fragment = _extensions(octets, six, protocol, transport, fragment)
    return Layers(network, six, protocol, fragment, transport, end, network_length)


def _network(link: int, start: Int64s, octets: Octets) -> tuple[Int64s, Bools]:
    yes = np.ones(len(start), dtype=bool)
    if link in (RAW_IP, RAW_BSD, RAW_OPENBSD, IPV4, IPV6):
        return start, yes
    if link in (NULL, LOOP):
        return start + 4, yes
    if link == LINUX_SLL:
        return start + 16, np.isin(octets.u16(start + 14), (0x0800, 0x86DD))
    if link == LINUX_SLL2:
        return start + 20, np.isin(octets.u16(start), (0x0800, 0x86DD))
    if link != ETHERNET:
        return start, ~yes
    at = start + 12
    kind = octets.u16(at)
    for _ in range(3):
        tagged = np.isin(kind, _VLAN_TAGS)
        if not tagged.any():
            break
        at = np.where(tagged, at + 4, at)
        kind = octets.u16(at)
    return at + 2, np.isin(kind, (0x0800, 0x86DD))


def _extensions(
    octets: Octets, six: Bools, protocol: Int64s, transport: Int64s, fragment: Bools
) -> tuple[Int64s, Int64s, Bools]:
    for _ in range(4):
        skip = six & np.isin(protocol, _IPV6_EXTENSIONS)
        cut = six & (protocol == _FRAGMENT)
        if not (skip.any() or cut.any()):
            break
        size = np.where(cut, 8, (octets.u8(transport + 1) + 1) * 8)
        fragment = fragment | cut
        following = octets.u8(transport)
        transport = np.where(skip | cut, transport + size, transport)
        protocol = np.where(skip | cut, following, protocol)
    return protocol, transport, fragment


@dataclass(frozen=True, slots=True)
class Segments:
    """The TCP or UDP headers of some frames; `index` says which frames of the block. For UDP the
    sequence numbers and flags are 0."""

    index: Int64s
    source_port: Int64s
    target_port: Int64s
    sequence: Int64s
    acknowledged: Int64s
    flags: Int64s
    payload: Int64s  # offset in the buffer
    length: Int64s  # payload bytes on the wire
    captured: Int64s  # payload bytes in the file


def segments(found: Layers, octets: Octets, protocol: int) -> Segments:
    """Headers of the unfragmented TCP or UDP packets of a block."""
    header = 20 if protocol == TCP else 8
    usable = (found.protocol == protocol) & ~found.fragment & (found.transport + header <= found.end)
    index = np.flatnonzero(usable)
    at = found.transport[index]
    size = (octets.u8(at + 12) >> 4) * 4 if protocol == TCP else np.full(len(at), 8)
    none = np.zeros(len(at), dtype=np.int64)
    length = np.maximum(found.network_length[index] - (at - found.network[index]) - size, 0)
    payload = at + size
    return Segments(
        index=index,
        source_port=octets.u16(at),
        target_port=octets.u16(at + 2),
        sequence=octets.u32(at + 4) if protocol == TCP else none,
        acknowledged=octets.u32(at + 8) if protocol == TCP else none,
        flags=octets.u8(at + 13) if protocol == TCP else none,
        payload=payload,
        length=length,
        captured=np.clip(found.end[index] - payload, 0, length),
    )
