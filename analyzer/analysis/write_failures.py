"""Operations that a server refused for want of space, by quota, or because it could not store the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import Ints, group, integers, parents, present, text
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

#: Kinds of operations that store something.
STORING: Final = frozenset(
    {
        *("write", "append", "commit", "open", "create", "rename", "link", "setattr"),
        *("allocate", "copy", "close", "layout"),
    }
)
#: NFS4ERR_IO, FBIG, NOSPC, ROFS, DQUOT, STALE (RFC 8881 section 15.1).
_STALE: Final = 70
_CODES: Final = (5, 27, 28, 30, 69, _STALE)
_MOST_GROUPS: Final = 4096


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """One client's operations that one server refused with one status in one directory (None if paths
    are unknown). `data` counts WRITE and COMMIT among `count`; `files` counts distinct files per batch
    of operations; `path` is one of them, of a WRITE if there was one. A stale handle is
    refused by PUTFH, before the operation that it was for: then `op` is PUTFH."""

    endpoint: str
    client: str
    status: str
    directory: str | None
    op: str
    count: int
    data: int
    files: int
    path: str | None
    first_ns: int
    last_ns: int
    at_call: str
    at_first: str
    at_last: str


@dataclass(slots=True)
class _Failure:
    op: str
    path: str | None
    first_ns: int
    at_call: str
    at_first: str
    last_ns: int = 0
    at_last: str = ""
    count: int = 0
    data: int = 0
    files: int = 0


class _Walk:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._failures: dict[tuple[str, str, str, str | None], _Failure] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        kind, code = text(batch, "kind"), integers(batch, "status_code")
        failed = kind.lookup(STORING) & np.isin(code, _CODES)
        failed |= kind.lookup(frozenset({"handle"})) & (code == _STALE)
        failed &= present(batch, "end_lo")
        if failed.any():
            self._add(batch, np.flatnonzero(failed))

    def _add(self, batch: pa.RecordBatch, rows: Ints) -> None:
        endpoint, client, status = (text(batch, n).take(rows) for n in ("endpoint", "client", "status"))
        path, op, files = (text(batch, name).take(rows) for name in ("path", "op", "object"))
        directories, directory = parents(path)
        found = group(
            (endpoint.codes, endpoint.size),
            (client.codes, client.size),
            (status.codes, status.size),
            (directory, len(directories)),
        )
        data = text(batch, "kind").take(rows).lookup(frozenset({"write", "append", "commit"}))
        count, stored = found.count().tolist(), found.count(data).tolist()
        per_file = group((found.of_row, len(found)), (files.codes, files.size))
        distinct_files = np.bincount(per_file.keys[0], minlength=len(found)).tolist()
        first, last = found.first().tolist(), found.last().tolist()
        end = integers(batch, "end_lo")[rows]
        at_call, at_return = batch.column("at_call"), batch.column("at_return")
        names = found.names((endpoint, client, status))
        for i, ((server, who, why), d) in enumerate(zip(names, found.keys[3].tolist(), strict=True)):
            key = (server, who, why, directories[d])
            begin = first[i]
            failure = self._failures.get(key)
            if failure is None:
                if len(self._failures) >= _MOST_GROUPS:
                    continue
                call, reply = (column[int(rows[begin])].as_py() or "" for column in (at_call, at_return))
                failure = self._failures[key] = _Failure("", None, int(end[begin]), call, reply)
            if stored[i] and not failure.data:
                begin = int(np.flatnonzero((found.of_row == i) & data)[0])
            if not failure.op or (stored[i] and not failure.data):
                failure.op = op.word(int(op.codes[begin])) or ""
                failure.path = path.word(int(path.codes[begin]))
            failure.last_ns = int(end[last[i]])
            failure.at_last = at_return[int(rows[last[i]])].as_py() or ""
            failure.count += count[i]
            failure.data += stored[i]
            failure.files += distinct_files[i]

    def finish(self) -> None:
        table = self._tables.of(WriteFailure)
        in_time = sorted(self._failures.items(), key=lambda item: (item[1].first_ns, str(item[0])))
        for (endpoint, client, status, directory), f in in_time:
            table.append(
                WriteFailure(
                    endpoint, client, status, directory, f.op, f.count, f.data, f.files, f.path, f.first_ns,
                    f.last_ns, f.at_call, f.at_first, f.at_last,
                )
            )  # fmt: skip


FOLD = Fold(
    name="write failures",
    reads=(
        "endpoint", "client", "kind", "op", "object", "path", "status", "status_code", "end_lo",
        "at_call", "at_return",
    ),
    produces=(WriteFailure,),
    start=_Walk,
    kinds=STORING,
    failed=True,
)  # fmt: skip
