"""Build, read and order batches of operations."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyzer.core.schema import EVENT_SCHEMA, KINDS, OUTCOMES

#: One operation as a named tuple of the columns that were asked for. The columns differ from reader to
#: reader, so the type can't be written down; `EVENT_SCHEMA` says what each field holds.
Operation = Any


def column_list(column: pa.Array) -> list[Any]:
    """A column as a Python list, several times faster than `to_pylist` (dictionaries decoded once)."""
    if pa.types.is_dictionary(column.type):
        words = column.dictionary.to_pylist()
        words.append(None)
        codes = column.indices.fill_null(len(words) - 1) if column.null_count else column.indices
        return [words[code] for code in codes.to_numpy(zero_copy_only=False).tolist()]
    if pa.types.is_integer(column.type):
        if not column.null_count:
            return list(column.to_numpy(zero_copy_only=False).tolist())
        if column.null_count == len(column):
            return [None] * len(column)
        values = column.fill_null(0).to_numpy(zero_copy_only=False).tolist()
        present = column.is_valid().to_numpy(zero_copy_only=False).tolist()
        return [value if seen else None for value, seen in zip(values, present, strict=True)]
    return list(column.to_pylist())


@lru_cache(maxsize=256)
def _row_type(names: tuple[str, ...]) -> Any:
    return namedtuple("Operation", names)  # noqa: PYI024 - the columns vary


def operations(batch: pa.RecordBatch) -> Iterator[Operation]:
    """The rows of a batch as named tuples with the batch's own columns."""
    make = _row_type(tuple(batch.schema.names))._make
    return map(make, zip(*(column_list(c) for c in batch.columns), strict=True))


def build(rows: Sequence[Mapping[str, Any]], schema: pa.Schema = EVENT_SCHEMA) -> pa.RecordBatch:
    """One record batch from row dictionaries; a column that a row lacks is null.

    Raises `ValueError` for a column that the schema doesn't know.
    """
    known = set(schema.names)
    for row in rows:
        if unknown := set(row) - known:
            raise ValueError(f"no such column: {', '.join(sorted(unknown))}")
    return pa.record_batch(
        [pa.array([row.get(f.name) for row in rows], type=f.type) for f in schema], schema=schema
    )


def in_stream_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Order as `schema` demands: by `end_lo`, never-answered last by `start_lo`; stable."""
    end = batch.column("end_lo")
    answered = end.is_valid().to_numpy(zero_copy_only=False)
    ends = end.fill_null(0).to_numpy(zero_copy_only=False)
    starts = batch.column("start_lo").to_numpy(zero_copy_only=False)
    order = np.lexsort((np.arange(batch.num_rows), np.where(answered, ends, starts), ~answered))
    return batch.take(pa.array(order))


def validate(batch: pa.RecordBatch, schema: pa.Schema = EVENT_SCHEMA) -> None:
    """Raise `ValueError` if a batch breaks the shape: columns and their types, nulls, closed sets, times
    that run backwards."""
    if batch.schema != schema:
        raise ValueError("columns differ from the schema")
    for field in schema:
        if not field.nullable and batch.column(field.name).null_count:
            raise ValueError(f"{field.name}: null")
    for name, allowed in (("kind", KINDS), ("outcome", OUTCOMES)):
        found = {v for v in pc.unique(batch.column(name)).to_pylist() if v is not None}
        if found - allowed:
            raise ValueError(f"{name}: not in the closed set: {sorted(found - allowed)}")
    for row in operations(batch.select(["op_id", "start_lo", "start_hi", "end_lo", "end_hi"])):
        forwards = row.start_lo <= row.start_hi
        if row.end_lo is None or row.end_hi is None:
            forwards = forwards and row.end_lo is row.end_hi
        else:
            forwards = forwards and row.start_lo <= row.end_lo <= row.end_hi
        if not forwards:
            raise ValueError(f"operation {row.op_id}: time runs backwards")


def select(
    batch: pa.RecordBatch, kinds: frozenset[str], failed: bool, columns: Iterable[str]
) -> pa.RecordBatch | None:
    """The columns of those operations whose kind is in `kinds` (all if empty) or, with `failed`, whose
    status is not ok. None if there is none."""
    if kinds:
        kind = batch.column("kind")
        words = kind.dictionary.to_pylist()
        wanted = np.fromiter((w in kinds for w in words), dtype=bool, count=len(words))
        codes = kind.indices.fill_null(0).to_numpy(zero_copy_only=False)
        mask = wanted[codes] if len(words) else np.zeros(batch.num_rows, dtype=bool)
        if failed:
            code = batch.column("status_code").fill_null(0).to_numpy(zero_copy_only=False)
            mask = mask | (code != 0)
        if not mask.any():
            return None
        projected = batch.select(list(columns))
        return projected if mask.all() else projected.filter(pa.array(mask))
    return batch.select(list(columns)) if batch.num_rows else None
