"""Grouping without loops: codes, nulls, extremes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from analyzer.analysis.groups import NEVER_NS, greatest, grouped, is_in, least
from analyzer.analysis.words import counted, duration, listed, size, tally, times


def _batch() -> pa.RecordBatch:
    text = pa.dictionary(pa.int32(), pa.string())
    return pa.record_batch(
        [
            pa.array(["x", None, "y", "x"], type=text),
            pa.array([1, 1, None, 1], type=pa.int64()),
            pa.array([True, False, None, True], type=pa.bool_()),
        ],
        names=["a", "b", "c"],
    )


def test_groups_in_order_of_appearance_with_nulls_as_values() -> None:
    codes, groups = grouped(_batch(), ("a", "b", "c"))
    assert groups == [("x", 1, True), (None, 1, False), ("y", None, None)]
    assert codes.tolist() == [0, 1, 2, 0]


def test_unused_words_of_a_dictionary_give_no_group() -> None:
    codes, groups = grouped(_batch().slice(2, 1), ("a",))
    assert groups == [("y",)] and codes.tolist() == [0]


def test_extremes() -> None:
    codes, values = np.array([0, 1, 0]), np.array([5, 7, 3])
    assert least(codes, values, 3).tolist() == [3, 7, NEVER_NS]
    assert greatest(codes, values, 2).tolist() == [5, 7]


def test_is_in_takes_null_as_absent() -> None:
    assert is_in(_batch().column("a"), frozenset({"x"})).tolist() == [True, False, False, True]


def test_words() -> None:
    assert [duration(ns) for ns in (45_000, 12_300_000, 7_010_000_000, 700_000_000_000)] == [
        *("45 µs", "12.3 ms", "7.01 s", "11 min 40 s")
    ]
    assert [times(n) for n in (1, 2, 13)] == ["once", "twice", "13 times"]
    assert (counted(1, "client"), counted(2, "client")) == ("1 client", "2 clients")
    assert [listed(list("abcde")[:n]) for n in (1, 2, 3, 5)] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and 2 more",
    ]
    assert tally({"READ": 1, "WRITE": 3}) == "3 WRITE, 1 READ"
    assert [size(n) for n in (10, 163_840, 1_258_291)] == ["10 bytes", "160 KiB", "1.2 MiB"]
