"""Every planted fault is found with the right witness, and nothing is found without one."""

from __future__ import annotations

import pyarrow as pa
import pytest

import analyzer.analysis
from analyzer.analysis.breaches import Audit, Breach
from analyzer.analysis.staleness import StalenessRow
from analyzer.core.operations import validate
from analyzer.core.rule import Fold, discover, run_folds
from analyzer.core.schema import HISTORY_SCHEMA
from analyzer.core.table import Tables
from tests.simulate.workloads import ALL, staleness
from tests.simulate.world import MS, World

FOLDS = [fold for fold in discover(analyzer.analysis, "FOLD", Fold) if fold.witness == "client"]
SEEDS = range(6)
FAULTS = [(name, fault, promise) for name, (_, faults) in ALL.items() for fault, promise in faults.items()]


def judged(batch: pa.RecordBatch) -> Tables:
    validate(batch, HISTORY_SCHEMA)
    tables = Tables()
    # in small batches, as a run writes them
    parts = [batch.slice(at, 100) for at in range(0, batch.num_rows, 100)]
    run_folds(parts, FOLDS, tables)
    return tables


@pytest.mark.parametrize("name", list(ALL))
def test_nothing_is_found_without_a_fault(name: str) -> None:
    for seed in SEEDS:
        world = World(seed)
        tables = judged(world.run(ALL[name][0](world)))
        assert list(tables.of(Breach)) == []
        assert any(audit.judged for audit in tables.of(Audit)), "it could have been found"


#: Faults whose proof names what is gone or what else was seen, not the call that lied.
INDIRECT = {"fsync-lies", "shard-old", "stale-under-lock", "no-winner", "pointer-old"}


@pytest.mark.parametrize(("name", "fault", "promise"), FAULTS, ids=[fault for _, fault, _ in FAULTS])
def test_planted_fault_is_found_with_its_witness(name: str, fault: str, promise: str) -> None:
    planted = found = 0
    for seed in SEEDS:
        world = World(seed, frozenset({fault}))
        tables = judged(world.run(ALL[name][0](world)))
        rows = [breach for breach in tables.of(Breach) if breach.promise == promise]
        others = {b.promise for b in tables.of(Breach)} - {promise}
        # two holders at once lose updates
        assert others <= ({"lost-update"} if fault == "double-grant" else set())
        assert world.planted or not rows, "nothing is made up"
        proofs = {op for breach in rows for op in breach.op_ids}
        if fault in INDIRECT:
            planted, found = planted + bool(world.planted), found + bool(rows)
        else:
            planted, found = planted + len(world.planted), found + sum(op in proofs for op in world.planted)
        for breach in rows:
            assert 1 <= len(breach.op_ids) <= 4
            assert breach.evidence and breach.client and breach.object
    assert planted >= 4, "the fault struck"
    # the rest was hidden by what ran at the same time; hardly ever is nobody else near a contended lock
    assert found >= (0.2 if fault == "needless-denial" else 0.5) * planted


def test_staleness_is_measured() -> None:
    for fault, low, high in (("long-cache", 2000 * MS, 5000 * MS), ("", 0, 0)):
        world = World(3, frozenset({fault}))
        rows = list(judged(world.run(staleness(world))).of(StalenessRow))
        assert {row.client for row in rows} == {"B", "C"}
        for row in rows:
            assert row.aspect == "data" and row.looks == 180
            assert low <= row.lag_ns_max <= high
            assert (row.stale_looks > 0) == bool(fault)
