"""The register checkers against exhaustive search, on 100,000 random small histories each."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from analyzer.analysis.intervals import NEVER
from analyzer.analysis.register import Accesses, disorder, phantoms, seen_writes, stale_reads
from tests.property import oracles

HISTORIES = 100_000
_BLOCK = 20_000
Op = tuple[bool, int, int, int]


def history(rng: random.Random) -> list[Op]:
    """Up to seven operations around true instants; in most of the histories some reads then lie."""
    count = rng.randint(2, 7)
    span = rng.choice((6, 12, 24))
    points = sorted(rng.randint(0, span) for _ in range(count))
    slack = rng.choice((1, 3, 8))
    value, ops = 0, []
    lying = rng.random() < 0.85
    for i, at in enumerate(points):
        write = rng.random() < 0.5
        start, end = at - rng.randint(0, slack), at + rng.randint(0, slack)
        if write:
            value = i + 1
            lost = rng.random() < 0.15
            ops.append((True, value, start, NEVER if lost else end))
        else:
            ops.append((False, value, start, end))
    if lying:
        tokens = [t for w, t, _, _ in ops if w] + [0]
        if rng.random() < 0.05:
            tokens.append(99)
        ops = [op if op[0] or rng.random() < 0.2 else (False, rng.choice(tokens), *op[2:]) for op in ops]
    rng.shuffle(ops)
    return ops


def columns(histories: list[list[Op]]) -> Accesses:
    flat = [
        (key, w, key * 128 + t if t else 0, s, e) for key, ops in enumerate(histories) for w, t, s, e in ops
    ]
    key, write, token, start, end = (np.array(c) for c in zip(*flat, strict=True))
    return Accesses(key.astype(np.int64), start, end, token, write.astype(bool))


def illegal(histories: list[list[Op]], strict: bool) -> set[int]:
    a = columns(histories)
    seen = seen_writes(a)
    found = [phantoms(a, seen), stale_reads(a, seen)]
    keys = {int(k) for conflicts in found for k in a.key[conflicts.culprit]}
    if strict:
        keys |= {int(k) for k in a.key[disorder(a, seen).culprit]}
    return keys


@pytest.mark.parametrize(
    ("oracle", "strict"), [(oracles.register, True), (oracles.fresh, False)], ids=["linearizable", "fresh"]
)
def test_agrees_with_exhaustive_search(oracle: Callable[[list[Op]], bool], strict: bool) -> None:
    rng = random.Random(4)
    legal = 0
    for _ in range(HISTORIES // _BLOCK):
        histories = [history(rng) for _ in range(_BLOCK)]
        found = illegal(histories, strict)
        for key, ops in enumerate(histories):
            truth = oracle(ops)
            legal += truth
            assert truth == (key not in found), ops
    assert 0.2 < legal / HISTORIES < 0.8, "both verdicts must be common"
