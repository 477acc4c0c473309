"""Metadata traffic: seconds full of it, and directories whose files are opened and closed in a loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import (
    Coded,
    Ints,
    Mask,
    Vocabulary,
    call_rows,
    group,
    integers,
    parents,
    present,
    text,
    truths,
)
from analyzer.analysis.windows import WIDTH_NS, Proofs, Seconds, by_second
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

METADATA: Final = frozenset(
    {
        *("open", "close", "lookup", "getattr", "setattr", "access"),
        *("readdir", "readlink", "create", "remove", "rename", "link"),
    }
)
_DATA: Final = frozenset({"read", "write"})

#: Fewer metadata calls in a second than this are not worth a row.
MIN_CALLS: Final = 200
_MOST_DIRECTORIES: Final = 4096
#: A client opened at least so many files of a directory, or it isn't worth a row.
MIN_OPENS: Final = 50


@dataclass(frozen=True, slots=True)
class MetadataSecond:
    """One second at one server with at least `MIN_CALLS` metadata calls answered in it, among `calls`."""

    endpoint: str
    start_ns: int
    calls: int
    metadata: int
    clients: int
    top_client: str
    top_client_calls: int
    top_op: str
    top_op_calls: int
    at_first: str
    at_last: str


@dataclass(frozen=True, slots=True)
class DirectoryUse:
    """What one client did with the files of one directory. `files` counts distinct files per batch of
    operations, so it may count a file again that was opened again much later. Times are sums of call
    durations. `directory` is None where paths are unknown."""

    endpoint: str
    client: str
    directory: str | None
    opens: int
    files: int
    closes: int
    data_calls: int
    bytes: int
    open_close_ns: int
    data_ns: int
    first_ns: int
    last_ns: int
    at_first: str
    at_last: str


@dataclass(slots=True)
class _Use:
    first_ns: int
    at_first: str
    last_ns: int = 0
    at_last: str = ""
    sums: Ints = field(default_factory=lambda: np.zeros(7, dtype=np.int64))


class _Directories:
    """`DirectoryUse` by (endpoint, client, directory); the least used are forgotten when there are many."""

    def __init__(self) -> None:
        self._uses: dict[tuple[str, str, str | None], _Use] = {}

    def add(self, batch: pa.RecordBatch, rows: Ints, kind: Coded) -> None:
        """Take in answered calls that went well."""
        opens, closes = (kind.lookup(frozenset({k})) for k in ("open", "close"))
        data = kind.lookup(_DATA)
        chosen = opens | closes | data
        chosen &= integers(batch, "status_code")[rows] == 0
        if not chosen.any():
            return
        rows, opens, closes, data = rows[chosen], opens[chosen], closes[chosen], data[chosen]
        endpoint, client = (text(batch, name).take(rows) for name in ("endpoint", "client"))
        words, directory = parents(text(batch, "path").take(rows))
        uses = group((endpoint.codes, endpoint.size), (client.codes, client.size), (directory, len(words)))
        durations = (integers(batch, "end_lo") - integers(batch, "start_lo"))[rows]
        sums = np.stack(
            [
                uses.count(opens),
                _distinct_per_group(uses.of_row[opens], text(batch, "object").take(rows[opens]), len(uses)),
                uses.count(closes),
                uses.count(data),
                uses.total(np.where(data, integers(batch, "bytes")[rows], 0)),
                uses.total(np.where(data, 0, durations)),
                uses.total(np.where(data, durations, 0)),
            ],
            axis=1,
        )
        first, last = rows[uses.first()], rows[uses.last()]
        proof = batch.column("at_return").take(pa.array(np.concatenate([first, last]))).to_pylist()
        ends = integers(batch, "end_lo")
        names = uses.names((endpoint, client))
        for i, ((server, who), d) in enumerate(zip(names, uses.keys[2].tolist(), strict=True)):
            key = (server, who, words[d])
            use = self._uses.get(key)
            if use is None:
                use = self._uses[key] = _Use(int(ends[first[i]]), proof[i] or "")
            use.last_ns, use.at_last = int(ends[last[i]]), proof[len(uses) + i] or ""
            use.sums += sums[i]
        if len(self._uses) > _MOST_DIRECTORIES:
            best = sorted(self._uses.items(), key=lambda item: -int(item[1].sums[0]))
            self._uses = dict(best[: _MOST_DIRECTORIES // 2])

    def rows(self) -> list[DirectoryUse]:
        """The directories with enough opens."""
        found = []
        for (endpoint, client, directory), use in self._uses.items():
            if use.sums[0] >= MIN_OPENS:
                opens, files, closes, data, size, open_close, data_ns = use.sums.tolist()
                found.append(
                    DirectoryUse(
                        endpoint, client, directory, opens, files, closes, data, size, open_close, data_ns,
                        use.first_ns, use.last_ns, use.at_first, use.at_last,
                    )
                )  # fmt: skip
        return sorted(found, key=lambda r: (r.endpoint, r.client, r.directory or ""))


def _distinct_per_group(of_row: Ints, files: Coded, groups: int) -> Ints:
    """How many distinct files each group's rows name."""
    if len(of_row) == 0:
        return np.zeros(groups, dtype=np.int64)
    pairs = group((of_row, groups), (files.codes, files.size))
    return np.bincount(pairs.keys[0], minlength=groups).astype(np.int64)


class _Walk:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._seconds = Seconds()
        self._proofs = Proofs()
        self._directories = _Directories()
        self._endpoints, self._clients, self._ops = Vocabulary(), Vocabulary(), Vocabulary()

    def feed(self, batch: pa.RecordBatch) -> None:
        rows = call_rows(batch)
        rows = rows[(present(batch, "end_lo") & ~truths(batch, "callback"))[rows]]
        if len(rows) == 0:
            return
        kind = text(batch, "kind").take(rows)
        self._directories.add(batch, rows, kind)
        columns = {
            "end": integers(batch, "end_lo")[rows],
            "endpoint": self._endpoints.encode(text(batch, "endpoint").take(rows)),
            "client": self._clients.encode(text(batch, "client").take(rows)),
            "op": self._ops.encode(text(batch, "op").take(rows)),
            "metadata": kind.lookup(METADATA).astype(np.int64),
        }
        metadata = columns["metadata"] > 0
        if metadata.any():
            proof = batch.column("at_return").take(pa.array(rows[metadata]))
            self._proofs.note(columns["endpoint"][metadata], columns["end"][metadata], proof)
        self._take(self._seconds.feed(columns))

    def _take(self, columns: dict[str, Ints] | None) -> None:
        if columns is None:
            return
        metadata = columns["metadata"] > 0
        seconds, base = by_second(columns["endpoint"], columns["end"])
        calls, wanted = seconds.count().tolist(), seconds.count(metadata)
        for place in np.flatnonzero(wanted >= MIN_CALLS).tolist():
            mine: Mask = (seconds.of_row == place) & metadata
            client, of_client, clients = _top(columns["client"][mine])
            op, of_op, _ = _top(columns["op"][mine])
            endpoint, second = int(seconds.keys[0][place]), int(seconds.keys[1][place]) + base
            at_first, at_last = self._proofs.of(endpoint, second)
            self._tables.of(MetadataSecond).append(
                MetadataSecond(
                    endpoint=self._endpoints.words[endpoint] or "",
                    start_ns=second * WIDTH_NS,
                    calls=calls[place],
                    metadata=int(wanted[place]),
                    clients=clients,
                    top_client=self._clients.words[client] or "",
                    top_client_calls=of_client,
                    top_op=self._ops.words[op] or "",
                    top_op_calls=of_op,
                    at_first=at_first,
                    at_last=at_last,
                )
            )
        self._proofs.forget(int(columns["end"][-1]) // WIDTH_NS)

    def finish(self) -> None:
        self._take(self._seconds.finish())
        self._tables.of(DirectoryUse).extend(self._directories.rows())


def _top(numbers: Ints) -> tuple[int, int, int]:
    """The most frequent number, how often it occurs, and how many distinct ones there are."""
    values, counts = np.unique(numbers, return_counts=True)
    best = int(counts.argmax())
    return int(values[best]), int(counts[best]), len(values)


FOLD = Fold(
    name="metadata",
    reads=(
        "endpoint", "client", "object", "path", "op", "kind", "compound", "callback", "status_code",
        "start_lo", "end_lo", "bytes", "at_return",
    ),
    produces=(MetadataSecond, DirectoryUse),
    start=_Walk,
)  # fmt: skip
