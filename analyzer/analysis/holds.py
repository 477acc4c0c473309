"""Who held which lock when, from the history of lock calls.

Byte ranges are cut at every boundary that some call of the same file used, so that each piece is locked
and unlocked as a whole. On one piece the calls of one owner follow each other; each sets the *level* at
which the owner holds it: 0 nothing, 1 shared, 2 exclusive. Split, merge, upgrade and downgrade need no
cases of their own. For each piece and owner there are

* *certain* holds: from the return of the call that acquired it to the call that gave it back;
* *possible* holds: from the call that acquired it to the return of the call that gave it back.

What may or may not have happened (`info`) lowers what is certain and raises what is possible. A hold that
was never given back is certain until the last call of its owner: after that the owner may have died.

`fcntl` changes the level of a held lock in one step. `flock` may give it up in between (flock(2)): there, a
change of level ends one hold and begins another, and a refused change may have lost the lock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyzer.analysis.columns import Ints, Mask
from analyzer.analysis.intervals import NEVER, runs

SHARED, EXCLUSIVE = 1, 2


@dataclass(frozen=True, slots=True)
class LockCalls:
    """Lock and unlock calls as columns of one length. `object`, `owner`: small numbers; `flock`: of that
    family; `low..high`: bytes, `high` not included; `level` after success; `start`/`end`: widest times
    in ns. `done`: certainly; `refused`: certainly not, the level is as before; neither: may have happened.
    """

    object: Ints
    owner: Ints
    flock: Mask
    low: Ints
    high: Ints
    level: Ints
    start: Ints
    end: Ints
    done: Mask
    refused: Mask

    def __len__(self) -> int:
        return len(self.object)

    def take(self, rows: Ints | Mask) -> LockCalls:
        """The same columns of some rows."""
        return LockCalls(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class Holds:
    """Holds of one level, as columns. `piece`: number of the piece of a file; `first`/`last`: ns;
    `acquired`, `released`: rows of the calls, -1 for a hold that was never given back."""

    piece: Ints
    owner: Ints
    flock: Mask
    first: Ints
    last: Ints
    acquired: Ints
    released: Ints

    def __len__(self) -> int:
        return len(self.piece)

    def take(self, rows: Ints | Mask) -> Holds:
        """The same columns of some rows."""
        return Holds(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class Pieces:
    """Calls by piece: `call[i]` acts on `piece[i]`. In order of piece, owner and family, and time."""

    call: Ints
    piece: Ints


def pieces(calls: LockCalls) -> Pieces:
    """Cut the ranges at the boundaries used in the same file. A call appears once for each piece. `calls`
    are in order of time in each owner."""
    both = np.concatenate([calls.low, calls.high])
    bytes_, rank = np.unique(both, return_inverse=True)
    rank = rank.astype(np.int64).ravel()
    width = len(bytes_)
    ends = np.tile(calls.object, 2) * width + rank
    edges, edge = np.unique(ends, return_inverse=True)
    low, high = edge[: len(calls)].astype(np.int64), edge[len(calls) :].astype(np.int64)
    # stable sorts from the least key to the greatest, the first ones before calls become many
    by_owner = np.argsort(calls.owner * 2 + calls.flock, kind="stable")
    low, high = low[by_owner], high[by_owner]
    count = high - low
    call = np.repeat(by_owner, count)
    begins = np.repeat(np.cumsum(count) - count, count)
    piece = np.repeat(low, count) + np.arange(len(call)) - begins
    narrow = piece.astype(np.uint16) if len(edges) < (1 << 16) else piece  # radix sort for 16 bits
    order = np.argsort(narrow, kind="stable")
    return Pieces(call[order], piece[order])


def certain_holds(calls: LockCalls, cut: Pieces, level: int) -> Holds:
    """Holds of at least `level` that can't have been shorter: grants at their latest, returns at their
    earliest. `first` may lie behind `last`: the hold was then somewhere between."""
    call = cut.call
    same = _continues(calls, cut)
    before, sure_before = _level_before(calls, cut, same)
    new = calls.level[call]
    after = np.where(calls.done[call], new, np.where(sure_before, np.minimum(before, new), 0))
    flock = calls.flock[call]
    dropped = np.cumsum(flock & ~calls.done[call] & (new != before))  # a change that may have lost it
    acted = np.maximum.accumulate(np.where(calls.refused[call] & same, 0, np.arange(len(call))))
    after = np.where(calls.refused[call] & (dropped > dropped[acted]), 0, after)
    after = np.where(flock & ~calls.done[call] & ~calls.refused[call] & (new != before), 0, after)
    changed = flock & (after != np.where(same, np.concatenate([[0], after[:-1]]), 0))
    return _runs_of(calls, cut, after >= level, same, changed, widest=False)


def possible_holds(calls: LockCalls, cut: Pieces, level: int) -> Holds:
    """Holds of at least `level` that can't have been longer: grants at their earliest, returns at their
    latest."""
    call = cut.call
    same = _continues(calls, cut)
    before, sure_before = _level_before(calls, cut, same)
    new = np.where(calls.refused[call], 0, calls.level[call])
    unsure = np.where(sure_before, np.maximum(before, new), EXCLUSIVE)
    after = np.where(calls.done[call], new, unsure)
    none = np.zeros(len(call), dtype=bool)
    return _runs_of(calls, cut, after >= level, same, none, widest=True)


def _level_before(calls: LockCalls, cut: Pieces, same: Mask) -> tuple[Ints, Mask]:
    """The level that the owner had before each row, and whether that is certain. Refused calls in between
    are passed over."""
    call = cut.call
    rows = np.arange(len(call))
    begin = np.maximum.accumulate(np.where(same, 0, rows))
    acting = np.maximum.accumulate(np.where(calls.refused[call], -1, rows))
    last = np.concatenate([[-1], acting[:-1]]) if len(call) else acting
    there = last >= begin
    last = np.maximum(last, 0)
    before = np.where(there, calls.level[call[last]], 0) if len(call) else rows
    sure = ~there | calls.done[call[last]] if len(call) else same
    return before, sure


def _continues(calls: LockCalls, cut: Pieces) -> Mask:
    """True where a row is of the same piece, owner and family as the row before."""
    call, piece = cut.call, cut.piece
    owner, flock = calls.owner[call], calls.flock[call]
    same = (piece[1:] == piece[:-1]) & (owner[1:] == owner[:-1]) & (flock[1:] == flock[:-1])
    return np.concatenate([[False], same]) if len(call) else np.zeros(0, dtype=bool)


def _runs_of(
    calls: LockCalls, cut: Pieces, held: Mask, same: Mask, changed: Mask, *, widest: bool
) -> Holds:
    """One hold for each stretch of rows in `held`."""
    call = cut.call
    held_before = np.where(same, np.concatenate([[False], held[:-1]]), False)
    begins = np.flatnonzero(held & (~held_before | changed))
    # the row after the stretch: the next one that begins a hold, or isn't held, or is another's
    stops = np.flatnonzero(np.concatenate([~held | ~held_before | changed, [True]]))
    stop = stops[np.searchsorted(stops, begins, side="right")]
    own = np.concatenate([same, [False]])[stop]
    release = np.where(own, call[np.minimum(stop, len(call) - 1)], -1) if len(call) else stop
    acquire = call[begins]
    alive = _last_start(calls)
    if widest:
        first, last = calls.start[acquire], np.where(own, calls.end[np.maximum(release, 0)], NEVER)
    else:
        first = calls.end[acquire]
        last = np.where(own, calls.start[np.maximum(release, 0)], alive[calls.owner[acquire]])
    return Holds(
        cut.piece[begins], calls.owner[acquire], calls.flock[acquire], first, last, acquire, release
    )


def _last_start(calls: LockCalls) -> Ints:
    """Start of the last call of each owner: it was alive then."""
    order = np.lexsort((calls.start, calls.owner))
    owners = calls.owner[order]
    first = runs(owners)
    last = np.append(first[1:], len(owners)) - 1
    alive = np.zeros(int(owners.max()) + 1 if len(owners) else 0, dtype=np.int64)
    alive[owners[first]] = calls.start[order[last]]
    return alive
