"""Text columns as small integers, so that a batch is worked on one distinct combination at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyzer.wire.packets import Int64s

#: Known handles and names are forgotten, oldest first, past this many.
MAX_KNOWN: Final = 400_000


class Codes:
    """A dictionary column as codes (-1 = null) and words, whatever its dictionary looks like."""

    def __init__(self, column: pa.DictionaryArray) -> None:
        self.words: list[Any] = column.dictionary.to_pylist()
        filled = column.indices.fill_null(-1) if column.null_count else column.indices
        self.codes: Int64s = filled.to_numpy(zero_copy_only=False).astype(np.int64)

    def word(self, code: int) -> Any:
        """The word of a code, None for -1."""
        return None if code < 0 else self.words[code]

    def among(self, words: frozenset[str]) -> Int64s:
        """Rows whose word is one of these."""
        wanted = np.array([w in words for w in self.words] + [False])
        return np.flatnonzero(wanted[self.codes])


def text_column(words: Sequence[str | None], inverse: Int64s) -> pa.DictionaryArray:
    """One word per distinct combination, spread over the rows."""
    position = {w: i for i, w in enumerate(dict.fromkeys(w for w in words if w is not None))}
    index = np.array([-1 if w is None else position[w] for w in words], dtype=np.int32)[inverse]
    missing = index < 0
    indices = pa.array(index, mask=missing if missing.any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(position), type=pa.string()))


def combinations(*columns: Int64s) -> tuple[list[list[int]], Int64s]:
    """Distinct rows of several code columns, and which one each row is."""
    key = np.zeros(len(columns[0]), dtype=np.int64)
    sizes = [int(c.max(initial=-1)) + 2 for c in columns]
    for column, size in zip(columns, sizes, strict=True):
        key = key * size + (column + 1)
    unique, inverse = np.unique(key, return_inverse=True)
    parts = []
    for size in reversed(sizes):
        unique, part = np.divmod(unique, size)
        parts.append((part - 1).tolist())
    return [list(row) for row in zip(*reversed(parts), strict=True)], inverse


class Endpoints:
    """The server of each row, as codes into distinct words."""

    def __init__(self, names: list[str], which: Int64s) -> None:
        self.words = list(dict.fromkeys(names))
        position = {w: i for i, w in enumerate(self.words)}
        self.codes: Int64s = np.array([position[n] for n in names], dtype=np.int64)[which]


def forget(known: dict[Any, Any]) -> None:
    """Keep a dictionary of what is known within bounds."""
    while len(known) > MAX_KNOWN:
        known.pop(next(iter(known)))
