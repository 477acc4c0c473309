from __future__ import annotations

import pytest

from analyzer.analysis.latency import FOLD, OTHERS, LatencyRow, RateRow
from tests.unit.analysis.folding import fold

MS = 1_000_000


def reads(client: str, count: int, lasts_ms: int, begin: int = 0) -> str:
    return "\n".join(
        f"{begin + i}.0..{begin + i}.{lasts_ms:03d} {client} read f 0+4096 bytes=4096" for i in range(count)
    )


def test_percentiles_per_client_and_for_all() -> None:
    text = reads("A", 90, 2) + "\n" + reads("B", 10, 500)
    rows = {row.client: row for row in fold(FOLD, text, LatencyRow, [13, 57])}
    assert set(rows) == {"", "A", "B"}
    everybody = rows[""]
    assert (everybody.count, everybody.bytes) == (100, 409_600)
    assert everybody.p50_ns == pytest.approx(2 * MS, rel=0.03)
    assert everybody.p99_ns == pytest.approx(500 * MS, rel=0.03)
    assert everybody.max_ns == 500 * MS
    assert rows["A"].max_ns == 2 * MS
    assert rows["B"].slowest == everybody.slowest
    assert rows["B"].slowest in {f"example#{2 * i + 2}" for i in range(90, 100)}


def test_delay_counts_as_failed_but_not_in_the_percentiles() -> None:
    text = "1.0..1.001 A open f\n2.0..9.0 A open f -> DELAY\n10.0..10.001 A open g -> NOENT"
    row = next(r for r in fold(FOLD, text, LatencyRow) if r.client == "A")
    assert (row.count, row.failed, row.max_ns) == (3, 2, MS)


def test_a_slow_compound_counts_once_and_for_its_main_operation() -> None:
    text = """
    1.0..1.5 A session - compound=0
    1.0..1.5 A handle f op=PUTFH compound=0
    1.0..1.5 A commit f compound=0
    1.0..1.5 A getattr f compound=0
    """
    assert {row.op for row in fold(FOLD, text, LatencyRow)} == {"COMMIT"}


def test_clients_beyond_the_bound_share_a_row() -> None:
    text = "\n".join(f"{i}.0..{i}.1 C{i} read f" for i in range(2100))
    rows = fold(FOLD, text, LatencyRow)
    shared = next(row for row in rows if row.client == OTHERS)
    assert (len(rows), shared.count) == (2048 + 2, 2100 - 2048)
    assert next(row for row in rows if row.client == "").count == 2100


@pytest.mark.parametrize("places", [[], [1], [3, 9, 40]])
def test_rates_widen_until_two_hundred_intervals_suffice(places: list[int]) -> None:
    text = reads("A", 100, 5) + "\n5.0..5.1 A read g -> DELAY"
    rows = fold(FOLD, text, RateRow, places)
    # 99 s in intervals of 1 ms, doubled until fewer than 200 are needed
    assert {row.width_ns for row in rows} == {512 * MS}
    assert sum(row.count for row in rows if row.status == "ok") == 100
    (delayed,) = (row for row in rows if row.status == "DELAY")
    assert (delayed.count, delayed.mean_ns, delayed.max_ns) == (1, 100 * MS, 100 * MS)
    assert len({row.start_ns for row in rows}) <= 200
    assert all(row.mean_ns == 5 * MS for row in rows if row.status == "ok")
