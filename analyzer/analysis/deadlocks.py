"""Whether a deadlock that the kernel reported can have been one.

A call that failed with EDEADLK is excused if there may have been a circle: it waited for what another
owner may have held, and that owner was in a blocking call of its own that may have waited for the next, and
so on back to the first. If no such circle is possible, EDEADLK was false. (An undetected deadlock breaks no
promise: fcntl(2) lets the kernel miss some, and NFS servers look for none.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from analyzer.analysis.columns import Ints, Mask
from analyzer.analysis.holds import EXCLUSIVE, SHARED, Holds, LockCalls, pieces, possible_holds

#: EDEADLK answers that are looked into, one by one; more say nothing new.
_MOST: Final = 1000


def false_deadlocks(calls: LockCalls, blocking: Mask, deadlocks: Ints) -> Ints:
    """Those of the `deadlocks` (rows of the calls) that no circle explains. `blocking`: those that wait."""
    deadlocks = deadlocks[~calls.flock[deadlocks]]
    if not len(deadlocks):
        return deadlocks
    fcntl = np.flatnonzero(~calls.flock)
    part, waits = calls.take(fcntl), blocking[fcntl]
    asked = np.searchsorted(fcntl, deadlocks[:_MOST])
    cut = pieces(part)
    kept = ~part.refused[cut.call]
    acting = type(cut)(cut.call[kept], cut.piece[kept])
    holds = {level: possible_holds(part, acting, level) for level in (SHARED, EXCLUSIVE)}
    of_call: dict[int, Ints] = {}

    def owners_in_the_way(call: int) -> set[int]:
        if call not in of_call:
            of_call[call] = cut.piece[cut.call == call]
        held = holds[SHARED if part.level[call] == EXCLUSIVE else EXCLUSIVE]
        return _owners(held, of_call[call], int(part.start[call]), int(part.end[call]))

    found = [row for row in asked.tolist() if not _circle(part, waits, row, owners_in_the_way)]
    return fcntl[np.array(found, dtype=np.int64)]


def _owners(held: Holds, piece: Ints, start: int, end: int) -> set[int]:
    near = (held.first <= end) & (held.last >= start)
    rows = np.flatnonzero(near)
    return set(held.owner[rows[np.isin(held.piece[rows], piece)]].tolist())


def _circle(
    calls: LockCalls, waits: Mask, first: int, owners_in_the_way: Callable[[int], set[int]]
) -> bool:
    """Whether the call may have been part of a circle of waiting owners at one time."""
    target = int(calls.owner[first])
    start, end = int(calls.start[first]), int(calls.end[first])
    meanwhile = np.flatnonzero(waits & (calls.level > 0) & (calls.start <= end) & (calls.end >= start))
    by_owner: dict[int, list[int]] = {}
    for row in meanwhile.tolist():
        by_owner.setdefault(int(calls.owner[row]), []).append(row)
    seen: set[int] = set()
    stack = list(owners_in_the_way(first) - {target})
    while stack:
        owner = stack.pop()
        if owner in seen:
            continue
        seen.add(owner)
        for row in by_owner.get(owner, ()):
            blockers = owners_in_the_way(row) - {owner}
            if target in blockers:
                return True
            stack.extend(blockers)
    return False
