from __future__ import annotations

import numpy as np
import pytest

from analyzer.analysis.sync_storm import FOLD, SyncEffect, SyncSecond, peak_outstanding
from tests.unit.analysis.folding import fold

NS = 1_000_000_000


def fsyncs(count: int, writers: int, begin: float, step: float, lasts: float) -> str:
    lines = []
    for i in range(count):
        start = begin + i * step
        who, file = "AB"[i % 2], f"f{i % writers}"
        lines.append(f"{start:.4f}..{start + lasts:.4f} {who} write {file} 0+100 file_sync")
    return "\n".join(lines)


@pytest.mark.parametrize("places", [[], [7], [50, 51, 160]])
def test_two_hundred_fsyncs_by_eight_writers_without_a_commit(places: list[int]) -> None:
    text = fsyncs(200, 8, 10.1, 0.002, 0.008)
    (row,) = fold(FOLD, text, SyncSecond, places)
    assert (row.commits, row.stable_writes, row.clients, row.writers) == (0, 200, 2, 8)
    assert (row.peak, row.bytes, row.top_client_syncs) == (4, 20_000, 100)
    assert (row.start_ns, row.first_ns) == (10 * NS, 10_100_000_000)
    assert (row.at_first, row.at_last) == ("example#2", "example#400")


@pytest.mark.parametrize("places", [[], [20], [5, 100, 121]])
def test_other_calls_are_told_apart_by_the_seconds_rate(places: list[int]) -> None:
    lines = [f"{i}.5..{i}.{510 if i != 3 else 600} C read g" for i in range(1, 6)]
    text = fsyncs(100, 4, 3.1, 0.005, 0.004) + "\n" + "\n".join(lines)
    rows = {row.syncs: row for row in fold(FOLD, text, SyncEffect, places)}
    assert {syncs: (row.op, row.count, row.sum_ns) for syncs, row in rows.items()} == {
        0: ("READ", 4, 40_000_000),
        64: ("READ", 1, 100_000_000),
    }


def test_unstable_and_failed_writes_are_no_sync_operations() -> None:
    text = fsyncs(30, 3, 1.0, 0.01, 0.004).replace("file_sync", "unstable")
    text += "\n" + fsyncs(30, 3, 1.0, 0.01, 0.004).replace("file_sync", "file_sync -> NOSPC")
    assert fold(FOLD, text, SyncSecond) == []


def test_peak_outstanding() -> None:
    starts, ends = np.array([0, 1, 2, 10]), np.array([2, 5, 6, 11])
    assert peak_outstanding(starts, ends) == 2
    assert peak_outstanding(starts, ends + 1) == 3
    assert peak_outstanding(starts[:0], ends[:0]) == 0
