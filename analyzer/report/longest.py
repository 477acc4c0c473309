"""Pick the few rows that a report shows out of a table of any length, without making rows of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyzer.core.table import Table

Row = TypeVar("Row")

Numbers = npt.NDArray[np.int64]
#: int64 scores of a batch's rows; a row whose score is negative isn't wanted
Score = Callable[[pa.RecordBatch], Numbers]

NEVER = np.int64(2**62)


def numbers(batch: pa.RecordBatch, name: str, missing: int = 0) -> Numbers:
    """An integer column as int64, null as `missing`."""
    column = batch.column(name)
    filled = column.fill_null(missing) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def span(batch: pa.RecordBatch, start: str, end: str) -> Numbers:
    """`end - start` of two columns of ns, at least 0; a span without end counts as the longest."""
    open_end = ~np.asarray(batch.column(end).is_valid().to_numpy(zero_copy_only=False))
    length = np.maximum(0, numbers(batch, end) - numbers(batch, start))
    return np.where(open_end, NEVER, length)


def top(table: Table[Row], score: Score, limit: int) -> list[Row]:
    """The rows with the highest scores, highest first; of equal ones those that came first."""
    best = np.empty((0, 3), dtype=np.int64)  # score, batch, row
    for index, batch in enumerate(table.batches()):
        scores = score(batch)
        wanted = np.nonzero(scores >= 0)[0]
        if not wanted.size:
            continue
        found = np.column_stack([scores[wanted], np.full(wanted.size, index), wanted])
        best = np.concatenate([best, found])
        if len(best) > 4 * limit:
            best = _highest(best, limit)
    best = _highest(best, limit)
    rows: dict[tuple[int, int], Row] = {}
    for index, batch in enumerate(table.batches()):
        chosen = best[best[:, 1] == index, 2]
        if chosen.size:
            made = table.rows_of(batch.take(pa.array(chosen)))
            rows.update(zip(((index, int(row)) for row in chosen), made, strict=True))
    return [rows[(int(index), int(row))] for _, index, row in best]


def _highest(best: npt.NDArray[Any], limit: int) -> npt.NDArray[Any]:
    order = np.lexsort((best[:, 2], best[:, 1], -best[:, 0]))
    return best[order[:limit]]
