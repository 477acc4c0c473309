"""The first look at a capture: every frame's headers, no dissection.

Tells what there is (connections, protocols by content, loss, truncation) and which connections carry
RPC, so that only these go through tshark, and in balanced shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from analyzer.wire.connections import Pairs
from analyzer.wire.frame_index import FRAGMENT, NO_CONNECTION, Located
from analyzer.wire.link import GRE, IPIP, SUPPORTED, TCP, UDP, Layers, Octets, Segments, layers, segments
from analyzer.wire.packets import Frames, Int64s
from analyzer.wire.sequence import Tracker

Bools = NDArray[np.bool_]

NFS, MOUNT, PORTMAP, NLM, NSM, RQUOTA = 100003, 100005, 100000, 100021, 100024, 100011
#: Program numbers that the client chooses for its callbacks (RFC 5531, transient range).
TRANSIENT = (0x40000000, 0x5FFFFFFF)
_PROGRAMS = (NFS, MOUNT, PORTMAP, NLM, NSM, RQUOTA)
_AUTH_TLS = 7  # RFC 9289
_TUNNELS = {4789: "VXLAN", 6081: "Geneve", 8472: "VXLAN", 4791: "RoCEv2 (NFS over RDMA can't be read)"}
#: So many ports are named to tshark at most; the lowest ones are the likeliest to belong to others.
MAX_PORTS = 500
_CEPH_PORTS = (3300, 6789)


@dataclass(slots=True)
class Connection:
    """What one connection carried. Direction True is from the lower endpoint to the higher.

    `calls` and `replies` count RPC messages that begin a segment (once, however often it was sent);
    `frames` those with payload."""

    low: int
    high: int
    udp: bool
    frames: int = 0
    payload_bytes: int = 0
    truncated: int = 0
    too_short: int = 0  # frames cut before their content could be told
    calls: dict[bool, int] = field(default_factory=dict)
    nfs_calls: dict[bool, int] = field(default_factory=dict)
    replies: dict[bool, int] = field(default_factory=dict)
    sent: dict[bool, int] = field(default_factory=dict)  # payload frames per direction
    marks: set[str] = field(default_factory=set)  # ceph, smb, tls, rpc-with-tls, syn, closed

    @property
    def rpc(self) -> bool:
        """True if the content is ONC RPC (or, on port 2049, was cut too short to tell)."""
        return bool(self.calls or self.replies)

    def towards_server(self) -> bool:
        """The direction in which calls of the NFS program (not callbacks) go."""
        if self.nfs_calls:
            return self.nfs_calls.get(True, 0) >= self.nfs_calls.get(False, 0)
        if self.replies and not self.calls:
            return not max(self.replies, key=lambda k: self.replies[k])
        if 2049 in (self.low & 0xFFFF, self.high & 0xFFFF):
            return self.high & 0xFFFF == 2049
        # only callbacks were seen: the server is the caller
        return not max(self.calls, key=lambda k: self.calls[k])


@dataclass(slots=True)
class Survey:
    """Totals over all files of one capture; `feed` takes blocks in any order of files."""

    pairs: Pairs = field(default_factory=Pairs)
    connections: dict[int, Connection] = field(default_factory=dict)
    tracker: Tracker = field(default_factory=Tracker)
    frames: int = 0
    tcp_frames: int = 0
    truncated: int = 0
    no_ip: int = 0
    fragments: int = 0
    unsupported_links: dict[int, int] = field(default_factory=dict)
    tunnels: dict[str, int] = field(default_factory=dict)
    # (program, version, procedure) of calls that begin a segment, NFSv4 left out
    programs: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    first_ns: int | None = None
    last_ns: int | None = None
    longest_capture: int = 0  # the longest truncated frame: the snap length, as seen

    def feed(self, frames: Frames) -> Located:
        """Look at one block; returns where its packets lie and whose they are."""
        first_row = self.frames
        self.frames += len(frames)
        cut = frames.captured < frames.length
        self.truncated += int(cut.sum())
        if cut.any():
            self.longest_capture = max(self.longest_capture, int(frames.captured[cut].max()))
        times = frames.time_ns
        low, high = int(times.min()), int(times.max())
        self.first_ns = low if self.first_ns is None else min(low, self.first_ns)
        self.last_ns = high if self.last_ns is None else max(high, self.last_ns)
        if frames.link_type not in SUPPORTED:
            known = self.unsupported_links
            known[frames.link_type] = known.get(frames.link_type, 0) + len(frames)
            nothing = np.full(len(frames), NO_CONNECTION, dtype=np.int64)
            return Located(frames.start, frames.start + frames.captured, nothing, nothing, nothing)
        octets = Octets(frames.data)
        found = layers(frames, octets)
        self.no_ip += int((~found.ip).sum())
        self.fragments += int(found.fragment.sum())
        for number, name in ((GRE, "GRE"), (IPIP, "IP-in-IP")):
            self._tunnel(name, int((found.protocol == number).sum()))
        connection = np.where(found.fragment, FRAGMENT, NO_CONNECTION)
        way, bare = np.zeros((2, len(frames)), dtype=np.int64)
        for protocol in (TCP, UDP):
            part = segments(found, octets, protocol)
            if len(part.index):
                numbers, up = self._segments(
                    found, part, octets, protocol == UDP, times[part.index], first_row + part.index
                )
                connection[part.index], way[part.index] = numbers, up
                if protocol == TCP:
                    # SYN, FIN and RST begin and end what tshark takes for one conversation
                    bare[part.index] = (part.length == 0) & ((part.flags & 7) == 0)
        return Located(found.network, found.end, connection, way, bare)

    def finish(self) -> None:
        """The last block was fed."""
        self.tracker.finish()

    def _tunnel(self, name: str, count: int) -> None:
        if count:
            self.tunnels[name] = self.tunnels.get(name, 0) + count

    def _segments(
        self, found: Layers, part: Segments, octets: Octets, udp: bool, times: Int64s, rows: Int64s
    ) -> tuple[Int64s, Bools]:
        if udp:
            for port, name in _TUNNELS.items():
                self._tunnel(name, int((part.target_port == port).sum()))
        else:
            self.tcp_frames += len(part.index)
        numbers, up = self.pairs.of(found, part, octets, udp)
        for key, number in islice(self.pairs.numbers.items(), len(self.connections), None):
            self.connections[number] = Connection(*key)
        self._count(numbers, up, part)
        fresh = np.ones(len(numbers), dtype=bool)
        if not udp:
            known = numbers >= 0
            columns = (part.sequence, part.length, part.flags, part.acknowledged, times, rows)
            fresh[known] = self.tracker.feed((numbers * 2 + up)[known], *(c[known] for c in columns))
        self._classify(numbers, up, part, octets, udp, fresh)
        return numbers, up

    def _count(self, numbers: Int64s, up: Bools, part: Segments) -> None:
        filled = (part.length > 0) & (numbers >= 0)
        which = (numbers * 2 + up)[filled]
        if len(which):
            frames = np.bincount(which)
            octets = np.bincount(which, weights=part.length[filled])
            cut = np.bincount(which, weights=(part.captured < part.length)[filled])
            short = np.bincount(which, weights=((part.captured < 20) & (part.length >= 20))[filled])
            for code in np.flatnonzero(frames).tolist():
                connection = self.connections[code >> 1]
                connection.frames += int(frames[code])
                connection.payload_bytes += int(octets[code])
                connection.truncated += int(cut[code])
                connection.too_short += int(short[code])
                sent = connection.sent
                sent[bool(code & 1)] = sent.get(bool(code & 1), 0) + int(frames[code])
        for bits, mark in ((0x02, "syn"), (0x05, "closed")):  # SYN; FIN or RST
            for number in np.unique(numbers[(part.flags & bits) != 0]).tolist():
                if number >= 0:
                    self.connections[number].marks.add(mark)

    def _classify(
        self, numbers: Int64s, up: Bools, part: Segments, octets: Octets, udp: bool, fresh: Bools
    ) -> None:
        known = np.flatnonzero((part.captured >= (16 if udp else 20)) & (numbers >= 0) & fresh)
        at = part.payload[known] + (0 if udp else 4)
        mark = octets.u32(part.payload[known])
        size = mark & 0x7FFFFFFF
        framed = np.full(len(known), True) if udp else (size >= 24) & (size < 1 << 25)
        kind, word = octets.u32(at + 4), octets.u32(at + 8)
        program = octets.u32(at + 12)
        named = np.isin(program, _PROGRAMS) | ((program >= TRANSIENT[0]) & (program <= TRANSIENT[1]))
        # a large call may come in several fragments: the mark of the first doesn't say that it's the last
        call = framed & (kind == 0) & (word == 2) & named
        # a reply: accepted or denied, then a verifier flavour and length that make sense
        verifier = (program <= 1) | (program == 6) | (word == 1)
        reply = framed & (mark >> 31 == 1) & (kind == 1) & (word <= 1) & verifier
        if not udp:
            reply &= (size + 4 <= part.length[known]) | (part.length[known] > 1000)
        else:
            reply &= False  # a UDP reply can't be told by its content
        which = numbers[known] * 2 + up[known]
        self._programs(program[call], octets.u32(at[call] + 16), octets.u32(at[call] + 20))
        self._tally(which[call], "calls")
        self._tally(which[call & (program == NFS)], "nfs_calls")
        self._tally(which[reply], "replies")
        flavour = octets.u32(at + 24)
        self._mark(numbers[known][call & (flavour == _AUTH_TLS)], "rpc-with-tls")
        self._marks(numbers, part, octets)

    def _programs(self, program: Int64s, version: Int64s, procedure: Int64s) -> None:
        other = ((program != NFS) | (version != 4)) & (program < TRANSIENT[0])
        codes = (program[other] << 24) | ((version[other] & 0xFF) << 16) | (procedure[other] & 0xFFFF)
        unique, counts = np.unique(codes, return_counts=True)
        for code, count in zip(unique.tolist(), counts.tolist(), strict=True):
            self.programs[code >> 24, (code >> 16) & 0xFF, code & 0xFFFF] += count

    def _tally(self, which: Int64s, name: str) -> None:
        if not len(which):
            return
        counts = np.bincount(which)
        for code in np.flatnonzero(counts).tolist():
            tally: dict[bool, int] = getattr(self.connections[code >> 1], name)
            tally[bool(code & 1)] = tally.get(bool(code & 1), 0) + int(counts[code])

    def _mark(self, numbers: Int64s, mark: str) -> None:
        for number in np.unique(numbers).tolist():
            self.connections[number].marks.add(mark)

    def _marks(self, numbers: Int64s, part: Segments, octets: Octets) -> None:
        usable = (part.captured >= 8) & (numbers >= 0)
        at, which = part.payload[usable], numbers[usable]
        first, second = octets.u32(at), octets.u32(at + 4)
        self._mark(which[(first == 0x63657068) & (second >> 16 == 0x2076)], "ceph")  # "ceph v"
        self._mark(which[np.isin(second, (0xFE534D42, 0xFF534D42)) & (first >> 24 == 0)], "smb")
        content, version = first >> 24, (first >> 8) & 0xFFFF
        self._mark(which[np.isin(content, (22, 23)) & (version >= 0x0301) & (version <= 0x0304)], "tls")

    def jumps(self, members: Iterable[int], since: bool) -> tuple[tuple[int, int], ...]:
        """(row, direction) of the first frame after each gap of these connections. With `since` the
        frames of a chosen time are looked at alone, and every direction begins somewhere."""
        found = [
            (row, which)
            for number in members
            for which in (number * 2, number * 2 + 1)
            if (state := self.tracker.directions.get(which)) is not None
            for row in (*state.jumps(), *((0,) if since else ()))
        ]
        return tuple(sorted(found))

    def doubtful_ports(self, members: Iterable[int]) -> tuple[int, ...]:
        """Ports of those connections whose first segment may not be the beginning of a call."""
        ports: dict[int, None] = {}
        for number in sorted(members):
            connection = self.connections[number]
            lossy = any(
                state.gaps() for way in (0, 1) if (state := self.tracker.directions.get(number * 2 + way))
            )
            if not connection.udp and (lossy or "syn" not in connection.marks):
                ports |= {connection.low & 0xFFFF: None, connection.high & 0xFFFF: None}
        return tuple(sorted(ports)[:MAX_PORTS])

    @property
    def too_short(self) -> int:
        """TCP frames that were cut before their content could be told."""
        return sum(c.too_short for c in self.connections.values() if not c.udp)

    @property
    def rpc_connections(self) -> list[int]:
        """Numbers of the connections that tshark is to see, in order of appearance."""
        return [
            number
            for number, c in self.connections.items()
            if c.rpc or (c.frames and 2049 in (c.low & 0xFFFF, c.high & 0xFFFF) and "tls" not in c.marks)
        ]
