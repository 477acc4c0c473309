"""Synchronous writing by the second: COMMITs and stable WRITEs, who sent them, how many at a time, and
how long other calls took meanwhile.

An fsync of a small file often sends no COMMIT at all: Linux asks for FILE_SYNC in the WRITE itself when
all the data fits into it. So a sync operation is a COMMIT or a WRITE that asks for DATA_SYNC or FILE_SYNC
(RFC 8881 sections 18.3 and 18.32).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import (
    Coded,
    Ints,
    Vocabulary,
    call_rows,
    distinct,
    group,
    integers,
    present,
    text,
    truths,
)
from analyzer.analysis.windows import WIDTH_NS, Proofs, Seconds, by_second
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

#: Fewer sync operations in a second than this are not worth a row.
MIN_SYNCS: Final = 20
_STABLE: Final = frozenset({"data_sync", "file_sync"})
_LEVELS: Final = 32
#: What a storm did to others is kept for that many servers, so that memory is bounded.
_MOST_ENDPOINTS: Final = 256


@dataclass(frozen=True, slots=True)
class SyncSecond:
    """One second at one server with at least `MIN_SYNCS` sync operations answered in it.

    `writers` counts distinct pairs of client and file, `peak` is the most sync operations that were
    outstanding at one time, `bytes` what the stable WRITEs carried."""

    endpoint: str
    start_ns: int
    first_ns: int
    last_ns: int
    commits: int
    stable_writes: int
    clients: int
    writers: int
    peak: int
    bytes: int
    top_client: str
    top_client_syncs: int
    at_first: str
    at_last: str


@dataclass(frozen=True, slots=True)
class SyncEffect:
    """How long calls of one operation took in the seconds in which the server answered from `syncs` to
    twice as many sync operations (`syncs` is 0 or a power of two). Sync operations are not in it."""

    endpoint: str
    op: str
    syncs: int
    count: int
    sum_ns: int


def peak_outstanding(starts: Ints, ends: Ints) -> int:
    """The most calls that were outstanding at one time; one that starts as another ends is after it."""
    if len(starts) == 0:
        return 0
    starts = np.sort(starts)
    done = np.searchsorted(np.sort(ends), starts, side="right")
    begun = np.arange(1, len(starts) + 1)
    return int(max((begun - np.minimum(done, begun - 1)).max(), 1))


class _Walk:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._seconds = Seconds()
        self._endpoints, self._clients, self._ops = Vocabulary(), Vocabulary(), Vocabulary()
        self._proofs = Proofs()
        self._effects: dict[tuple[int, int, int], list[int]] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        rows = call_rows(batch)
        rows = rows[(present(batch, "end_lo") & ~truths(batch, "callback"))[rows]]
        if len(rows) == 0:
            return
        kind = text(batch, "kind").take(rows)
        commit = kind.lookup(frozenset({"commit"}))
        stable = kind.lookup(frozenset({"write"})) & text(batch, "stable").take(rows).lookup(_STABLE)
        sync = (commit | stable) & (integers(batch, "status_code")[rows] == 0)
        columns = {
            "end": integers(batch, "end_lo")[rows],
            "start": integers(batch, "start_lo")[rows],
            "endpoint": self._endpoints.encode(text(batch, "endpoint").take(rows)),
            "client": self._clients.encode(text(batch, "client").take(rows)),
            "op": self._ops.encode(text(batch, "op").take(rows)),
            "bytes": integers(batch, "bytes")[rows],
            "sync": np.where(sync, np.where(commit, 1, 2), 0),
            "file": np.zeros(len(rows), dtype=np.int64),
        }
        if sync.any():
            columns["file"][sync] = _fingerprints(text(batch, "object").take(rows[sync]))
            proof = batch.column("at_return").take(pa.array(rows[sync]))
            self._proofs.note(columns["endpoint"][sync], columns["end"][sync], proof)
        self._take(self._seconds.feed(columns))

    def _take(self, columns: dict[str, Ints] | None) -> None:
        """Take in whole seconds."""
        if columns is None:
            return
        seconds, base = by_second(columns["endpoint"], columns["end"])
        syncs = seconds.count(columns["sync"] > 0)
        self._add_effects(columns, syncs[seconds.of_row])
        for place in np.flatnonzero(syncs >= MIN_SYNCS).tolist():
            rows = np.flatnonzero((seconds.of_row == place) & (columns["sync"] > 0))
            endpoint, second = int(seconds.keys[0][place]), int(seconds.keys[1][place]) + base
            self._add_second(endpoint, second, {name: values[rows] for name, values in columns.items()})
        self._proofs.forget(int(columns["end"][-1]) // WIDTH_NS)

    def _add_effects(self, columns: dict[str, Ints], syncs: Ints) -> None:
        other = (columns["sync"] == 0) & (columns["endpoint"] < _MOST_ENDPOINTS)
        if not other.any():
            return
        level = np.frexp(syncs[other].astype(np.float64))[1].astype(np.int64)  # 0, 1, 2-3, 4-7, ...
        calls = group(
            (columns["endpoint"][other], len(self._endpoints.words)),
            (columns["op"][other], len(self._ops.words)),
            (level, _LEVELS),
        )
        totals = calls.total((columns["end"] - columns["start"])[other]).tolist()
        counts = calls.count().tolist()
        keys = zip(*(k.tolist() for k in calls.keys), strict=True)
        for key, count, total in zip(keys, counts, totals, strict=True):
            known = self._effects.setdefault(key, [0, 0])
            known[0] += count
            known[1] += total

    def _add_second(self, endpoint: int, second: int, rows: dict[str, Ints]) -> None:
        clients, client = distinct(rows["client"], len(self._clients.words))
        per_client = np.bincount(client)
        top = int(per_client.argmax())
        at_first, at_last = self._proofs.of(endpoint, second)
        self._tables.of(SyncSecond).append(
            SyncSecond(
                endpoint=self._endpoints.words[endpoint] or "",
                start_ns=second * WIDTH_NS,
                first_ns=int(rows["start"].min()),
                last_ns=int(rows["end"].max()),
                commits=int((rows["sync"] == 1).sum()),
                stable_writes=int((rows["sync"] == 2).sum()),
                clients=len(clients),
                writers=len(np.unique(np.stack([rows["client"], rows["file"]]), axis=1)[0]),
                peak=peak_outstanding(rows["start"], rows["end"]),
                bytes=int(rows["bytes"].sum()),
                top_client=self._clients.words[int(clients[top])] or "",
                top_client_syncs=int(per_client[top]),
                at_first=at_first,
                at_last=at_last,
            )
        )

    def finish(self) -> None:
        self._take(self._seconds.finish())
        effects = self._tables.of(SyncEffect)
        for (endpoint, op, level), (count, total) in sorted(self._effects.items()):
            words = (self._endpoints.words[endpoint] or "", self._ops.words[op] or "")
            effects.append(SyncEffect(*words, 1 << (level - 1) if level else 0, count, total))


def _fingerprints(files: Coded) -> Ints:
    """A number per file that is the same in every batch; two files may share one by chance (2**-32)."""
    codes, place = distinct(files.codes, files.size)
    words = ((files.word(c) or "").encode() for c in codes.tolist())
    return np.fromiter((zlib.crc32(w) for w in words), np.int64, len(codes))[place]


FOLD = Fold(
    name="sync storm",
    reads=(
        "endpoint", "client", "object", "op", "kind", "compound", "callback", "status_code", "start_lo",
        "end_lo", "bytes", "stable", "at_return",
    ),
    produces=(SyncSecond, SyncEffect),
    start=_Walk,
)  # fmt: skip
