"""The lock checkers against exhaustive search, on 100,000 random small histories each."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from analyzer.analysis.exclusion import LockJudgement, judge_locks
from analyzer.analysis.holds import LockCalls
from analyzer.analysis.intervals import NEVER
from tests.property import oracles
from tests.property.oracles import Call

HISTORIES = 100_000
_BLOCK = 10_000


def history(rng: random.Random, *, ranges: bool, shared: bool, flock: bool, refusals: bool) -> list[Call]:
    """Two or three owners that lock and unlock; in some histories they take care to exclude each other."""
    calls = []
    careful = rng.random() < 0.25
    free_at = 0
    for owner in range(rng.choice((2, 2, 3))):
        at, level = rng.randint(0, 3), 0
        for _ in range(rng.randint(1, 4 if owner < 2 else 2)):
            low, high = (0, 3)
            if ranges:
                low = rng.randint(0, 2)
                high = rng.randint(low + 1, 3)
            wanted = rng.choice((0, 1, 2) if shared else (2,)) if level == 0 or shared else 0
            if careful and level == 0 and wanted:
                at = max(at, free_at - rng.randint(0, 3))
            start, end = at, at + rng.randint(0, 2)
            refused = refusals and wanted > 0 and rng.random() < 0.3
            lost = not refused and rng.random() < 0.04
            calls.append(Call(owner, low, high, wanted, start, NEVER if lost else end, refused, flock))
            level = level if refused else wanted
            at = end + rng.randint(0, 4)
            free_at = max(free_at, at) if careful else free_at
            if lost:
                break
    return calls


def columns(histories: Sequence[Sequence[Call]]) -> tuple[LockCalls, list[tuple[int, Call]]]:
    flat = [(key, call) for key, calls in enumerate(histories) for call in calls]
    rng = np.random.default_rng(1)
    shuffle = rng.permutation(len(flat))
    # owners keep their order where times are equal
    flat = [flat[i] for i in sorted(shuffle, key=lambda i: (flat[i][0], flat[i][1].owner, i))]
    ints = np.array(
        [(k, k * 4 + c.owner, c.low, c.high, c.level, c.start, c.end) for k, c in flat], dtype=np.int64
    ).T
    refused = np.array([c.refused for _, c in flat])
    done = np.array([not c.refused and c.end < NEVER for _, c in flat])
    flock = np.array([c.flock for _, c in flat])
    key, owner, low, high, level, start, end = ints
    return LockCalls(key, owner, flock, low, high, level, start, end, done, refused), flat


def judged(histories: Sequence[Sequence[Call]]) -> tuple[LockJudgement, LockCalls, list[tuple[int, Call]]]:
    calls, flat = columns(histories)
    return judge_locks(calls), calls, flat


def converts(calls: Sequence[Call]) -> bool:
    """Whether a held lock changes its level, or a call raises one piece and lowers another."""
    held: dict[tuple[int, int], int] = {}
    for call in calls:
        if call.refused:
            continue
        pieces = [(call.owner, p) for p in range(call.low, call.high)]
        before = {held.get(p, 0) for p in pieces}
        if (call.level and before - {0, call.level}) or (call.level == 0 and len(before) > 1):
            return True
        held.update(dict.fromkeys(pieces, call.level))
    return False


MODES = {
    "exclusive": {"ranges": False, "shared": False, "flock": False, "refusals": False},
    "shared": {"ranges": False, "shared": True, "flock": False, "refusals": False},
    "ranges": {"ranges": True, "shared": True, "flock": False, "refusals": False},
    "flock": {"ranges": False, "shared": True, "flock": True, "refusals": True},
}


@pytest.mark.parametrize("mode", list(MODES))
def test_exclusion_agrees_with_exhaustive_search(mode: str) -> None:
    """Never a false alarm, and nothing is missed where locks cover the file and keep their level."""
    rng = random.Random(5)
    legal = wrong = missed = 0
    for _ in range(HISTORIES // _BLOCK):
        histories = [history(rng, **MODES[mode]) for _ in range(_BLOCK)]
        judgement, calls, _ = judged(histories)
        found = {int(k) for k in calls.object[judgement.overlaps.rows[:, 0]]}
        for key, one in enumerate(histories):
            truth = oracles.excluded(one)
            legal += truth
            wrong += not truth
            if not truth and key not in found and (mode == "ranges" or converts(one)):
                missed += 1
                continue
            assert truth == (key not in found), one
    assert 0.1 < legal / HISTORIES < 0.9, "both verdicts must be common"
    assert missed < 0.05 * wrong


def test_refusals_without_a_reason_are_never_made_up() -> None:
    rng = random.Random(6)
    flagged = needless = 0
    for _ in range(HISTORIES // _BLOCK):
        histories = [
            history(rng, ranges=bool(i % 2), shared=bool(i % 3), flock=False, refusals=True)
            for i in range(_BLOCK)
        ]
        judgement, _, flat = judged(histories)
        found = {id(flat[i][1]) for i in judgement.needless}
        for one in histories:
            for call in one:
                if not call.refused:
                    continue
                possible = oracles.excluded(one, call)
                if id(call) in found:
                    flagged += 1
                    assert not possible, (call, one)
                elif not possible and oracles.excluded(one):
                    needless += 1
    assert flagged > 2 * needless, "most of what exhaustive search finds is found"
