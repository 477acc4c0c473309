"""A run's folder: what later stages and other tools can read again.

`manifest.json` (tool versions, options, inputs), `operations.parquet` and `protocol.parquet` (the two
halves of the events, same rows in the same order, joined by `op_id`), and the reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from analyzer.core.errors import InputError
from analyzer.core.schema import OPERATION_SCHEMA, PROTOCOL_SCHEMA

MANIFEST: Final = "manifest.json"
_FORMAT: Final = "storage-analyzer/run/v1"


class RunFolder:
    """A folder that belongs to one run. Raises `InputError` where it can't be made or is another's."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            others = [p for p in path.iterdir() if p.name != MANIFEST]
        except OSError as error:
            raise InputError(f"{path}: cannot be used for output: {error.strerror or error}") from error
        if others and not (path / MANIFEST).is_file():
            raise InputError(f"{path}: not empty and not a run of this tool. Choose another folder")
        self.write_manifest({"state": "unfinished"})

    def write(self, name: str, content: bytes) -> Path:
        """Write one file whole; a reader never sees half of it."""
        target, part = self.path / name, self.path / f".{name}.part"
        try:
            part.write_bytes(content)
            part.replace(target)
        except OSError as error:
            raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error
        return target

    def write_manifest(self, facts: Mapping[str, Any]) -> Path:
        """Write `manifest.json`."""
        content = orjson.dumps(
            {"format": _FORMAT, **facts}, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
        )
        return self.write(MANIFEST, content + b"\n")

    def recorded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass batches of events on, and write both halves to disk as they go by."""
        protocol = pa.schema([OPERATION_SCHEMA.field("op_id"), *PROTOCOL_SCHEMA])
        halves = (("operations.parquet", OPERATION_SCHEMA), ("protocol.parquet", protocol))
        writers = [
            pq.ParquetWriter(self.path / name, schema, compression="snappy", write_statistics=False)
            for name, schema in halves
        ]
        try:
            for batch in batches:
                for writer, (_, schema) in zip(writers, halves, strict=True):
                    writer.write_batch(batch.select(schema.names).cast(schema))
                yield batch
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        finally:
            for writer in writers:
                writer.close()
