"""Waits for locks: what a wait is made of, and waits that go round in a circle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from analyzer.analysis.lock_ranges import Grant, Owner

SECOND = 1_000_000_000
#: Calls of one owner for one range further apart than this are two waits. A Linux client that waits
#: asks at least every 30 s, notified or not; an application that polls does so much more often.
LONGEST_GAP_BLOCKING = 65 * SECOND
LONGEST_GAP_POLLING = 10 * SECOND
#: How long after its last call a blocked client is taken to wait still (its longest pause is 30 s).
LONGEST_PAUSE = 30 * SECOND
#: A waiter that was told by CB_NOTIFY_LOCK and doesn't ask within this time has given up.
LONGEST_ANSWER = SECOND // 5
_MAX_GAPS = 16
_MAX_BLOCKERS = 256
_MAX_WAITS = 64
_MAX_DEPTH = 8


@dataclass(slots=True, eq=False)
class Wait:
    """An open wait. `table` is the lock table of the file; `blockers` are all grants that stood in its
    way, standing or ended; `denied_ns` is the reply of the first DENIED, `last_call_ns` the latest
    LOCK call, `last_ns` the latest DENIED."""

    table: Any
    owner: Owner
    start: int
    stop: int
    write: bool
    blocking: bool
    protocol: str
    asked_ns: int
    denied_ns: int
    at_first: str
    holder: Owner | None
    holder_clientid: str | None
    holder_owner: str | None
    last_call_ns: int
    last_ns: int
    denials: int = 1
    gaps: list[int] = field(default_factory=list)
    blockers: list[Grant] = field(default_factory=list)
    bypassed: int = 0
    notified: bool = False
    notified_ns: int = 0
    granted_lo: int | None = None
    granted_ns: int | None = None
    at_granted: str | None = None
    written: bool = False
    named_spans: list[tuple[int, int]] = field(default_factory=list)
    other_spans: list[tuple[int, int]] = field(default_factory=list)

    def key(self) -> tuple[str, str]:
        """Server and client."""
        return self.table.place.endpoint, self.owner.client

    def again(self, call_ns: int) -> None:
        """Another call for the same range."""
        if len(self.gaps) < _MAX_GAPS:
            self.gaps.append(call_ns - self.last_call_ns)
        self.last_call_ns = max(self.last_call_ns, call_ns)

    def stale(self, call_ns: int) -> bool:
        """Whether a call at that time begins another wait."""
        longest = LONGEST_GAP_BLOCKING if self.blocking else LONGEST_GAP_POLLING
        return call_ns - self.last_call_ns > longest

    def gave_up_by(self, now: int) -> int | None:
        """When it had surely given up: it was told that the lock was free and never asked again."""
        told = self.blocking and self.granted_ns is None and self.notified_ns > self.last_call_ns
        return self.notified_ns if told and now - self.notified_ns >= LONGEST_ANSWER else None

    def blocked_by(self, grant: Grant) -> bool:
        """Whether this grant forbids the lock."""
        overlap = grant.start < self.stop and self.start < grant.stop
        return overlap and (self.write or grant.write)

    def behind(self, grant: Grant) -> None:
        """The grant stands in the way."""
        self.blockers.append(grant)
        if len(grant.waits) > _MAX_WAITS:
            grant.waits = [w for w in grant.waits if not w.written]
        grant.waits.append(self)
        if len(self.blockers) > _MAX_BLOCKERS:
            self._forget_ended()

    def _forget_ended(self) -> None:
        """Keep of the grants that ended their times only (a starved wait sees thousands)."""
        for grant in self.blockers[1:]:
            if grant.ended and grant.release_hi is not None:
                spans = self.named_spans if self.names(grant) else self.other_spans
                spans.append((grant.grant_hi, grant.release_hi))
        self.blockers = self.blockers[:1] + [
            g for g in self.blockers[1:] if not g.ended or g.release_hi is None
        ]

    def names(self, grant: Grant) -> bool:
        """Whether the first DENIED named the owner of this grant."""
        return grant.owner is self.holder

    def close(self) -> None:
        """Its row is written: let go of the grants (they refer to waits, which refer to grants, ...)."""
        self.written = True
        self.blockers = []

    def settled(self) -> bool:
        """Whether the end of everything that stood in the way is known."""
        return all(g.ended for g in self.blockers)


def merged_ns(spans: Iterable[tuple[int, int]], low: int, high: int) -> int:
    """Time in `[low, high]` that at least one of the spans covers."""
    total, reached = 0, low
    for start, stop in sorted(spans):
        begin, end = max(start, reached), min(stop, high)
        if begin < end:
            total += end - begin
            reached = end
    return total


def split(wait: Wait, until: int) -> tuple[int, int, int, int | None]:
    """`(hold_ns, queue_ns, backoff_ns, released_ns)` of the wait up to `until`.

    A grant counts from its reply to the reply of the call that gave it back: what the server knew
    could not be free before, and a slow unlock is not the waiter's back-off. What stood at the first
    DENIED counts from the call on. `released_ns` is None if the named holder's release isn't known."""
    named, others = list(wait.named_spans), list(wait.other_spans)
    released: int | None = None
    known = True
    for grant in wait.blockers:
        start = wait.asked_ns if grant.grant_hi <= wait.denied_ns else grant.grant_hi
        stop = grant.release_hi if grant.ended and grant.release_hi is not None else until
        (named if wait.names(grant) else others).append((start, stop))
        if wait.names(grant):
            if grant.ended and grant.release_hi is not None:
                released = max(released or 0, min(grant.release_hi, until))
            else:
                known = False
    if not named and released is None:
        named.append((wait.asked_ns, until))  # somebody held it; the reply didn't say who or what
        known = False
    hold = merged_ns(named, wait.asked_ns, until)
    both = merged_ns(named + others, wait.asked_ns, until)
    return hold, both - hold, until - wait.asked_ns - both, released if known else None


@dataclass(frozen=True, slots=True)
class Circle:
    """Waits of which each is blocked by an owner (or client) of the next: `edges[i]` is the grant that
    blocked `waits[i]`, held on the side of `waits[i + 1]`."""

    waits: tuple[Wait, ...]
    edges: tuple[Grant, ...]
    same_owners: bool

    def key(self) -> tuple[int, ...]:
        """The same for every walk round the same circle."""
        return tuple(sorted(id(w) for w in self.waits))

    def window(self, input_end: int) -> tuple[int, int, bool]:
        """`(from, until, at_end)`: when all of it surely stood at once (empty if until <= from).

        A wait surely stood from its first DENIED to its last call, or to the call that was granted. One
        that its client gave up stood until then at most.
        With `at_end` no call came after the circle closed, the clients had not yet had to ask again,
        and the input ended on it."""
        begin = max(max(w.denied_ns, g.grant_hi) for w, g in zip(self.waits, self.edges, strict=True))
        freed = [g.release_lo for g in self.edges if g.release_lo is not None]
        asked = [
            (w.gave_up_by(input_end) or w.last_call_ns) if w.granted_lo is None else w.granted_lo
            for w in self.waits
        ]
        until = min(freed + asked)
        quiet = all(
            w.granted_lo is None and w.last_call_ns + LONGEST_PAUSE >= input_end for w in self.waits
        )
        if quiet and not freed:
            return begin, input_end, True
        return begin, until, False


def find_circle(first: Wait, waiting: Mapping[str, Iterable[Wait]], same_owners: bool) -> Circle | None:
    """A circle through `first`, or None. `waiting` holds the open waits of each client.

    Only blocking waits count: who asks now and then holds nothing up for good."""
    target = first.owner
    seen = {id(first)}

    def walk(wait: Wait, path: list[Wait], edges: list[Grant]) -> Circle | None:
        for grant in wait.blockers:
            holder = grant.owner
            if grant.ended or grant.doubt or grant.overtaken or holder.client == wait.owner.client:
                continue
            if holder is target or (not same_owners and holder.client == target.client):
                return Circle(tuple(path), (*edges, grant), same_owners)
            if len(path) >= _MAX_DEPTH:
                continue
            for other in waiting.get(holder.client, ()):
                matches = other.owner is holder or not same_owners
                if matches and other.blocking and id(other) not in seen:
                    seen.add(id(other))
                    found = walk(other, [*path, other], [*edges, grant])
                    if found:
                        return found
        return None

    return walk(first, [first], []) if first.blocking else None
