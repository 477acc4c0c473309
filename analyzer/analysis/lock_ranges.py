"""The byte ranges that lock owners hold on one file: lock, split, upgrade, downgrade, unlock.

Rules of RFC 8881 sections 18.10 and 18.12, those of POSIX record locks: an owner's new lock replaces
its old ones where they overlap; a lock or unlock of a part splits; owners conflict where ranges overlap
and one of the two is a write lock. Ranges are half open, `[start, stop)`, with `EOF` as the stop of
a lock to the end of the file. Neighbours aren't merged: two grants have two times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Stop of a range that reaches to the end of the file: one beyond the largest offset (2**64 - 1).
EOF = 1 << 64


def stop_of(offset: int, length: int) -> int:
    """End of the range `offset`+`length` (`length` -1 = to the end of the file)."""
    return EOF if length < 0 else offset + length


def length_of(start: int, stop: int) -> int:
    """Length as the operations table has it: -1 = to the end of the file."""
    return -1 if stop >= EOF else stop - start


@dataclass(slots=True, eq=False)
class Owner:
    """A lock owner of one client. `name` is None where only the lock stateid is known.

    `open_stateid`: the open under which it first locked; `used_lo`: start of the last successful
    call with its lock stateid (proof that the server still knew it)."""

    client: str
    name: str | None
    open_stateid: str | None = None
    used_lo: int = -1


@dataclass(slots=True, eq=False)
class Grant:
    """One range held by one owner. The server granted it in [`grant_lo`, `grant_hi`] and it ended in
    [`release_lo`, `release_hi`]; `ended` is "" while it stands.

    `inferred`: only a DENIED told of it, and it stood at `grant_hi`. `doubt`: why it may be gone, since
    `doubt_ns`, although no call gave it back (restart, expired). `overtaken`: the server granted a
    conflicting range while this one seemed to stand. `reclaimed`: got back in a grace period. `waits`,
    `overlaps`, `trespasses` and `refusals` belong to the lock table: what to look at when it ends."""

    owner: Owner
    start: int
    stop: int
    write: bool
    grant_lo: int
    grant_hi: int
    at: str
    inferred: bool = False
    reclaimed: bool = False
    doubt: str = ""
    doubt_ns: int = 0
    overtaken: bool = False
    release_lo: int | None = None
    release_hi: int | None = None
    ended: str = ""
    at_end: str | None = None
    waits: list[Any] = field(default_factory=list)
    overlaps: list[Any] = field(default_factory=list)
    trespasses: list[Any] = field(default_factory=list)
    refusals: list[Any] = field(default_factory=list)

    def suspect(self, why: str, when: int) -> None:
        """It may be gone since that time; the first reason counts."""
        if not self.doubt:
            self.doubt, self.doubt_ns = why, when

    def part(self, start: int, stop: int) -> Grant:
        """The same grant for a part of its range, with the same watchers."""
        return Grant(
            self.owner,
            start,
            stop,
            self.write,
            self.grant_lo,
            self.grant_hi,
            self.at,
            self.inferred,
            self.reclaimed,
            self.doubt,
            self.doubt_ns,
            self.overtaken,
            waits=list(self.waits),
            overlaps=list(self.overlaps),
            trespasses=list(self.trespasses),
        )


class Ranges:
    """All standing grants on one file."""

    __slots__ = ("grants",)

    def __init__(self) -> None:
        self.grants: list[Grant] = []

    def of(self, owner: Owner, start: int = 0, stop: int = EOF) -> list[Grant]:
        """The owner's grants that overlap `[start, stop)`."""
        return [g for g in self.grants if g.owner is owner and g.start < stop and start < g.stop]

    def conflicts(self, owner: Owner | None, start: int, stop: int, write: bool) -> list[Grant]:
        """Grants of others that forbid this lock."""
        return [
            g
            for g in self.grants
            if g.start < stop and start < g.stop and g.owner is not owner and (write or g.write)
        ]

    def cut(self, grant: Grant, start: int, stop: int) -> list[Grant]:
        """Take `[start, stop)` out of one grant; it shrinks to what was taken out and leaves the table.

        Returns the parts that stay (none, one or two), which are in the table."""
        self.grants.remove(grant)
        parts = []
        if grant.start < start:
            parts.append(grant.part(grant.start, start))
        if stop < grant.stop:
            parts.append(grant.part(stop, grant.stop))
        self.grants.extend(parts)
        grant.start, grant.stop = max(grant.start, start), min(grant.stop, stop)
        return parts


def uncovered(start: int, stop: int, kept: list[Grant]) -> list[tuple[int, int]]:
    """The parts of `[start, stop)` that none of `kept` covers, in order."""
    gaps = []
    for grant in sorted(kept, key=lambda g: g.start):
        if start < grant.start:
            gaps.append((start, grant.start))
        start = max(start, grant.stop)
    if start < stop:
        gaps.append((start, stop))
    return gaps
