"""Notes of coverage that depend on how several files of one input lie in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.wire.coverage import CaptureTotals, coverage
from analyzer.wire.inputs import CaptureFile
from analyzer.wire.packets import ReadState
from analyzer.wire.survey import Survey

MIN = 60 * 10**9


def notes(*spans: tuple[int, int]) -> list[str]:
    """What coverage says of files a.pcap, b.pcap, ... with these first and last minutes."""
    files = [CaptureFile(f"{name}.pcap", Path("x"), 1) for name, _ in zip("abcd", spans, strict=False)]
    states = [ReadState(frames=2, first_ns=first * MIN, last_ns=last * MIN) for first, last in spans]
    return [note.text for note in coverage(CaptureTotals(files, states, Survey(), frozenset())).notes]


@pytest.mark.parametrize(
    "spans",
    [
        [(1, 5)],
        [(1, 5), (15, 20)],
        [(1, 90), (2, 5), (95, 99)],  # the first is still running when the second ends
        [(0, 0), (500, 501)],  # no times in the first
    ],
)
def test_files_of_one_time_are_not_remarked_upon(spans: list[tuple[int, int]]) -> None:
    assert notes(*spans) == []


def test_files_far_apart_may_not_belong_together() -> None:
    advice = "if the files are not of one incident, analyse them one by one"
    assert notes((1, 5), (135, 140)) == [f"2 h 10 min pass between a.pcap and b.pcap: {advice}"]
    assert notes((1, 5), (16, 20), (50, 51)) == [
        f"30 min pass between b.pcap and c.pcap (the longest of 2 such pauses): {advice}"
    ]
