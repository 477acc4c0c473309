"""Derived tables: typed rows that are kept as Arrow on disk, so that memory stays flat.

A row type is a frozen dataclass whose fields are int, float, bool, str, `tuple[str, ...]`, or one of
these `| None`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa

Row = TypeVar("Row")

_ARROW: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
    tuple[str, ...]: pa.list_(pa.string()),
    tuple[int, ...]: pa.list_(pa.int64()),
}
_FLUSH_ROWS = 4096
_LIMIT = (1 << 63) - 1


def schema_of(row_type: type[Any]) -> pa.Schema:
    """The Arrow schema of a row dataclass; raises `TypeError` for a field type outside the list above."""
    hints = typing.get_type_hints(row_type)
    fields = []
    for item in dataclasses.fields(row_type):
        hint = hints[item.name]
        if isinstance(hint, types.UnionType):
            present = [a for a in typing.get_args(hint) if a is not type(None)]
            hint = present[0] if len(present) == 1 else hint
        if hint not in _ARROW:
            raise TypeError(f"{row_type.__name__}.{item.name}: {hint} has no Arrow type")
        fields.append(pa.field(item.name, _ARROW[hint]))
    return pa.schema(fields)


class Table(Generic[Row]):
    """A sequence of rows of one type: append, then iterate as often as you like.

    With `path` the rows go to an Arrow IPC file there (memory stays flat); without, they stay in
    memory as Arrow. Iterating closes the table: appending then raises `ValueError`. A file that an
    earlier run left at `path` is overwritten by the first rows and never read.
    """

    def __init__(self, row_type: type[Row], path: Path | None = None) -> None:
        self.row_type = row_type
        self.schema = schema_of(row_type)
        self._names = self.schema.names
        self._pending: list[Row] = []
        self._batches: list[pa.RecordBatch] = []
        self._path = path
        self._writer: pa.RecordBatchFileWriter | None = None
        self._rows = 0
        self._closed = False

    def __len__(self) -> int:
        return self._rows

    def append(self, row: Row) -> None:
        """Add one row; raises `ValueError` once the table has been read or closed."""
        if self._closed:
            raise ValueError(f"the table of {self.row_type.__name__} is closed")
        self._pending.append(row)
        self._rows += 1
        if len(self._pending) >= _FLUSH_ROWS:
            self._flush()

    def extend(self, rows: Sequence[Row]) -> None:
        """Add several rows."""
        for row in rows:
            self.append(row)

    def _flush(self) -> None:
        if not self._pending:
            return
        columns = [
            _array([getattr(row, name) for row in self._pending], self.schema.field(name).type)
            for name in self._names
        ]
        batch = pa.record_batch(columns, schema=self.schema)
        self._pending = []
        if self._path is None:
            self._batches.append(batch)
            return
        if self._writer is None:
            self._writer = pa.ipc.new_file(self._path, self.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write what is pending; from now on the table can be read only."""
        self._flush()
        self._closed = True
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow record batches, in the order in which they were appended."""
        self.close()
        if self._path is None or not self._rows:
            yield from self._batches
            return
        with pa.memory_map(str(self._path)) as source:
            reader = pa.ipc.open_file(source)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)

    def __iter__(self) -> Iterator[Row]:
        for batch in self.batches():
            yield from self.rows_of(batch)

    def rows_of(self, batch: pa.RecordBatch) -> Iterator[Row]:
        """The rows of one record batch of this table."""
        lists = [n for n in self._names if pa.types.is_list(self.schema.field(n).type)]
        for record in batch.to_pylist():
            for name in lists:
                if record[name] is not None:
                    record[name] = tuple(record[name])
            yield self.row_type(**record)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except OverflowError:  # times of a damaged capture may add up to more than 64 bits hold
        return pa.array([_saturated(value) for value in values], type=kind)


def _saturated(value: Any) -> Any:
    if isinstance(value, int):
        return max(-_LIMIT, min(value, _LIMIT))
    return [_saturated(item) for item in value] if isinstance(value, tuple) else value


class Tables:
    """All derived tables of a run, by row type."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._tables: dict[type[Any], Table[Any]] = {}

    def of(self, row_type: type[Row]) -> Table[Row]:
        """The table of that row type, made empty if nobody has written to it."""
        if row_type not in self._tables:
            path = None if self._folder is None else self._folder / f"{row_type.__name__}.arrow"
            self._tables[row_type] = Table(row_type, path)
        return self._tables[row_type]

    def all(self) -> list[Table[Any]]:
        """Every table that somebody has written to or asked for, in order of row type name."""
        return [self._tables[t] for t in sorted(self._tables, key=lambda t: (t.__name__, t.__module__))]

    def close(self) -> None:
        """Write what is pending in every table."""
        for table in self._tables.values():
            table.close()
