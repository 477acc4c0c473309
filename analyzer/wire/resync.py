"""Where a direction of a connection lost something, find the next RPC record.

Records (RFC 5531 section 11) know nothing of segments: after a gap, or where a capture begins in the
middle, nobody knows where the next one begins, and a decoder that takes whatever comes for the beginning
of a record may be wrong for ever. A record is told here by what an RPC message looks like; segments
before it are left out, and the one that holds it is cut so that it begins there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyzer.wire.packets import Int64s

#: Segments that are looked at after a gap; then everything goes to the decoder as it is.
_PATIENCE: Final = 20_000
#: A fragment of a record below 16 MiB, the last or not; transaction id; a call of NFS, its helpers or a
#: callback program. Or a record's last fragment with an accepted reply and a verifier of AUTH_NONE,
#: AUTH_SYS or RPCSEC_GSS.
_RECORD: Final = re.compile(
    rb"[\x00\x80]([\x00-\xff]{3})[\x00-\xff]{4}"
    rb"\x00{7}\x02(?:\x00\x01\x86[\xa0-\xbf]|[\x40-\x5f][\x00-\xff]{3})\x00{3}[\x00-\x04]|"
    rb"\x80([\x00-\xff]{3})[\x00-\xff]{4}"
    rb"\x00{3}\x01\x00{4}\x00{3}[\x00\x01\x06]\x00\x00[\x00\x01][\x00-\xff]",
)
_LEAST: Final = 24  # octets of an RPC message at least


def next_record(payload: bytes) -> int:
    """Where the first record begins in a segment; -1 if none does."""
    for match in _RECORD.finditer(payload):
        size = int.from_bytes(match[1] or match[2], "big")
        after = match.start() + 4 + size
        follows = payload[after : after + 1]
        if size >= _LEAST and follows in (b"", b"\x00", b"\x80"):
            return match.start()
    return -1


def segment(packet: bytes) -> tuple[int, int, int] | None:
    """Of a raw IP packet with TCP: where the TCP header and the payload begin, and the sequence number."""
    if len(packet) < 40:
        return None
    four = packet[0] >> 4 == 4
    start = (packet[0] & 15) * 4 if four else 40
    if len(packet) < start + 20 or packet[9 if four else 6] != 6:
        return None
    return (
        start,
        start + (packet[start + 12] >> 4) * 4,
        int.from_bytes(packet[start + 4 : start + 8], "big"),
    )


def cut(packet: bytes, at: int) -> bytes:
    """The packet without the first `at` octets of its payload."""
    found = segment(packet)
    assert found is not None
    start, payload, sequence = found
    head = bytearray(packet[:payload])
    head[start + 4 : start + 8] = struct.pack(">I", (sequence + at) & 0xFFFFFFFF)
    place = 2 if packet[0] >> 4 == 4 else 4  # total length, or payload length of IPv6
    length = int.from_bytes(head[place : place + 2], "big")
    if length:
        head[place : place + 2] = struct.pack(">H", max(0, length - at))
    return bytes(head) + packet[payload + at :]


@dataclass(slots=True)
class _Search:
    since: int  # row
    sequence: int | None = None  # of the first segment after the gap
    looked: int = 0


@dataclass(slots=True)
class Resync:
    """`jumps` are (row of the index, direction), ascending: the first segment after each gap."""

    jumps: list[tuple[int, int]]
    searches: dict[int, _Search] = field(default_factory=dict)

    def block(
        self,
        first: int,
        direction: Int64s,
        wanted: NDArray[np.bool_],
        read: Callable[[int], bytes],
    ) -> dict[int, bytes]:
        """Frames of one block, `first` being its first row. Takes those away from `wanted` that lie
        before the next record, and returns those that had to be cut, by place."""
        changed: dict[int, bytes] = {}
        begins = self._begin(first + len(wanted))
        for which in sorted({*self.searches, *(w for _, w in begins)}):
            starts = [row for row, w in begins if w == which]
            places = np.flatnonzero(wanted & (direction == which)).tolist()
            for place in places:
                while starts and starts[0] <= first + place:
                    self.searches[which] = _Search(starts.pop(0))
                if which in self.searches:
                    self._look(which, place, read(place), wanted, changed)
            if starts:  # the frame itself isn't there (bare, or not wanted): the next one counts
                self.searches[which] = _Search(starts[-1])
        return changed

    def _begin(self, end: int) -> list[tuple[int, int]]:
        """The jumps before row `end` that haven't been dealt with."""
        count = next((n for n, (row, _) in enumerate(self.jumps) if row >= end), len(self.jumps))
        begun, self.jumps = self.jumps[:count], self.jumps[count:]
        return begun

    def _look(
        self, which: int, place: int, packet: bytes, wanted: NDArray[np.bool_], changed: dict[int, bytes]
    ) -> None:
        search = self.searches[which]
        found = segment(packet)
        if found is None:
            return
        _, payload, sequence = found
        if search.sequence is None:
            search.sequence = sequence
        if payload >= len(packet):
            return
        if (sequence - search.sequence) & 0x80000000:
            return  # from before the gap, sent again
        search.looked += 1
        at = next_record(packet[payload:])
        if at < 0 and search.looked < _PATIENCE:
            wanted[place] = False
            return
        del self.searches[which]
        if at > 0:
            changed[place] = cut(packet, at)


def ordered(jumps: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Jumps as `Resync` wants them."""
    return sorted(set(jumps))
