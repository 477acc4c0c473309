"""TCP sequence numbers over time: bytes that the capture missed, and segments sent again.

Kept for every direction of every connection with a few numbers each, so that coverage can say what was
lost without a second pass, and tshark's own (slower) analysis is needed only where something is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from analyzer.wire.packets import Int64s

_SYN, _FIN = 0x02, 0x01
_WINDOW = 1 << 32
_MAX_HOLES = 1000


@dataclass(slots=True)
class Direction:
    """One direction of one TCP connection. `expected` is the next sequence number; `holes` are
    [first, after) ranges of the stream that haven't been seen yet.
    """

    expected: int
    position: int = 0  # stream offset of `expected`, 0 at the first segment seen
    holes: list[tuple[int, int]] = field(default_factory=list)
    late: int = 0  # segments (or parts) that were seen before, or filled a hole
    resent: int = 0  # segments whose bytes had all been seen before
    control: int = 0  # sequence numbers that SYN and FIN took
    disorder: bool = False

    @property
    def payload(self) -> int:
        """Octets of payload from the first segment seen to the last, gaps included."""
        return max(0, self.position - self.control)

    def advance(self, octets: int) -> None:
        """The stream grew by that many octets."""
        self.expected = (self.expected + octets) % _WINDOW
        self.position += octets

    def missing(self) -> int:
        """Bytes of the stream that the capture doesn't hold."""
        return sum(after - first for first, after in self.holes)

    def jump(self, first: int, after: int) -> None:
        """A segment began past what was expected."""
        self.disorder = True
        if len(self.holes) < _MAX_HOLES:
            self.holes.append((first, after))

    def earlier(self, first: int, after: int) -> None:
        """A segment began before what was expected: it fills holes, or was sent again."""
        self.disorder = True
        self.late += 1
        left: list[tuple[int, int]] = []
        filled = False
        for low, high in self.holes:
            if after <= low or first >= high:
                left.append((low, high))
                continue
            filled = True
            if low < first:
                left.append((low, first))
            if after < high:
                left.append((after, high))
        self.holes = left
        self.resent += not filled


@dataclass(slots=True)
class Tracker:
    """All directions of a capture. A SYN begins a new numbering: the (direction, epoch) is the key."""

    directions: dict[tuple[int, int], Direction] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    def feed(self, which: Int64s, sequence: Int64s, length: Int64s, flags: Int64s) -> None:
        """Take some segments, in capture order; `which` numbers their direction."""
        if not len(which):
            return
        syn = (flags & _SYN) != 0
        order = np.argsort(which, kind="stable")
        group, syn, sequence, length = which[order], syn[order], sequence[order], length[order]
        control = syn.astype(np.int64) + ((flags[order] & _FIN) != 0)
        size = length + control
        first = np.ones(len(order), dtype=bool)
        first[1:] = np.diff(group) != 0
        first |= syn
        begins = np.flatnonzero(first)
        states = [self._state(int(group[b]), bool(syn[b]), int(sequence[b])) for b in begins.tolist()]
        label = np.cumsum(first) - 1
        base = np.array([state.expected for state in states], dtype=np.int64)
        relative = ((sequence - base[label] + (_WINDOW >> 1)) % _WINDOW) - (_WINDOW >> 1)
        ends = relative + size
        lift = label * (_WINDOW << 1)  # keeps the running maximum of one run from reaching the next
        reach = np.maximum.accumulate(np.maximum(ends, 0) + lift)
        before = np.empty_like(reach)
        before[1:] = reach[:-1]
        before[begins] = lift[begins]
        before -= lift
        for at in np.flatnonzero((size > 0) & (relative != before)).tolist():
            _note(states[label[at]], int(relative[at]), int(ends[at]), int(before[at]), int(length[at]))
        gains = (reach - lift)[np.append(begins[1:], len(order)) - 1]
        controls = np.bincount(label, weights=control).astype(np.int64)
        for state, gain, extra in zip(states, gains.tolist(), controls.tolist(), strict=True):
            state.advance(gain)
            state.control += extra

    def _state(self, which: int, syn: bool, sequence: int) -> Direction:
        if syn:
            self.epochs[which] = self.epochs.get(which, 0) + 1
        key = (which, self.epochs.get(which, 0))
        state = self.directions.get(key)
        if state is None:
            state = self.directions[key] = Direction(expected=sequence)
        return state


def _note(state: Direction, low: int, high: int, expected: int, length: int) -> None:
    if low > expected:
        state.jump(state.position + expected, state.position + low)
    elif length > 1 or high > expected:  # one byte behind is a keep-alive
        state.earlier(state.position + low, state.position + min(high, expected))
