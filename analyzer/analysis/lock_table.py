"""The lock table of one file: grants, waits, and what becomes of them when a grant ends.

Operations come in the order of their replies. A reply that took effect first may come second, so that
nothing is concluded when a grant seems to collide with another: the pair is remembered and judged when
the older one ends. The call that ends it says whether the two surely overlapped.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from analyzer.analysis.lock_collisions import (
    GIVEN_BACK,
    Lost,
    Overlap,
    Place,
    confirmed,
    conflict,
    lost_row,
    note_write,
    type_name,
)
from analyzer.analysis.lock_contention import Contention
from analyzer.analysis.lock_ranges import EOF, Grant, Owner, Ranges, length_of, stop_of, uncovered
from analyzer.analysis.lock_waits import Wait
from analyzer.analysis.locks import LockConflict, LockHold, LockLost, LockTrespass
from analyzer.core.operations import Operation

TableRow = LockHold | LockConflict | LockLost | LockTrespass

#: LockHold rows per file (`Sink` caps them over all files).
MAX_HOLDS = 2_000
#: Standing grants and open waits per file; beyond that the oldest is forgotten.
MAX_GRANTS = 1_024
MAX_WAITS = 1_024
_MAX_LOST = 64
_MAX_OVERLAPS = 64
_MAX_REFUSALS = 16
#: A kernel notes a lock a little after the server granted it, and lets the next process ask before the
#: unlock of the one before is out: calls that close together say nothing of a disagreement.
_RACE_NS = 10_000_000


class Want(NamedTuple):
    """What a LOCK call asks for."""

    owner: Owner
    start: int
    stop: int
    write: bool


class End(NamedTuple):
    """How, when and where a grant ends. `low`, `high`: the call that gave it back was sent and answered;
    `high` is None if the grant's end at the server is unknown, and `low` is when it was known at last."""

    ended: str
    low: int | None
    high: int | None
    at: str | None


class Sink(Protocol):
    """Where a table's rows go."""

    def row(self, row: TableRow) -> None:
        """A finished row."""

    def hold_allowed(self) -> bool:
        """Whether one more LockHold fits into the cap over all files."""

    def opened(self, wait: Wait) -> None:
        """A wait began."""

    def finished(self, wait: Wait) -> None:
        """A wait is over and everything about it is known."""

    def refused(self, op: Operation, place: Place, want: Want, reason: str) -> None:
        """A LOCK that was refused for a reason of its own."""


class LockTable:
    """Locks of one file at one server."""

    __slots__ = (
        "_end_ns",
        "_holds",
        "_recent",
        "_sink",
        "counts",
        "lost",
        "place",
        "ranges",
        "troubled",
        "waits",
    )

    def __init__(self, place: Place, sink: Sink) -> None:
        self.place = place
        self.ranges = Ranges()
        self.waits: dict[Want, Wait] = {}
        self.lost: list[Lost] = []
        self.counts = Contention()
        self.troubled = False  # whether a lock was ever overtaken or lost here
        self._sink = sink
        self._recent: deque[Grant] = deque(maxlen=8)
        self._holds = 0
        self._end_ns = 0

    @property
    def contended(self) -> bool:
        """Whether a LOCK was ever denied here."""
        return self.counts.denials > 0

    @property
    def idle(self) -> bool:
        """Whether nothing stands, waits, or was lost."""
        return not (self.ranges.grants or self.waits or self.lost)

    def clients(self) -> set[str]:
        """Clients that hold or have lost locks here."""
        return {g.owner.client for g in self.ranges.grants} | {x.client for x in self.lost}

    def ended_ns(self) -> int:
        """When the last grant ended."""
        last = self._recent[-1].release_hi if self._recent else None
        return last or 0

    # grants

    def grant(self, op: Operation, want: Want) -> None:
        """A LOCK that succeeded."""
        wait = self.waits.pop(want, None) if self.waits else None
        if wait is not None and wait.stale(op.start_lo):
            self._sink.finished(wait)
            wait = None
        asked = op.start_lo if wait is None else wait.asked_ns
        kept: list[Grant] = []
        overtaken: list[Grant] = []
        if self.ranges.grants:
            kept = self._own(op, want)
            overtaken = self._others(op, want)
        at = op.at_return or op.at_call
        for low, high in uncovered(want.start, want.stop, kept):
            new = Grant(want.owner, low, high, want.write, op.start_lo, op.end_hi, at)
            new.reclaimed = bool(op.reclaim)
            self._add(new, overtaken, asked)
        self.counts.grants += 1
        if self.contended:
            self.counts.last_ns = op.end_hi
            self.counts.held(want.owner.client, 1, 0, 0)
        if wait is not None:
            wait.again(op.start_lo)
            wait.granted_lo, wait.granted_ns, wait.at_granted = op.start_lo, op.end_hi, at
            if wait.settled():
                self._sink.finished(wait)

    def _add(self, new: Grant, overtaken: list[Grant], asked: int) -> None:
        self.ranges.grants.append(new)
        for old in overtaken:
            low, high = max(old.start, new.start), min(old.stop, new.stop)
            if low < high and len(old.overlaps) < _MAX_OVERLAPS:
                old.overlaps.append(Overlap(old, new, low, high))
        for wait in self.waits.values():
            if wait.owner is not new.owner and wait.blocked_by(new):
                wait.behind(new)
                if asked > wait.denied_ns:
                    wait.bypassed += 1
        if len(self.ranges.grants) > MAX_GRANTS:
            self._end(self.ranges.grants[0], 0, EOF, End("open", None, None, None))

    def _own(self, op: Operation, want: Want) -> list[Grant]:
        """The owner's grants that go on under the new lock; ends those that it replaces."""
        kept = []
        for grant in self.ranges.of(want.owner, want.start, want.stop):
            same = grant.write == want.write
            if grant.inferred and same and op.start_lo < grant.grant_hi:
                # A DENIED told of this lock before its own reply was seen.
                grant.inferred = False
                grant.grant_lo, grant.grant_hi = op.start_lo, op.end_hi
                grant.at = op.at_return or op.at_call
                kept.append(grant)
            elif same and not grant.inferred and not grant.overtaken and (op.reclaim or not grant.doubt):
                grant.doubt = ""
                grant.reclaimed = grant.reclaimed or bool(op.reclaim)
                kept.append(grant)
            else:
                # An owner that locks again what it seems to hold, after another had it: the unlock
                # was missed, so that the old grant proves nothing.
                ended = "upgrade" if not same else (grant.doubt or "lost")
                self._end(grant, want.start, want.stop, End(ended, op.start_lo, op.end_hi, op.at_call))
        return kept

    def _others(self, op: Operation, want: Want) -> list[Grant]:
        """Grants of others that seem to stand in the way of a lock that the server granted."""
        standing = []
        at = op.at_return or op.at_call
        for old in self.ranges.conflicts(*want):
            if old.doubt or old.inferred:
                if old.doubt:
                    self._remember(Lost(old, op.end_hi, want.owner.client, at, op.end_hi))
                self._end(old, want.start, want.stop, End(old.doubt or "unlock", op.end_hi, None, at))
            else:
                old.overtaken = True
                self.troubled = True
                standing.append(old)
        return standing

    # releases

    def release(self, op: Operation, owner: Owner, start: int, stop: int, ended: str) -> None:
        """A LOCKU or CLOSE that took the owner's locks in this range."""
        for grant in self.ranges.of(owner, start, stop):
            self._end(grant, start, stop, End(ended, op.start_lo, op.end_hi, op.at_call))

    def lose(self, grant: Grant, op: Operation, ended: str, cause: str) -> None:
        """The server said, or its client's recovery shows, that this lock is gone."""
        newer = next((o.newer for o in grant.overlaps), None)
        when, at = op.end_hi, op.at_return or op.at_call
        lost = Lost(grant, when, newer and newer.owner.client, at, newer and newer.grant_hi)
        self._remember(lost)
        self.report_lost(lost, cause, op)
        self._end(grant, 0, EOF, End(ended, when, None, at))

    def report_lost(self, lost: Lost, cause: str, op: Operation) -> None:
        """Write the LockLost row, once."""
        self._write(lost_row(self.place, lost, cause, op.at_return or op.at_call))

    def _remember(self, lost: Lost) -> None:
        self.troubled = True
        if len(self.lost) >= _MAX_LOST:
            self.lost.pop(0)
        self.lost.append(lost)

    def _write(self, row: TableRow | None) -> None:
        if row is not None:
            self._sink.row(row)

    def _end(self, grant: Grant, start: int, stop: int, end: End) -> None:
        for part in self.ranges.cut(grant, start, stop):
            for wait in part.waits:
                wait.blockers.append(part)
        grant.ended, grant.release_lo, grant.release_hi, grant.at_end = end
        self._recent.append(grant)
        if self.contended:
            self._hold(grant)
        for overlap in grant.overlaps:
            if end.ended in GIVEN_BACK and end.low is not None:
                self._write(conflict(self.place, overlap, grant, end.low))
        for trespass in grant.trespasses:
            if end.low is not None and (end.ended in GIVEN_BACK or end.ended == "close"):
                self._write(confirmed(self.place, trespass, grant, end.low))
        for op, want in grant.refusals:
            if end.low is None or end.ended not in GIVEN_BACK or end.low > op.start_lo + _RACE_NS:
                self._sink.refused(op, self.place, want, "own client")
        for wait in grant.waits:
            if wait.granted_ns is not None and wait.settled():
                self._sink.finished(wait)

    def _hold(self, grant: Grant) -> None:
        end = grant.release_lo
        self.counts.held(grant.owner.client, 0, grant.grant_hi, self._end_ns if end is None else end)
        if self._holds >= MAX_HOLDS or not self._sink.hold_allowed():
            self.counts.left_out += 1
            return
        self._holds += 1
        self._sink.row(
            LockHold(
                endpoint=self.place.endpoint,
                client=grant.owner.client,
                owner=grant.owner.name,
                object=self.place.object,
                path=self.place.path,
                offset=grant.start,
                length=length_of(grant.start, grant.stop),
                lock_type=type_name(grant.write),
                start_ns=grant.grant_hi,
                end_ns=None if end is None else max(end, grant.grant_hi),
                ended=grant.ended,
                at_start=grant.at,
                at_end=grant.at_end,
            )
        )

    # WRITEs

    def wrote(self, op: Operation, client: str) -> None:
        """A WRITE that succeeded: remember it with each write lock of another client that it met."""
        start, stop = op.offset, stop_of(op.offset, op.bytes or op.length or 0)
        met = [g for g in self.ranges.grants if g.start < stop and start < g.stop]
        mine = [g for g in met if g.owner.client == client]
        older = next((g for g in mine if g.overtaken), None)
        if mine and older is None:
            return
        lost = next((x for x in self.lost if x.client == client and x.meets(start, stop)), None)
        for grant in met:
            others = grant.write and grant.owner.client != client
            if others and grant.grant_hi < op.start_lo and not grant.doubt:
                note_write(grant, op, client, lost, older)

    # waits

    def deny(self, op: Operation, want: Want, holder: Owner | None) -> Wait:
        """A LOCK that was DENIED, for a lock that `holder` has if the reply says so."""
        past = [] if holder is None else self._holder_seen(op, want, holder)
        wait = self.waits.get(want)
        if wait is not None and wait.stale(op.start_lo):
            self._sink.finished(self.waits.pop(want))
            wait = None
        self.counts.denied(op, first=wait is None)
        if wait is None:
            wait = self._open(op, want, holder)
            for grant in past:
                wait.behind(grant)
        else:
            wait.again(op.start_lo)
            wait.last_ns = max(wait.last_ns, op.end_hi)
            wait.denials += 1
        for grant in self.ranges.conflicts(*want):
            doubtful = grant.overtaken or grant.doubt
            if wait not in grant.waits and (not doubtful or wait.names(grant)):
                wait.behind(grant)
        return wait

    def denied_by_own(self, op: Operation, want: Want, holder: Owner) -> None:
        """A DENIED by another owner of the asking client. It is told when that lock ends: only then is
        it known whether the two calls merely raced."""
        for grant in self.ranges.of(holder, want.start, want.stop)[:1]:
            late = grant.inferred or op.start_lo > grant.grant_hi + _RACE_NS
            if late and len(grant.refusals) < _MAX_REFUSALS:
                grant.refusals.append((op, want))

    def _open(self, op: Operation, want: Want, holder: Owner | None) -> Wait:
        if len(self.waits) >= MAX_WAITS:
            self._sink.finished(self.waits.pop(next(iter(self.waits))))
        wait = Wait(
            table=self,
            owner=want.owner,
            start=want.start,
            stop=want.stop,
            write=want.write,
            blocking=bool(op.blocking),
            protocol=op.protocol or "nfs4.1",
            asked_ns=op.start_lo,
            denied_ns=op.end_hi,
            at_first=op.at_return,
            holder=holder,
            holder_clientid=op.holder_clientid,
            holder_owner=op.holder_owner,
            last_call_ns=op.start_lo,
            last_ns=op.end_hi,
        )
        self.waits[want] = wait
        self._sink.opened(wait)
        return wait

    def _holder_seen(self, op: Operation, want: Want, holder: Owner) -> list[Grant]:
        """Make sure that the table holds the lock which a DENIED names; returns it if it ended since.

        The release may have been answered before the DENIED was, though it came second."""
        for grant in self.ranges.of(holder, want.start, want.stop):
            if want.write or grant.write:
                grant.doubt = ""  # the server says that it stands
                return []
        for grant in self._recent:
            late = grant.release_hi is not None and grant.release_hi >= op.start_lo
            if late and grant.owner is holder and grant.start < want.stop and want.start < grant.stop:
                return [grant]
        if op.holder_offset is None or len(self.ranges.grants) >= MAX_GRANTS:
            return []
        low = op.holder_offset
        high = stop_of(low, op.holder_length or -1)  # ganesha says 0 for "to the end"
        write, at = op.holder_type != "read", op.at_return
        for start, stop in uncovered(low, high, self.ranges.of(holder)):
            found = Grant(holder, start, stop, write, op.start_lo, op.end_hi, at, inferred=True)
            self.ranges.grants.append(found)
        return []

    def finish(self, input_end: int) -> None:
        """The input ended: close what stands and what waits."""
        self._end_ns = input_end
        for grant in list(self.ranges.grants):
            for overlap in grant.overlaps:
                # Not given back in the input, but its lock stateid was good after the other grant.
                self._write(conflict(self.place, overlap, grant, grant.owner.used_lo))
            for trespass in grant.trespasses:
                if not (grant.doubt or grant.overtaken):
                    self._write(confirmed(self.place, trespass, grant, EOF))
            ended = grant.doubt or ("lost" if grant.overtaken else "open")
            known = grant.doubt_ns if grant.doubt else None
            self._end(grant, 0, EOF, End(ended, known, None, None))
        for wait in list(self.waits.values()):
            self._sink.finished(wait)
        self.waits.clear()
