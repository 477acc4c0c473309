"""Group the rows of a batch by several columns at once, without a Python loop per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Times before and after all others, in ns.
NEVER_NS = np.iinfo(np.int64).max
ALWAYS_NS = np.iinfo(np.int64).min

_WIDEST = 1 << 40  # re-encode before the product of dictionary sizes could leave 63 bits


def _encoded(column: pa.Array) -> tuple[Ints, list[Any]]:
    """A column as codes and words; null is the last word."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words = column.dictionary.to_pylist()
    indices = column.indices.fill_null(len(words)) if column.null_count else column.indices
    words.append(None)
    return indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), words


def grouped(batch: pa.RecordBatch, names: Sequence[str]) -> tuple[Ints, list[tuple[Any, ...]]]:
    """Codes (one per row) and groups (one tuple of values per code), in order of first appearance.

    A null is a value of its own (None). Cost is linear in rows; the groups are decoded once each.
    """
    if not batch.num_rows:
        return np.empty(0, dtype=np.int64), []
    codes, words = _encoded(batch.column(names[0]))
    groups: list[tuple[Any, ...]] = [(word,) for word in words]
    for name in names[1:]:
        if len(groups) * batch.num_rows > _WIDEST:
            codes, groups = _compact(codes, groups)
        more, words = _encoded(batch.column(name))
        codes = codes * len(words) + more
        codes, keys = _distinct(codes)
        groups = [(*groups[key // len(words)], words[key % len(words)]) for key in keys]
    if len(names) == 1:
        codes, groups = _compact(codes, groups)
    return codes, groups


def _distinct(codes: Ints) -> tuple[Ints, list[int]]:
    encoded = pa.array(codes).dictionary_encode()
    return (
        encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False),
        encoded.dictionary.to_pylist(),
    )


def _compact(codes: Ints, groups: list[tuple[Any, ...]]) -> tuple[Ints, list[tuple[Any, ...]]]:
    fewer, keys = _distinct(codes)
    return fewer, [groups[key] for key in keys]


def least(codes: Ints, values: Ints, size: int) -> Ints:
    """The smallest value of each group; `NEVER_NS` for a group without rows."""
    result = np.full(size, NEVER_NS, dtype=np.int64)
    np.minimum.at(result, codes, values)
    return result


def greatest(codes: Ints, values: Ints, size: int) -> Ints:
    """The largest value of each group; `ALWAYS_NS` for a group without rows."""
    result = np.full(size, ALWAYS_NS, dtype=np.int64)
    np.maximum.at(result, codes, values)
    return result


def integers(column: pa.Array, null: int = 0) -> Ints:
    """An integer column as numpy, nulls replaced."""
    filled = column.fill_null(null) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def booleans(column: pa.Array) -> Bools:
    """A boolean column as numpy, null as False."""
    filled = column.fill_null(False) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


def is_in(column: pa.Array, words: frozenset[str]) -> Bools:
    """Which rows of a dictionary-encoded column hold one of `words`."""
    known = column.dictionary.to_pylist()
    wanted = np.fromiter((word in words for word in known), dtype=bool, count=len(known))
    if not wanted.any():
        return np.zeros(len(column), dtype=bool)
    wanted = np.append(wanted, False)
    indices = column.indices.fill_null(len(known)) if column.null_count else column.indices
    return np.asarray(wanted[indices.to_numpy(zero_copy_only=False)], dtype=np.bool_)


def present(column: pa.Array) -> Bools:
    """Which rows of a column aren't null."""
    if not column.null_count:
        return np.ones(len(column), dtype=bool)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def ends_or_starts(batch: pa.RecordBatch) -> Ints:
    """When each operation was last seen: its reply, or its call where no reply came (ns)."""
    ends = batch.column("end_lo")
    starts = integers(batch.column("start_lo"))
    if not ends.null_count:
        return integers(ends)
    return np.where(present(ends), integers(ends), starts)


def rows_of(batch: pa.RecordBatch, mask: Bools) -> pa.RecordBatch:
    """The rows where `mask` is true; the batch itself if that is all of them."""
    return batch if mask.all() else batch.filter(pa.array(mask))


class Candidates:
    """Rows of a batch that may answer "what came first after that?", found per (endpoint, client)."""

    def __init__(self, batch: pa.RecordBatch, mask: Bools) -> None:
        codes, groups = grouped(batch, ("endpoint", "client"))
        rows = np.flatnonzero(mask)
        order = np.argsort(codes[rows], kind="stable")
        self._rows = rows[order]
        self._bounds = np.searchsorted(codes[self._rows], np.arange(len(groups) + 1)).tolist()
        self._codes = {group: code for code, group in enumerate(groups)}
        self._starts = integers(batch.column("start_lo"))

    def first(self, key: tuple[str, str], since_ns: int, before_row: int) -> int | None:
        """The first row before `before_row` that began at or after `since_ns`, None if there is none."""
        code = self._codes.get(key)
        if code is None:
            return None
        rows = self._rows[self._bounds[code] : self._bounds[code + 1]]
        found = rows[(rows < before_row) & (self._starts[rows] >= since_ns)]
        return int(found[0]) if len(found) else None
