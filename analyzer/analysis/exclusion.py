"""Whether locks excluded each other, and whether refusals had a reason.

Two holds contradict each other if neither can have ended before the other began, even with every grant at
its latest and every return at its earliest: `first_a < last_b` and `first_b < last_a`. A hold with
`last <= first` lies at some instant in between; an exclusive one also contradicts several shared ones that
overlap and together cover all of that time. For whole-file locks this is so if and only if no order of the
calls is legal. Where ranges are split, or locks change their level while they are held, a contradiction
may stay hidden between calls that overlap in time; none is ever made up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyzer.analysis.columns import Ints
from analyzer.analysis.holds import (
    EXCLUSIVE,
    SHARED,
    Holds,
    LockCalls,
    Pieces,
    certain_holds,
    pieces,
    possible_holds,
)
from analyzer.analysis.intervals import RangeMaximum, by_key, count_before, latest_before

#: Rows of calls and pieces that are looked at together; files beyond that come in another turn.
_CHUNK = 4_000_000


@dataclass(frozen=True, slots=True)
class Overlaps:
    """Holds that contradict each other. `rows` (n, 4): the exclusive one's grant and return, the other's
    grant and return, as rows of the calls (-1: never given back). `beyond_ns`: how long both held it."""

    rows: Ints
    beyond_ns: Ints

    def __len__(self) -> int:
        return len(self.beyond_ns)


@dataclass(frozen=True, slots=True)
class LockJudgement:
    """What one history shows: overlaps within a family, and of flock with fcntl; refused calls that nobody
    can have been the reason of; and how many calls were in another's way."""

    overlaps: Overlaps
    across: Overlaps
    needless: Ints
    rivalled: int


def judge_locks(calls: LockCalls) -> LockJudgement:
    """Judge a history of lock calls; time O(n log n) in calls times pieces."""
    found = [_judge(calls, rows) for rows in _by_file(calls)]
    return LockJudgement(
        _together([f.overlaps for f in found]),
        _together([f.across for f in found]),
        np.concatenate([f.needless for f in found]) if found else np.zeros(0, dtype=np.int64),
        sum(f.rivalled for f in found),
    )


def _by_file(calls: LockCalls) -> list[Ints]:
    """Rows of the calls in turns of whole files, each of bounded size."""
    order = np.argsort(calls.object, kind="stable")
    objects = calls.object[order]
    sizes = np.bincount(objects)
    # at worst every call covers every piece, and each call adds two boundaries
    edges = len(np.unique(calls.low)) + len(np.unique(calls.high))
    weights = np.cumsum(sizes * min(edges, 512))
    turn = weights // _CHUNK
    cuts: Ints = np.flatnonzero(np.diff(turn[objects])) + 1 if len(objects) else order
    return [part for part in np.split(order, cuts) if len(part)]


def _judge(calls: LockCalls, rows: Ints) -> LockJudgement:
    part = calls.take(rows)
    cut = pieces(part)
    keep = ~part.refused[cut.call] | part.flock[cut.call]
    acted = cut if keep.all() else Pieces(cut.call[keep], cut.piece[keep])
    exclusive, shared = _crowded(certain_holds(part, acted, EXCLUSIVE), certain_holds(part, acted, SHARED))
    within: list[Overlaps] = []
    across: list[Overlaps] = []
    for one in (False, True):
        for other in (False, True):
            found = _conflicts(exclusive.take(exclusive.flock == one), shared.take(shared.flock == other))
            (within if one == other else across).append(_unique(found, rows))
    return LockJudgement(
        _together(within), _together(across), rows[_needless(part, cut, acted)], _rivalled(part)
    )


def _crowded(exclusive: Holds, shared: Holds) -> tuple[Holds, Holds]:
    """The holds on pieces where some hold begins for certain before another has ended: on all others, holds
    just follow each other."""
    order = by_key(shared.piece, shared.first)
    piece, first = shared.piece[order], shared.first[order]
    # the greatest end so far, per piece: pieces ascend, so that a rank above the piece keeps them apart
    reach = latest_before(piece, shared.last[order], np.ones(len(order), dtype=bool))
    meets = (reach >= 0) & (first < shared.last[order][np.maximum(reach, 0)])
    if not meets.any():
        return exclusive.take(order[:0]), shared.take(order[:0])
    crowded = np.zeros(int(piece.max()) + 1, dtype=bool)
    crowded[piece[meets]] = True
    return exclusive.take(crowded[exclusive.piece]), shared.take(crowded[shared.piece])


def _conflicts(exclusive: Holds, others: Holds) -> Overlaps:
    """Contradictions of exclusive holds with holds of other owners."""
    if not len(exclusive) or not len(others):
        return Overlaps(np.zeros((0, 4), dtype=np.int64), np.zeros(0, dtype=np.int64))
    order = np.lexsort((others.first, others.piece))
    others = others.take(order)
    greatest = RangeMaximum(others.last)
    # those of the same piece that began before this one ended
    begin = np.searchsorted(others.piece, exclusive.piece)
    stop = begin + count_before(others.piece, others.first, exclusive.piece, exclusive.last)
    own = _own_place(exclusive, others, begin, stop)
    left = greatest.places(begin, np.where(own >= 0, own, stop))
    right = greatest.places(np.where(own >= 0, own + 1, stop), stop)
    best = np.where(_value(others.last, left) >= _value(others.last, right), left, right)
    bad = (best >= 0) & (_value(others.last, best) > exclusive.first)
    cover = np.where(bad | (own >= 0), -1, _covering(exclusive, others))
    bad |= cover >= 0
    one, two = exclusive.take(bad), others.take(np.where(cover >= 0, cover, best)[bad])
    rows = np.stack([one.acquired, one.released, two.acquired, two.released], axis=1)
    return Overlaps(rows, np.maximum(np.minimum(one.last - two.first, two.last - one.first), 1))


def _covering(exclusive: Holds, others: Holds) -> Ints:
    """For each hold whose instant is somewhere in `last..first`: a hold of a chain of overlapping ones that
    covers all of that time, -1 for none. `others` in order of piece and `first`."""
    lasting = np.flatnonzero(others.first < others.last)
    result = np.full(len(exclusive), -1, dtype=np.int64)
    short = np.flatnonzero(exclusive.last <= exclusive.first)
    if not len(lasting) or not len(short):
        return result
    piece, first, last = others.piece[lasting], others.first[lasting], others.last[lasting]
    reach = latest_before(piece, last, np.ones(len(piece), dtype=bool))
    begins = (reach < 0) | (first >= last[np.maximum(reach, 0)])  # no earlier one of the piece reaches in
    chain = np.cumsum(begins) - 1
    chain_end = np.maximum.reduceat(last, np.flatnonzero(begins))
    asked = exclusive.take(short)
    index = np.searchsorted(piece, asked.piece) + count_before(piece, first, asked.piece, asked.last) - 1
    inside = index >= np.searchsorted(piece, asked.piece)
    inside &= chain_end[chain[np.maximum(index, 0)]] > asked.first
    result[short[inside]] = lasting[index[inside]]
    return result


def _value(values: Ints, places: Ints) -> Ints:
    return np.where(places >= 0, values[np.maximum(places, 0)], np.iinfo(np.int64).min)


def _own_place(exclusive: Holds, others: Holds, begin: Ints, stop: Ints) -> Ints:
    """Where the hold of the same owner that contains this one lies in `others`, -1 for none."""
    width = max(int(exclusive.owner.max()), int(others.owner.max())) + 1
    group, asked = others.piece * width + others.owner, exclusive.piece * width + exclusive.owner
    order = np.lexsort((others.first, group))
    earlier = count_before(group, others.first, asked, exclusive.first, inclusive=True)
    place = np.searchsorted(group[order], asked) + earlier - 1
    found = order[np.clip(place, 0, len(others) - 1)]
    good = (earlier > 0) & (found >= begin) & (found < stop)
    return np.where(good, found, -1)


def _unique(found: Overlaps, back: Ints) -> Overlaps:
    """One overlap for each pair of grants (a range is many pieces), as rows of the whole history."""
    if not len(found):
        return found
    pairs = np.sort(found.rows[:, [0, 2]], axis=1)
    order = np.lexsort((-found.beyond_ns, pairs[:, 1], pairs[:, 0]))
    pairs = pairs[order]
    first = np.concatenate([[True], (pairs[1:] != pairs[:-1]).any(axis=1)])
    chosen = order[first]
    rows = found.rows[chosen]
    return Overlaps(np.where(rows >= 0, back[np.maximum(rows, 0)], -1), found.beyond_ns[chosen])


def _together(parts: list[Overlaps]) -> Overlaps:
    if not parts:
        return Overlaps(np.zeros((0, 4), dtype=np.int64), np.zeros(0, dtype=np.int64))
    return Overlaps(np.concatenate([p.rows for p in parts]), np.concatenate([p.beyond_ns for p in parts]))


def _touching(holds: Holds, piece: Ints, owner: Ints, start: Ints, end: Ints) -> Ints:
    """How many holds of other owners on the piece touch `start..end`."""
    width = max(int(holds.owner.max(initial=0)), int(owner.max(initial=0))) + 1
    group, own = holds.piece * width + holds.owner, piece * width + owner

    def near(keys: Ints, asked: Ints) -> Ints:
        began = count_before(keys, holds.first, asked, end, inclusive=True)
        return began - count_before(keys, holds.last, asked, start)

    return near(holds.piece, piece) - near(group, own)


def _needless(calls: LockCalls, cut: Pieces, acted: Pieces) -> Ints:
    """Refused calls in whose range no other owner can have held anything that is in the way."""
    rows = calls.refused[cut.call] & (calls.level[cut.call] > 0)
    if not rows.any():
        return np.zeros(0, dtype=np.int64)
    call, piece = cut.call[rows], cut.piece[rows]
    asked_for = np.zeros(int(cut.piece.max()) + 1, dtype=bool)
    asked_for[piece] = True
    acted = Pieces(acted.call[asked_for[acted.piece]], acted.piece[asked_for[acted.piece]])
    in_the_way = np.zeros(len(call), dtype=bool)
    for level, held in ((EXCLUSIVE, SHARED), (SHARED, EXCLUSIVE)):
        asked = calls.level[call] == level  # an exclusive request is refused for a shared hold, too
        if asked.any():
            which, holds = call[asked], possible_holds(calls, acted, held)
            near = _touching(holds, piece[asked], calls.owner[which], calls.start[which], calls.end[which])
            in_the_way[asked] = near > 0
    excused = np.zeros(len(calls), dtype=bool)
    excused[call[in_the_way]] = True
    return np.flatnonzero(calls.refused & (calls.level > 0) & ~excused)


def _rivalled(calls: LockCalls) -> int:
    """Calls for a lock that were refused, or that another owner's call on the same file overlapped."""
    order = np.lexsort((calls.start, calls.object))
    part = calls.take(order)
    _, key = np.unique(part.object, return_inverse=True)
    reach = latest_before(key.astype(np.int64), part.end, np.ones(len(part), dtype=bool))
    other = np.maximum(reach, 0)
    meets = (reach >= 0) & (part.start < part.end[other]) & (part.owner != part.owner[other])
    wanted = (part.level > 0) | (part.level[other] > 0)
    return int(((meets & wanted) | (part.refused & (part.level > 0))).sum())
