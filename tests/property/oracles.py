"""Judges of small histories by exhaustive search: slow, and too simple to be wrong.

One history is a list of operations as tuples; times are closed intervals of small numbers, `NEVER` for what
never returned. The checkers judge thousands of histories at once, each as a key of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from analyzer.analysis.intervals import NEVER

State = TypeVar("State", bound=Hashable)


def linearizable(
    times: Sequence[tuple[int, int]],
    step: Callable[[State, int], State | None],
    initial: State,
    order: Sequence[tuple[int, int]] = (),
) -> bool:
    """Whether some order of all operations fits real time and the model. `step(state, i)` is the state
    after operation i, None if it isn't allowed there. What never returned may be left out. `order` holds
    pairs (earlier, later) that are known besides."""
    n = len(times)
    before = [sum(1 << j for j in range(n) if times[j][1] < times[i][0]) for i in range(n)]
    for earlier, later in order:
        before[later] |= 1 << earlier
    must = sum(1 << i for i in range(n) if times[i][1] < NEVER)
    seen = set()
    stack = [(0, initial)]
    while stack:
        done, state = stack.pop()
        if done & must == must:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        for i in range(n):
            if not done >> i & 1 and before[i] & done == before[i]:
                after = step(state, i)
                if after is not None:
                    stack.append((done | 1 << i, after))
    return False


def register(ops: Sequence[tuple[bool, int, int, int]]) -> bool:
    """Operations (write, token, start, end) on one register that holds 0 at first."""

    def step(state: int, i: int) -> int | None:
        write, token, _, _ = ops[i]
        if write:
            return token
        return state if state == token else None

    return linearizable([(s, e) for _, _, s, e in ops], step, 0)


def fresh(ops: Sequence[tuple[bool, int, int, int]]) -> bool:
    """Whether for each read alone some order of it and all writes is legal."""
    writes = [op for op in ops if op[0]]
    return all(register([*writes, op]) for op in ops if not op[0])


@dataclass(frozen=True, slots=True)
class Call:
    """A lock call: sets the level (0, 1 shared, 2 exclusive) of its owner on the pieces `low..high-1`."""

    owner: int
    low: int
    high: int
    level: int
    start: int
    end: int
    refused: bool = False
    flock: bool = False


_GIVE_UP, _REFUSED = -2, -1


def _moves(
    calls: Sequence[Call], starts: dict[int, int]
) -> tuple[list[tuple[Call, int]], list[tuple[int, int]]]:
    """Steps (call, level to set) and their order in each owner. flock changes a level by way of nothing; an
    owner that isn't heard of any more may have died."""
    moves: list[tuple[Call, int]] = []
    order: list[tuple[int, int]] = []
    for owner, last in starts.items():
        own = [call for call in calls if call.owner == owner]
        steps = []
        for call in own:
            if call.flock:
                steps.append((call, _GIVE_UP))
            if not call.refused:
                steps.append((call, call.level))
        steps.append((Call(owner, 0, 9, 0, last, NEVER), 0))
        order += [(len(moves) + i, len(moves) + i + 1) for i in range(len(steps) - 1)]
        moves += steps
    return moves, order


def excluded(calls: Sequence[Call], refusal: Call | None = None, pieces: int = 3) -> bool:
    """Whether some order of the calls never lets two owners hold what excludes each other; with `refusal`
    (one of the refused calls) it must also be refused for a reason. `calls` are in each owner's order.
    What never returned may not have happened."""
    lost = [call for call in calls if call.end == NEVER]
    for count in range(len(lost) + 1):
        for left_out in combinations(lost, count):
            kept = [call for call in calls if not any(call is other for other in left_out)]
            starts = {
                owner: max(c.start for c in calls if c.owner == owner) for owner in {c.owner for c in calls}
            }
            if _excluded(kept, starts, refusal, pieces):
                return True
    return False


def _excluded(calls: Sequence[Call], starts: dict[int, int], refusal: Call | None, pieces: int) -> bool:
    moves, order = _moves(calls, starts)
    owners = max(starts) + 1
    if refusal is not None:
        # where in its owner's order it belongs
        before = [
            i for i, (c, _) in enumerate(moves) if c.owner == refusal.owner and _precedes(calls, c, refusal)
        ]
        after = [i for i, (c, _) in enumerate(moves) if c.owner == refusal.owner and i not in before]
        order += [(i, len(moves)) for i in before] + [(len(moves), i) for i in after]
        moves.append((refusal, _REFUSED))

    def step(state: tuple[int, ...], i: int) -> tuple[int, ...] | None:
        call, level = moves[i]
        if level == _GIVE_UP:
            own = [p * owners + call.owner for p in range(call.low, min(call.high, pieces))]
            return tuple(0 if i in own and held != call.level else held for i, held in enumerate(state))
        wanted = call.level if level < 0 else level
        others = [
            state[p * owners + o]
            for p in range(call.low, min(call.high, pieces))
            for o in range(owners)
            if o != call.owner
        ]
        free = not any((wanted == 2 and held) or (wanted == 1 and held == 2) for held in others)
        if level == _REFUSED:
            return None if free else state
        if not free:
            return None
        now = list(state)
        for p in range(call.low, min(call.high, pieces)):
            now[p * owners + call.owner] = level
        return tuple(now)

    times = [(call.start, call.end) for call, _ in moves]
    return linearizable(times, step, (0,) * (owners * pieces), order)


def _precedes(calls: Sequence[Call], one: Call, other: Call) -> bool:
    return one in calls and calls.index(one) < calls.index(other)
