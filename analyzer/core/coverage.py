"""Coverage: what the input showed, what it lost, and what could therefore not be judged."""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


class Loss(enum.StrEnum):
    """Why answers may be incomplete. The value is the sentence's subject in reports."""

    SNAPLEN = "truncated frames"  # cap_len < len
    GAP = "lost TCP segments"
    CUT = "file cut off"
    MID_START = "begins mid-connection"
    MID_END = "ends mid-call"
    ONE_WAY = "one direction missing"
    UNDECODED = "undecoded messages"
    UNMATCHED = "replies without a call"
    CAPPED = "capped"
    UNREADABLE = "unreadable inputs"
    UNSEEN = "kinds that may not be listed"
    FILTERED = "filtered"


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence of coverage. `loss` is None for plain facts ("seen but not judged").

    `count` is how many frames, bytes or calls; `remedy` says how to get a complete input.
    """

    text: str
    loss: Loss | None = None
    count: int = 0
    remedy: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """A time (both ends included) in which messages may have passed that the input doesn't hold.
    `clients` are the identity keys of those whose messages they may have been; empty: anybody's."""

    first_ns: int
    last_ns: int
    clients: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was seen. `seen` maps a plural noun ("frames", "operations", "clients") to a count.

    Any loss lowers confidence by one step (`degraded`), and a hit that leans on having seen a client all
    the time is withheld where one of the `gaps` falls into that time. `severe` is True where so much is
    missing (more than 1 % of segments, bytes or messages) that finding nothing means nothing: the engine
    then says *unknown* instead of *upheld*. `blind` is True where it is too much for following state over
    time at all, or where it can't be said when the missing messages passed: rules that need that are not
    run. `blind` implies `severe`. `unseen` maps a kind of objects that could not be listed to the reason.
    """

    seen: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    first_ns: int | None = None
    last_ns: int | None = None
    notes: tuple[Note, ...] = ()
    severe: bool = False
    blind: bool = False
    gaps: tuple[Gap, ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)

    @property
    def degraded(self) -> bool:
        """True if anything that a rule may need was lost."""
        return self.severe or bool(self._losses())

    @property
    def doubtful(self) -> bool:
        """True if what was lost may make a finding wrong: that lowers confidence. A manifest that can't
        be read says nothing about what stands in another."""
        return self.severe or bool(self._losses() - {Loss.UNREADABLE, Loss.UNSEEN})

    def _losses(self) -> set[Loss]:
        return {n.loss for n in self.notes if n.loss is not None} - {Loss.MID_END, Loss.FILTERED}


class Gaps:
    """Finds out whether something may have been missed while a hit built up."""

    def __init__(self, gaps: Iterable[Gap]) -> None:
        spans: dict[str | None, list[tuple[int, int]]] = {}
        for gap in gaps:
            for client in gap.clients or (None,):
                spans.setdefault(client, []).append((gap.first_ns, gap.last_ns))
        self._spans = {client: _merged(times) for client, times in spans.items()}

    def within(
        self, when: tuple[int, int] | None, clients: tuple[str, ...] | None
    ) -> tuple[int, int] | None:
        """The first gap in `when` (None: any time) that may concern these clients (None: any client)."""
        asked = list(self._spans) if clients is None else [None, *dict.fromkeys(clients)]
        found = [gap for name in asked if (gap := _first(self._spans.get(name, ()), when)) is not None]
        return min(found, default=None)


def _first(ordered: Sequence[tuple[int, int]], when: tuple[int, int] | None) -> tuple[int, int] | None:
    if not ordered:
        return None
    if when is None:
        return ordered[0]
    first, last = when
    at = max(0, bisect_right(ordered, (first, first)) - 1)  # this one may reach into it
    for low, high in ordered[at : at + 2]:
        if low <= last and high >= first:
            return low, high
    return None


def _merged(times: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(times):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
