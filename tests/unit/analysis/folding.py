"""Run one fold over the notation, in as many batches as a test likes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import pyarrow as pa

from analyzer.core.notation import parse_events
from analyzer.core.rule import Fold, run_folds
from analyzer.core.table import Tables

Row = TypeVar("Row")


def cut(batch: pa.RecordBatch, places: Sequence[int]) -> list[pa.RecordBatch]:
    """A batch in pieces that begin at the given rows (those that it has)."""
    edges = [0, *sorted(p for p in places if p < batch.num_rows), batch.num_rows]
    return [batch.slice(a, b - a) for a, b in pairwise(edges)]


def fold(which: Fold, text: str, row_type: type[Row], places: Sequence[int] = ()) -> list[Row]:
    """The rows of one type that a fold writes for a text in the notation."""
    tables = Tables()
    run_folds(cut(parse_events(text), places), [which], tables)
    return list(tables.of(row_type))
