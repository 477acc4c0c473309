"""Which frames belong to which connection, and what each connection carries, told by content.

A connection is the unordered pair of (address, port). A client that reconnects from the same port
(Linux does, to keep its replay identity) stays the same connection: its calls may be answered later.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyzer.wire.link import Layers, Octets, Segments
from analyzer.wire.packets import Int64s

#: More connections than this are counted, not told apart (a port scan must not fill the memory).
MAX_CONNECTIONS = 100_000
_IPV6_BASE = 1 << 32


@dataclass(slots=True)
class Addresses:
    """IPv4 and IPv6 addresses as small integers: an IPv4 address is its own number."""

    six: dict[bytes, int] = field(default_factory=dict)
    by_number: list[bytes] = field(default_factory=list)  # IPv6 addresses, from _IPV6_BASE on

    def of(self, found: Layers, octets: Octets, index: Int64s, target: bool) -> Int64s:
        """Address number of the source or target of each frame in `index`."""
        network = found.network[index]
        numbers = octets.u32(network + (16 if target else 12))
        six = found.ipv6[index]
        if six.any():
            at = network[six] + (24 if target else 8)
            raw = octets.data[np.minimum(at[:, None] + np.arange(16), octets.last)]
            unique, inverse = np.unique(raw, axis=0, return_inverse=True)
            ids = [self._intern(row.tobytes()) for row in unique]
            numbers[six] = np.array(ids, dtype=np.int64)[inverse.ravel()]
        return numbers

    def _intern(self, raw: bytes) -> int:
        number = self.six.get(raw)
        if number is None:
            number = self.six[raw] = _IPV6_BASE + len(self.six)
            self.by_number.append(raw)
        return number

    def text(self, number: int) -> str:
        """The usual text form of an address number."""
        if number < _IPV6_BASE:
            return str(ipaddress.IPv4Address(number))
        return str(ipaddress.IPv6Address(self.by_number[number - _IPV6_BASE]))


@dataclass(slots=True)
class Pairs:
    """Connections by number. `low` and `high` are endpoints: address number * 65536 + port."""

    addresses: Addresses = field(default_factory=Addresses)
    numbers: dict[tuple[int, int, bool], int] = field(default_factory=dict)
    overflow: bool = False

    def of(
        self, found: Layers, part: Segments, octets: Octets, udp: bool
    ) -> tuple[Int64s, NDArray[np.bool_]]:
        """Connection number of each segment (-1 = unknown) and whether it goes from low to high."""
        source = (self.addresses.of(found, octets, part.index, False) << 16) | part.source_port
        target = (self.addresses.of(found, octets, part.index, True) << 16) | part.target_port
        low, high = np.minimum(source, target), np.maximum(source, target)
        # sort by both: exact, where a hash of the pair would merge what an attacker makes collide
        order = np.lexsort((high, low))
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(low[order]) != 0) | (np.diff(high[order]) != 0)
        firsts = order[new]
        known = [
            self._number(a, b, udp)
            for a, b in zip(low[firsts].tolist(), high[firsts].tolist(), strict=True)
        ]
        numbers = np.empty(len(order), dtype=np.int64)
        numbers[order] = np.array(known, dtype=np.int64)[np.cumsum(new) - 1] if known else -1
        return numbers, source == low

    def _number(self, low: int, high: int, udp: bool) -> int:
        key = (low, high, udp)
        number = self.numbers.get(key, -1)
        if number < 0:
            if len(self.numbers) >= MAX_CONNECTIONS:
                self.overflow = True
                return -1
            number = len(self.numbers)
            self.numbers[key] = number
        return number

    def endpoint(self, value: int) -> str:
        """`address:port`, with brackets around an IPv6 address."""
        address = self.addresses.text(value >> 16)
        return f"[{address}]:{value & 0xFFFF}" if ":" in address else f"{address}:{value & 0xFFFF}"
