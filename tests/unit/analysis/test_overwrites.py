"""Clients that write the same bytes in turns."""

from __future__ import annotations

import pytest

from analyzer.analysis.overwrites import OverwriteRow
from tests.unit.analysis.helpers import findings, rows, s

TURNS = """
    0..0.01 A write log 0+32 bytes=32
    0.02..0.03 B write log 0+64 bytes=64
    0.04..0.05 B write log 64+32 bytes=32
    0.06..0.07 A write log 32+96 bytes=96
    0.08..0.09 B write log 96+96 bytes=96
    0.10..0.11 C write other 0+8 bytes=8
    0.12..0.13 A write log 128+96 bytes=96
"""


@pytest.mark.parametrize("batch_rows", [None, 1, 2, 3])
def test_turns_are_counted_across_batches(batch_rows: int | None) -> None:
    (row,) = rows(OverwriteRow, TURNS, batch_rows)
    assert (row.path, row.clients, row.turns, row.growing) == ("/log", ("A", "B"), 4, 4)
    assert row.overlap_bytes == 32 + 32 + 32 + 64
    assert (row.first_ns, row.last_ns) == (s(0.01), s(0.13))


def test_the_finding_says_who_and_how_often() -> None:
    (found,) = findings("unlocked-overwrite", TURNS)
    assert "A and B wrote the same bytes of /log in turns, 4 times within 120.0 ms" in found.title
    assert found.severity.name == "HIGH"
    assert found.facts["growing"] == 4


@pytest.mark.parametrize("batch_rows", [None, 1])
@pytest.mark.parametrize(
    "between",
    [
        "0.015..0.016 A close log",  # the first turn only
        "0.015..0.016 A lock log 0+9 write owner=a new_stateid=sa",  # the whole file
    ],
)
def test_close_and_lock_are_no_race(between: str, batch_rows: int | None) -> None:
    lines = TURNS.strip().splitlines()
    text = "\n".join([lines[0], between, *lines[1:]])
    found = rows(OverwriteRow, text, batch_rows)
    assert [row.turns for row in found] == ([3] if "close" in between else [])


def test_failed_and_unanswered_writes_change_nothing() -> None:
    text = """
        0..0.01 A write log 0+32 bytes=32
        0.02..0.03 B write log 0+64 bytes=64 -> NOSPC
        0.04.. B write log 0+64 bytes=64
        0.06..0.07 A write log 0+32 bytes=32
    """
    assert rows(OverwriteRow, text) == []
