"""Sorting and running extremes per key, on whole columns.

Times are closed intervals: one operation is *before* another only if it ended strictly before the other
began. Every function here is exact and takes O(n log n), whatever overlaps with what.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from analyzer.analysis.columns import Ints, Mask

#: After every time: the end of what never returned.
NEVER: Final = 1 << 62
#: Before every time: the end of what was there at the start.
BEFORE: Final = -(1 << 62)


def ranks(values: Ints) -> Ints:
    """A number 0..n-1 for each value in ascending order; equal values in order of appearance."""
    order = np.argsort(values, kind="stable")
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(values))
    return place


def runs(sorted_keys: Ints) -> Ints:
    """Where each run of equal keys begins."""
    if not len(sorted_keys):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.concatenate([[True], sorted_keys[1:] != sorted_keys[:-1]]))


def latest_before(keys: Ints, values: Ints, counts: Mask) -> Ints:
    """For each row the *earlier* row of the same key that has the greatest value; -1 for none.

    `keys` ascend; keys are small numbers (0..k). Only rows in `counts` are candidates.
    """
    n = len(keys)
    if not n:
        return np.zeros(0, dtype=np.int64)
    place = ranks(values)
    # the rank tells the row, and the key above it makes each run begin anew
    encoded = keys * (n + 1) + np.where(counts, place + 1, 0)
    best = np.maximum.accumulate(encoded)
    before = np.concatenate([[-1], best[:-1]]) - keys * (n + 1)
    row_of = np.empty(n + 1, dtype=np.int64)
    row_of[0] = -1
    row_of[place + 1] = np.arange(n)
    return row_of[np.maximum(before, 0)]


def last_ended(keys: Ints, ends: Ints, values: Ints, ask_keys: Ints, ask_starts: Ints) -> Ints:
    """For each question (key, start): the row of that key that ended strictly before the start and has the
    greatest value; -1 for none. Rows and questions in any order."""
    n, m = len(keys), len(ask_keys)
    if not n or not m:
        return np.full(m, -1, dtype=np.int64)
    all_keys = np.concatenate([keys, ask_keys])
    # at the same instant the question comes first: what touches is not before
    when = np.concatenate([ends * 2 + 1, ask_starts * 2]) if _small(ends, ask_starts) else None
    if when is None:
        order = np.lexsort((np.repeat([1, 0], [n, m]), np.concatenate([ends, ask_starts]), all_keys))
    else:
        order = by_key(all_keys, when)
    is_row = order < n
    all_values = np.concatenate([values, np.zeros(m, dtype=np.int64)])
    found = latest_before(all_keys[order], all_values[order], is_row)
    answer = np.where(found >= 0, order[found], -1)
    result = np.empty(m, dtype=np.int64)
    result[order[~is_row] - n] = answer[~is_row]
    return result


def next_started(keys: Ints, starts: Ints, ask_keys: Ints, ask_starts: Ints) -> Ints:
    """For each question the least start of its key that is not before the one asked; `NEVER` for none."""
    order = np.lexsort((starts, keys))
    place = np.searchsorted(keys[order], ask_keys) + count_before(keys, starts, ask_keys, ask_starts)
    inside = np.minimum(place, max(len(order) - 1, 0))
    if not len(order):
        return np.full(len(ask_keys), NEVER, dtype=np.int64)
    found = order[inside]
    good = (place < len(order)) & (keys[found] == ask_keys)
    return np.where(good, starts[found], NEVER)


def _small(*columns: Ints) -> bool:
    """Whether twice each value still fits."""
    return all(int(np.abs(c).max()) < (1 << 61) for c in columns)


def by_key(keys: Ints, values: Ints) -> Ints:
    """The order that sorts by key, then value; stable. Keys are small numbers (0..k)."""
    order = np.argsort(values, kind="stable")
    if not len(keys) or not keys.any():
        return order
    narrow = keys.astype(np.uint16) if int(keys.max()) < (1 << 16) else keys  # radix sort for 16 bits
    return order[np.argsort(narrow[order], kind="stable")]


def count_before(
    keys: Ints, values: Ints, ask_keys: Ints, ask_values: Ints, *, inclusive: bool = False
) -> Ints:
    """For each question how many rows of its key have a value less than (or equal to) the one asked."""
    n, m = len(keys), len(ask_keys)
    side = np.repeat([0, 1] if inclusive else [1, 0], [n, m])
    all_keys = np.concatenate([keys, ask_keys])
    order = np.lexsort((side, np.concatenate([values, ask_values]), all_keys))
    is_row = order < n
    before = np.cumsum(is_row)
    result = np.empty(m, dtype=np.int64)
    result[order[~is_row] - n] = before[~is_row]
    return result - np.searchsorted(np.sort(keys), ask_keys)


class RangeMaximum:
    """Where the greatest value lies in any stretch of an array: n·log n numbers, one look-up each."""

    def __init__(self, values: Ints) -> None:
        self._values = values
        self._levels = [np.arange(len(values))]
        step = 1
        while 2 * step <= len(values):
            low = self._levels[-1]
            left, right = low[:-step], low[step:]
            self._levels.append(np.where(values[left] >= values[right], left, right))
            step *= 2

    def places(self, first: Ints, stop: Ints) -> Ints:
        """For each stretch `first..stop-1` the place of its greatest value; -1 where it is empty."""
        result = np.full(len(first), -1, dtype=np.int64)
        width = stop - first
        for level, places in enumerate(self._levels):
            here = (width >> level) == 1
            if here.any():
                left = places[first[here]]
                right = places[stop[here] - (1 << level)]
                result[here] = np.where(self._values[left] >= self._values[right], left, right)
        return result
