from __future__ import annotations

import numpy as np

from analyzer.analysis.columns import call_rows, distinct, group
from analyzer.core.notation import parse_events
from analyzer.core.operations import column_list


def names_of_calls(text: str) -> list[str]:
    batch = parse_events(text)
    return list(column_list(batch.column("op").take(call_rows(batch))))


def test_a_compound_is_named_by_what_it_is_about() -> None:
    text = """
    1.0..1.1 A session - compound=0
    1.0..1.1 A handle f op=PUTFH compound=0
    1.0..1.1 A write f 0+10 compound=0
    1.0..1.1 A getattr f compound=0
    1.2..1.3 A session - compound=4
    1.2..1.3 A handle f op=PUTFH compound=4
    1.2..1.3 A getattr f compound=4
    1.4..1.5 A session - compound=7
    """
    assert names_of_calls(text) == ["WRITE", "GETATTR", "SEQUENCE"]


def test_a_failed_compound_is_named_by_the_operation_that_failed() -> None:
    text = """
    1.0..1.1 A session - compound=0
    1.0..1.1 A open f compound=0
    1.0..1.1 A lookup f compound=0 -> NOENT
    1.2..1.3 A session - compound=3
    1.2..1.3 A handle f op=PUTFH compound=3 -> STALE
    """
    assert names_of_calls(text) == ["LOOKUP", "PUTFH"]


def test_distinct_agrees_with_sorting_for_small_and_large_ranges() -> None:
    codes = np.array([5, 3, 5, 9, 3], dtype=np.int64)
    for size in (10, 1 << 40):
        values, place = distinct(codes, size)
        assert values.tolist() == [3, 5, 9]
        assert values[place].tolist() == codes.tolist()


def test_groups_by_several_columns() -> None:
    one = np.array([1, 0, 1, 1, 0], dtype=np.int64)
    two = np.array([7, 7, 2, 7, 7], dtype=np.int64)
    found = group((one, 2), (two, 8))
    assert list(zip(*(k.tolist() for k in found.keys), strict=True)) == [(0, 7), (1, 2), (1, 7)]
    assert found.count().tolist() == [2, 1, 2]
    assert found.first().tolist() == [1, 2, 0]
    assert found.last().tolist() == [4, 2, 3]
