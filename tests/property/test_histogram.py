from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analyzer.analysis.histogram import HIGHEST_NS, LOWEST_NS, Histogram

durations = st.lists(st.integers(LOWEST_NS, HIGHEST_NS), min_size=1, max_size=300)
anything = st.lists(st.integers(0, 10 * HIGHEST_NS), max_size=100)


def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


@given(durations, st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.999, 1.0]))
def test_percentiles_are_at_most_three_percent_above_the_nearest_rank(
    values: list[int], quantile: float
) -> None:
    true = int(np.percentile(array(values), 100 * quantile, method="inverted_cdf"))
    found = Histogram.of(array(values)).percentile_ns(quantile)
    assert true <= found <= true * 1.03


@given(anything, anything, anything)
def test_merging_is_associative_and_equals_the_histogram_of_all(
    one: list[int], two: list[int], three: list[int]
) -> None:
    a, b, c = (Histogram.of(array(values)) for values in (one, two, three))
    assert (a + b) + c == a + (b + c) == Histogram.of(array(one + two + three))
    assert (a + b).count == len(one) + len(two)


def test_an_empty_histogram_has_no_percentile() -> None:
    assert Histogram().percentile_ns(0.99) == 0


def test_what_lies_outside_the_buckets_keeps_its_maximum() -> None:
    values = Histogram.of(array([10, 500, 5 * HIGHEST_NS]))
    assert values.percentile_ns(0.5) == LOWEST_NS
    assert values.percentile_ns(1.0) == 5 * HIGHEST_NS
