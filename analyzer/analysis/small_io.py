"""Sizes of READs and WRITEs, and those that go on where the client's last one in the same file ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import Coded, Ints, distinct, group, integers, present, sums, text
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

#: Powers of two from 1 byte to 1 GiB.
SIZES: Final = 31
_KINDS: Final = frozenset({"read", "write"})
_MOST_GROUPS: Final = 4096


@dataclass(frozen=True, slots=True)
class IoSizes:
    """READs or WRITEs (`kind`) of one client at one server.

    `sizes[k]` counts those of 2**k up to 2**(k+1)-1 bytes (an empty READ at the end of the file is left
    out); `adjoining[k]` those of them that begin where the previous one of the same client in the same
    file ended: they could have been one. `adjoining_bytes[k]` and `adjoining_ns[k]` are their bytes and
    the sum of their durations. `limit_bytes` is the largest READ or WRITE that the server told it would
    take (attributes maxread and maxwrite), None if that wasn't seen. `at_first` and `at_last` are the
    first and the last of the adjoining ones, `path` the file of the last."""

    endpoint: str
    client: str
    kind: str
    sizes: tuple[int, ...]
    adjoining: tuple[int, ...]
    adjoining_bytes: tuple[int, ...]
    adjoining_ns: tuple[int, ...]
    largest_bytes: int
    limit_bytes: int | None
    path: str | None
    first_ns: int
    last_ns: int
    at_first: str
    at_last: str


@dataclass(slots=True)
class _Use:
    sums: Ints = field(default_factory=lambda: np.zeros((4, SIZES), dtype=np.int64))
    largest: int = 0
    path: str | None = None
    first_ns: int = 0
    last_ns: int = 0
    at_first: str = ""
    at_last: str = ""


class _Walk:
    """Adjoining is seen within one batch only: one pair per file and batch is missed."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._uses: dict[tuple[str, ...], _Use] = {}
        self._limits: dict[tuple[str, str], int] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        self._note_limits(batch)
        kind = text(batch, "kind")
        size = integers(batch, "bytes")
        chosen = kind.lookup(_KINDS) & present(batch, "end_lo") & (size > 0)
        chosen &= integers(batch, "status_code") == 0
        if not chosen.any():
            return
        rows = np.flatnonzero(chosen)
        columns = [text(batch, name).take(rows) for name in ("endpoint", "client", "kind")]
        uses = group(*((c.codes, c.size) for c in columns))
        adjoins = _adjoins(
            uses.of_row, text(batch, "object").take(rows), integers(batch, "offset")[rows], size[rows]
        )
        duration = (integers(batch, "end_lo") - integers(batch, "start_lo"))[rows]
        cell = uses.of_row * SIZES + np.clip(np.frexp(size[rows].astype(np.float64))[1] - 1, 0, SIZES - 1)
        cells = len(uses) * SIZES
        weights = (np.ones(len(rows), dtype=np.int64), adjoins, adjoins * size[rows], adjoins * duration)
        found = np.stack([sums(cell, w, cells) for w in weights])
        found = found.reshape(4, len(uses), SIZES)
        largest = np.zeros(len(uses), dtype=np.int64)
        np.maximum.at(largest, uses.of_row, size[rows])
        names = uses.names(columns)
        for i, name in enumerate(names):
            use = self._use(name)
            use.sums += found[:, i]
            use.largest = max(use.largest, int(largest[i]))
        self._note_evidence(batch, rows[adjoins > 0], uses.of_row[adjoins > 0], names)

    def _use(self, name: tuple[str, ...]) -> _Use:
        if name not in self._uses and len(self._uses) >= _MOST_GROUPS:
            return _Use()
        return self._uses.setdefault(name, _Use())

    def _note_evidence(
        self, batch: pa.RecordBatch, rows: Ints, of_row: Ints, names: list[tuple[str, ...]]
    ) -> None:
        if len(rows) == 0:
            return
        found = group((of_row, len(names)))
        first, last = rows[found.first()], rows[found.last()]
        proof = batch.column("at_return").take(pa.array(np.concatenate([first, last]))).to_pylist()
        end, path = integers(batch, "end_lo"), text(batch, "path")
        for i, place in enumerate(found.keys[0].tolist()):
            use = self._use(names[place])
            if not use.at_first:
                use.at_first, use.first_ns = proof[i] or "", int(end[first[i]])
            use.at_last, use.last_ns = proof[len(found) + i] or "", int(end[last[i]])
            use.path = path.word(int(path.codes[last[i]]))

    def _note_limits(self, batch: pa.RecordBatch) -> None:
        for name, kind in (("max_read", "read"), ("max_write", "write")):
            if batch.column(name).null_count == batch.num_rows:
                continue
            limit, endpoint = integers(batch, name), text(batch, "endpoint")
            codes, place = distinct(endpoint.codes, endpoint.size)
            most = np.zeros(len(codes), dtype=np.int64)
            np.maximum.at(most, place, limit)
            for code, value in zip(codes.tolist(), most.tolist(), strict=True):
                key = (endpoint.word(code) or "", kind)
                if value > 0 and (key in self._limits or len(self._limits) < _MOST_GROUPS):
                    self._limits[key] = max(self._limits.get(key, 0), value)

    def finish(self) -> None:
        table = self._tables.of(IoSizes)
        for (endpoint, client, kind), use in sorted(self._uses.items()):
            counts = [tuple(row) for row in use.sums.tolist()]
            limit = self._limits.get((endpoint, kind))
            table.append(
                IoSizes(
                    endpoint, client, kind, counts[0], counts[1], counts[2], counts[3], use.largest, limit,
                    use.path, use.first_ns, use.last_ns, use.at_first, use.at_last,
                )
            )  # fmt: skip


def _adjoins(of_row: Ints, file: Coded, offset: Ints, size: Ints) -> Ints:
    """1 for each row that begins where the previous row of the same group and file ended, else 0."""
    stream = group((of_row, int(of_row.max()) + 1), (file.codes, file.size)).of_row
    order = np.argsort(stream, kind="stable")
    ends = (offset + size)[order]
    same = stream[order][1:] == stream[order][:-1]
    result = np.zeros(len(order), dtype=np.int64)
    result[order[1:]] = same & (offset[order][1:] == ends[:-1])
    return result


FOLD = Fold(
    name="I/O sizes",
    reads=(
        "endpoint", "client", "object", "path", "kind", "status_code", "start_lo", "end_lo", "offset",
        "bytes", "max_read", "max_write", "at_return",
    ),
    produces=(IoSizes,),
    start=_Walk,
)  # fmt: skip
