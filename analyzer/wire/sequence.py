"""TCP sequence numbers over time: bytes that the capture missed, and segments sent again.

Kept for every direction of every connection with a few numbers each, so that coverage can say what was
lost, and when, without a second pass, and tshark's own (slower) analysis is needed only where something
is wrong. What one side acknowledges it has got, so that a frame is missed even where nothing follows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analyzer.wire.packets import Int64s

_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
_WINDOW = 1 << 32
#: Gaps that may still be filled; older ones are taken as lost.
_MAX_HOLES = 1000
#: Times of gaps that are kept for one direction; beyond that neighbours are merged.
_MAX_SPANS = 4000


class Hole(NamedTuple):
    """Octets [first, after) of a stream that weren't seen; they passed between the two times."""

    first: int
    after: int
    before_ns: int
    seen_ns: int
    row: int = -1  # of the frame that began past it


@dataclass(slots=True)
class Direction:
    """One direction of one connection (all TCP connections between the same two endpoints, one after
    the other). `expected` is the next sequence number; `position` counts octets from the first segment
    seen, gaps included; `holes` are those that haven't been seen yet.
    """

    expected: int
    position: int = 0
    holes: list[Hole] = field(default_factory=list)
    given_up: int = 0  # holes that won't be filled any more
    given_up_bytes: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)  # when those were
    rows: list[int] = field(default_factory=list)  # the frames that began past them
    first_row: int = -1  # of the first frame, if that was no SYN
    late: int = 0  # segments (or parts) that were seen before, or filled a hole
    resent: int = 0  # segments whose bytes had all been seen before
    control: int = 0  # sequence numbers that SYN and FIN took
    disorder: bool = False
    last_ns: int = 0

    @property
    def payload(self) -> int:
        """Octets of payload from the first segment seen to the last, gaps included."""
        return max(0, self.position - self.control)

    def missing(self) -> int:
        """Octets of the stream that the capture doesn't hold."""
        return self.given_up_bytes + sum(hole.after - hole.first for hole in self.holes)

    def gaps(self) -> int:
        """How many times something was missed."""
        return self.given_up + len(self.holes)

    def times(self) -> list[tuple[int, int]]:
        """(not before, not after) of every gap, neighbours merged where there are very many."""
        return self.spans + [(hole.before_ns, hole.seen_ns) for hole in self.holes]

    def jumps(self) -> list[int]:
        """Rows of the frames before which something is missing, the very first one included."""
        rows = [self.first_row, *self.rows, *(hole.row for hole in self.holes)]
        return [row for row in rows if row >= 0]

    def jump(self, hole: Hole) -> None:
        """A segment began past what was expected."""
        self.disorder = True
        self.holes.append(hole)
        if len(self.holes) > _MAX_HOLES:
            self._give_up(self.holes.pop(0))

    def _give_up(self, hole: Hole) -> None:
        self.given_up += 1
        self.given_up_bytes += hole.after - hole.first
        self.spans.append((hole.before_ns, hole.seen_ns))
        if len(self.rows) < _MAX_SPANS:
            self.rows.append(hole.row)
        if len(self.spans) > _MAX_SPANS:
            self.spans = [
                (min(a[0], b[0]), max(a[1], b[1]))
                for a, b in zip(self.spans[::2], self.spans[1::2], strict=False)
            ] + self.spans[len(self.spans) // 2 * 2 :]

    def earlier(self, first: int, after: int) -> bool:
        """A segment began before what was expected: it fills holes (True), or was sent again."""
        self.disorder = True
        self.late += 1
        left: list[Hole] = []
        filled = False
        for hole in self.holes:
            if after <= hole.first or first >= hole.after:
                left.append(hole)
                continue
            filled = True
            if hole.first < first:
                left.append(hole._replace(after=first))
            if after < hole.after:
                left.append(hole._replace(first=after))
        self.holes = left
        self.resent += not filled
        return filled


class Acknowledged(NamedTuple):
    """What the other side said it had got of a direction: the first and the last time."""

    first: int
    last: int
    first_ns: int
    last_ns: int


@dataclass(slots=True)
class Tracker:
    """All directions of a capture, by number: connection * 2 + direction."""

    directions: dict[int, Direction] = field(default_factory=dict)
    acknowledged: dict[int, Acknowledged] = field(default_factory=dict)

    def feed(
        self,
        which: Int64s,
        sequence: Int64s,
        length: Int64s,
        flags: Int64s,
        ack: Int64s,
        time_ns: Int64s,
        row: Int64s,
    ) -> NDArray[np.bool_]:
        """Take some segments, in capture order; `which` numbers their direction, `row` the
        frame. Tells which of them hold something that hadn't been seen yet."""
        fresh = np.ones(len(which), dtype=bool)
        if not len(which):
            return fresh
        order = np.argsort(which, kind="stable")
        which, flags, time_ns = which[order], flags[order], time_ns[order]
        syn = (flags & _SYN) != 0
        run = np.ones(len(order), dtype=bool)  # a run: one direction, one numbering
        run[1:] = np.diff(which) != 0
        run |= syn
        begins = np.flatnonzero(run)
        again = self._sequence(which, sequence[order], length[order], flags, time_ns, row[order], begins)
        fresh[order[again]] = False
        self._acks(which, order, ack[order], flags, time_ns, begins)
        return fresh

    def finish(self) -> None:
        """The capture is over: what was acknowledged and not seen is a gap."""
        for which, told in self.acknowledged.items():
            state = self.directions.get(which)
            seen = state is not None and state.payload > 0
            base = state.expected if state is not None and seen else told.first
            beyond = (told.last - base + (_WINDOW >> 1)) % _WINDOW - (_WINDOW >> 1)
            # a SYN and a FIN take a number each
            if beyond <= (1 if seen else 2):
                continue
            if state is None:
                state = self.directions[which] = Direction(base, last_ns=told.first_ns)
            begin = state.last_ns if seen else told.first_ns
            position = state.position
            state.position += beyond
            state.jump(Hole(position, position + beyond, min(begin, told.last_ns), told.last_ns))

    def _sequence(
        self,
        which: Int64s,
        sequence: Int64s,
        length: Int64s,
        flags: Int64s,
        time_ns: Int64s,
        row: Int64s,
        begins: Int64s,
    ) -> list[int]:
        """Returns the places of segments that were seen before."""
        again: list[int] = []
        syn = (flags & _SYN) != 0
        control = syn.astype(np.int64) + ((flags & _FIN) != 0)
        size = length + control
        states = [
            self._state(int(which[b]), int(sequence[b]), -1 if syn[b] else int(row[b]))
            for b in begins.tolist()
        ]
        new = syn[begins]
        label = np.zeros(len(which), dtype=np.int64)
        label[begins] = 1
        label = np.cumsum(label) - 1
        base = np.where(new, sequence[begins], np.array([s.expected for s in states], dtype=np.int64))
        relative = ((sequence - base[label] + (_WINDOW >> 1)) % _WINDOW) - (_WINDOW >> 1)
        # a bare acknowledgement tells how far its sender is; a reset may carry any number
        telling = (size > 0) | ((flags & _RST) == 0)
        ends = np.where(telling, relative + size, 0)
        lift = label * (_WINDOW << 1)  # keeps the running maximum of one run from reaching the next
        reach = np.maximum.accumulate(np.maximum(ends, 0) + lift)
        before = np.empty_like(reach)
        before[1:] = reach[:-1]
        before[begins] = lift[begins]
        before -= lift
        reach -= lift
        odd = np.flatnonzero(telling & ((relative > before) | ((size > 0) & (relative < before))))
        edges = np.append(begins, len(which))
        cuts = np.searchsorted(odd, edges)
        controls = np.add.reduceat(control, begins)
        for number, (state, (low, high)) in enumerate(zip(states, pairwise(edges.tolist()), strict=True)):
            for at in odd[cuts[number] : cuts[number + 1]].tolist():
                earlier_ns = int(time_ns[at - 1]) if at > low else state.last_ns
                seen_before = _note(
                    state,
                    (int(relative[at]), int(ends[at]), int(before[at])),
                    int(length[at]),
                    (earlier_ns or int(time_ns[at]), int(time_ns[at]), int(row[at])),
                )
                if seen_before:
                    again.append(at)
            gain = int(reach[high - 1])
            state.expected = (int(base[number]) + gain) % _WINDOW
            state.position += gain
            state.control += int(controls[number])
            state.last_ns = int(time_ns[high - 1])
        return again

    def _state(self, which: int, sequence: int, row: int) -> Direction:
        state = self.directions.get(which)
        if state is None:
            state = self.directions[which] = Direction(sequence, first_row=row)
        return state

    def _acks(
        self, which: Int64s, order: Int64s, ack: Int64s, flags: Int64s, time_ns: Int64s, begins: Int64s
    ) -> None:
        usable = (flags & (_ACK | _RST)) == _ACK
        places = np.arange(len(which))
        last = np.maximum.reduceat(np.where(usable, places, -1), begins)
        earliest = np.minimum.reduceat(np.where(usable, places, len(which)), begins)
        syn = np.flatnonzero(flags & _SYN)
        renumbered = dict(zip(which[syn].tolist(), order[syn].tolist(), strict=True))  # the latest SYN
        for direction in renumbered:
            self.acknowledged.pop(direction, None)
        for early, at in zip(earliest[last >= 0].tolist(), last[last >= 0].tolist(), strict=True):
            other = int(which[at]) ^ 1
            since = renumbered.get(other, -1)
            if since > order[at]:
                continue  # of the connection before
            known = self.acknowledged.get(other)
            if known is None:
                begin = early if since < order[early] else at
                known = Acknowledged(int(ack[begin]), 0, int(time_ns[begin]), 0)
            self.acknowledged[other] = known._replace(last=int(ack[at]), last_ns=int(time_ns[at]))


def _note(state: Direction, reach: tuple[int, int, int], length: int, seen: tuple[int, int, int]) -> bool:
    """A segment that isn't the next one; returns whether all of it was seen before."""
    low, high, expected = reach
    if low > expected:
        if low > expected + 1:  # one octet is a SYN, a FIN, or a keep-alive before it, never data
            state.jump(Hole(state.position + expected, state.position + low, *seen))
        return False
    if length <= 1 and high <= expected:  # a keep-alive
        return length == 1
    filled = state.earlier(state.position + low, state.position + min(high, expected))
    return high <= expected and not filled
