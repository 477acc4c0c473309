"""Collisions on one file's locks: two grants at once, locks that were lost, WRITEs into another's lock.

Each is noted when it seems to happen and judged when the grant that it leans on is given back: only the
call that ends a grant says until when it surely stood.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from analyzer.analysis.lock_ranges import Grant, length_of, stop_of
from analyzer.analysis.locks import LockConflict, LockLost, LockTrespass
from analyzer.core.operations import Operation

#: How a grant ends if its owner gave it back by a call that needs a valid lock stateid.
GIVEN_BACK = ("unlock", "upgrade")
_MAX_WRITES = 64
_MAX_PROOF = 4


class Place(NamedTuple):
    """Which file at which server."""

    endpoint: str
    object: str
    path: str | None


def type_name(write: bool) -> str:
    """`lock_type` of a row."""
    return "write" if write else "read"


@dataclass(slots=True, eq=False)
class Overlap:
    """Two grants that seem to collide in `[start, stop)`; `older` was there first."""

    older: Grant
    newer: Grant
    start: int
    stop: int
    done: bool = False


@dataclass(slots=True, eq=False)
class Lost:
    """A lock that its owner never gave back and no longer has."""

    grant: Grant
    lost_ns: int
    next_client: str | None
    at: str
    next_ns: int | None = None
    reported: bool = False

    @property
    def client(self) -> str:
        """Who had it."""
        return self.grant.owner.client

    def meets(self, start: int, stop: int) -> bool:
        """Whether the lost range overlaps this one."""
        return self.grant.start < stop and start < self.grant.stop


@dataclass(slots=True, eq=False)
class Trespass:
    """WRITEs of one client into a range that another holds: `(end, bytes)` of each.

    `older` is a grant of the writer that the holder's grant seemed to collide with."""

    client: str
    offset: int
    length: int
    first_ns: int
    lost: Lost | None
    older: Grant | None
    at: list[str] = field(default_factory=list)
    writes: list[tuple[int, int]] = field(default_factory=list)
    done: bool = False


def conflict(place: Place, overlap: Overlap, ending: Grant, until: int) -> LockConflict | None:
    """The row if both grants surely stood at once.

    `ending` is the older grant, or the part of it that was proven to stand until `until`."""
    older, newer = overlap.older, overlap.newer
    if overlap.done or ending.start >= overlap.stop or overlap.start >= ending.stop:
        return None
    if older.owner.client == newer.owner.client and None in (older.owner.name, newer.owner.name):
        return None  # perhaps one owner under two stateids
    overlap.done = True
    if newer.doubt or newer.ended not in ("", "close", *GIVEN_BACK):
        return None
    begin = max(ending.grant_hi, newer.grant_hi)
    until = until if newer.release_lo is None else min(until, newer.release_lo)
    if until <= begin:
        return None
    proof = dict.fromkeys((ending.at, newer.at, ending.at_end, newer.at_end))
    return LockConflict(
        endpoint=place.endpoint,
        object=place.object,
        path=place.path,
        offset=overlap.start,
        length=length_of(overlap.start, overlap.stop),
        first_client=older.owner.client,
        first_owner=older.owner.name,
        first_type=type_name(older.write),
        second_client=newer.owner.client,
        second_owner=newer.owner.name,
        second_type=type_name(newer.write),
        from_ns=begin,
        until_ns=until,
        evidence=tuple(p for p in proof if p),
        since_ns=older.grant_lo,
    )


def lost_row(place: Place, lost: Lost, cause: str, at: str) -> LockLost | None:
    """The row, the first time that it is asked for."""
    if lost.reported:
        return None
    lost.reported = True
    grant = lost.grant
    return LockLost(
        endpoint=place.endpoint,
        client=grant.owner.client,
        owner=grant.owner.name,
        object=place.object,
        path=place.path,
        offset=grant.start,
        length=length_of(grant.start, grant.stop),
        lock_type=type_name(grant.write),
        cause=cause,
        held_since_ns=None if grant.inferred else grant.grant_hi,
        lost_ns=lost.lost_ns,
        next_client=lost.next_client,
        evidence=tuple(dict.fromkeys((grant.at, lost.at, at))),
        next_ns=lost.next_ns,
    )


def note_write(grant: Grant, op: Operation, client: str, lost: Lost | None, older: Grant | None) -> None:
    """Remember a WRITE of `client` that met another's grant."""
    found = next((t for t in grant.trespasses if t.client == client and t.lost is lost), None)
    if found is None:
        found = Trespass(client, op.offset, op.bytes or 0, op.start_lo, lost, older)
        grant.trespasses.append(found)
    if len(found.writes) < _MAX_WRITES:
        found.writes.append((op.end_hi, op.bytes or 0))
        if len(found.at) < _MAX_PROOF:
            found.at.append(op.at_call)


def confirmed(place: Place, trespass: Trespass, ending: Grant, until: int) -> LockTrespass | None:
    """The row for those WRITEs that were answered before the lock was given back at `until`."""
    sure = [(end, size) for end, size in trespass.writes if end < until]
    stop = stop_of(trespass.offset, trespass.length)
    if trespass.done or not sure or ending.start >= stop or trespass.offset >= ending.stop:
        return None
    trespass.done = True
    older = trespass.older
    if older is not None and any(o.done for o in older.overlaps):
        return None  # both held it: that is a conflict, and reported as one
    gone = trespass.lost is not None or (older is not None and older.ended not in GIVEN_BACK)
    since = trespass.lost.lost_ns if trespass.lost else (ending.grant_hi if gone else None)
    proof = (ending.at, *trespass.at, ending.at_end)
    own = trespass.lost.grant if trespass.lost else older
    followed = [ending.grant_lo, *([own.grant_lo] if own else [])]
    return LockTrespass(
        endpoint=place.endpoint,
        client=trespass.client,
        object=place.object,
        path=place.path,
        offset=trespass.offset,
        length=trespass.length,
        holder_client=ending.owner.client,
        holder_owner=ending.owner.name,
        writes=len(sure),
        bytes=sum(size for _, size in sure),
        first_ns=trespass.first_ns,
        last_ns=sure[-1][0],
        lost=gone,
        lost_ns=since,
        released=bool(ending.ended),
        evidence=tuple(p for p in proof if p),
        since_ns=min(followed),
    )
