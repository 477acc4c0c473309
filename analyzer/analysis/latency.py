"""How long calls took: a mergeable histogram per operation and client, and rates over time.

A call is one COMPOUND, named by the operation that it was about (`columns.call_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import (
    Coded,
    Groups,
    Ints,
    call_rows,
    distinct,
    group,
    integers,
    present,
    sums,
    text,
)
from analyzer.analysis.histogram import BUCKETS, buckets_of, percentiles_ns
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

#: Stands for clients, then endpoints, then operations that came when there was no room left.
OTHERS: Final = "(others)"
#: How many groups there may be for a new client, endpoint, operation, and anything else to get its own.
_ROOM: Final = (2048, 2560, 2816, 2817)
_MOST_SERIES: Final = 256
_INTERVALS: Final = 200
_FIRST_WIDTH_NS: Final = 1_000_000
_DELAY: Final = 10008


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """Latency of one protocol operation by one client at one server; `client` is "" for all clients.

    Percentiles in ns, each at most 3 % above the true value (bucket width of the histogram). `count`,
    `failed` and `bytes` are of all answered calls; percentiles and maximum leave out those answered
    DELAY, since the server did no work for them. `slowest` is the reply to the slowest call."""

    endpoint: str
    client: str
    op: str
    count: int
    failed: int
    bytes: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    slowest: str


@dataclass(frozen=True, slots=True)
class RateRow:
    """How often one operation returned one status in one interval of time, and how long it took.

    At most 200 intervals, all of the same width, counted by the time of the reply."""

    start_ns: int
    width_ns: int
    op: str
    status: str
    count: int
    mean_ns: int
    max_ns: int


class _Latencies:
    """Histograms by (endpoint, client, op); the number of groups is bounded."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, ...], int] = {}
        self._counts = np.zeros((16, BUCKETS), dtype=np.int32)
        self._sums = np.zeros((16, 4), dtype=np.int64)  # calls, failed, bytes, longest
        self._slowest: list[str] = []

    def add(self, calls: Groups, names: list[tuple[str, ...]], batch: pa.RecordBatch, rows: Ints) -> None:
        """Take in the calls of one batch: `rows` are their rows, `names` the keys of the groups."""
        places = np.fromiter((self._place(n) for n in names), np.int64, len(names))
        code = integers(batch, "status_code")[rows]
        durations = (integers(batch, "end_lo") - integers(batch, "start_lo"))[rows]
        worked = code != _DELAY
        cells = places[calls.of_row[worked]] * BUCKETS + buckets_of(durations[worked])
        np.add.at(self._counts.reshape(-1), cells, 1)
        np.add.at(self._sums[:, 0], places, calls.count())
        np.add.at(self._sums[:, 1], places, calls.count(code != 0))
        np.add.at(self._sums[:, 2], places, calls.total(integers(batch, "bytes")[rows]))
        self._keep_slowest(places[calls.of_row[worked]], durations[worked], batch, rows[worked])

    def _keep_slowest(self, places: Ints, durations: Ints, batch: pa.RecordBatch, rows: Ints) -> None:
        known = self._sums[:, 3].copy()
        np.maximum.at(self._sums[:, 3], places, durations)
        record = np.flatnonzero((durations > known[places]) & (durations == self._sums[places, 3]))
        found, first = np.unique(places[record], return_index=True)
        at_return = batch.column("at_return")
        for place, index in zip(found.tolist(), record[first].tolist(), strict=True):
            self._slowest[place] = at_return[int(rows[index])].as_py() or ""

    def _place(self, name: tuple[str, ...]) -> int:
        known = self._places.get(name)
        if known is not None:
            return known
        endpoint, _, op = name
        coarser = ((endpoint, OTHERS, op), (OTHERS, OTHERS, op), (OTHERS, OTHERS, OTHERS))
        for candidate, room in zip((name, *coarser), _ROOM, strict=True):
            if candidate in self._places:
                return self._places[candidate]
            if len(self._places) < room:
                name = candidate
                break
        place = self._places[name] = len(self._places)
        self._slowest.append("")
        if place >= len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
        return place

    def rows(self) -> list[LatencyRow]:
        """One row per group, and one per (endpoint, op) with all its clients merged."""
        found = []
        together: dict[tuple[str, str], list[int]] = {}
        for (endpoint, client, op), place in self._places.items():
            found.append(self._row(endpoint, client, op, [place]))
            together.setdefault((endpoint, op), []).append(place)
        found.extend(self._row(endpoint, "", op, places) for (endpoint, op), places in together.items())
        return sorted(found, key=lambda r: (r.endpoint, r.client, r.op))

    def _row(self, endpoint: str, client: str, op: str, places: list[int]) -> LatencyRow:
        counts = self._counts[places].sum(axis=0)
        calls, failed, size = self._sums[places, :3].sum(axis=0).tolist()
        worst = max(places, key=lambda p: int(self._sums[p, 3]))
        longest = int(self._sums[worst, 3])
        p50, p90, p99, p999 = percentiles_ns(counts, longest, (0.5, 0.9, 0.99, 0.999))
        slowest = self._slowest[worst]
        return LatencyRow(endpoint, client, op, calls, failed, size, p50, p90, p99, p999, longest, slowest)


class _Rates:
    """Counts by (op, status) and interval. The width doubles when the intervals don't suffice."""

    def __init__(self) -> None:
        self._begin_ns: int | None = None
        self._width_ns = _FIRST_WIDTH_NS
        self._series: dict[tuple[str, ...], int] = {}
        self._count = np.zeros((0, _INTERVALS), dtype=np.int64)
        self._sum = np.zeros((0, _INTERVALS), dtype=np.int64)
        self._max = np.zeros((0, _INTERVALS), dtype=np.int64)

    def add(self, op: Coded, status: Coded, ends: Ints, durations: Ints) -> None:
        """Take in answered calls in the order of their ends."""
        if self._begin_ns is None:
            self._begin_ns = int(ends[0])
        while (int(ends.max()) - self._begin_ns) // self._width_ns >= _INTERVALS:
            self._halve()
        calls = group((op.codes, op.size), (status.codes, status.size))
        names = calls.names((op, status))
        series = np.fromiter((self._number(n) for n in names), np.int64, len(names))
        interval = np.maximum((ends - self._begin_ns) // self._width_ns, 0)
        cells, cell = distinct(series[calls.of_row] * _INTERVALS + interval, len(self._count) * _INTERVALS)
        self._count.reshape(-1)[cells] += np.bincount(cell).astype(np.int64)
        self._sum.reshape(-1)[cells] += sums(cell, durations)
        np.maximum.at(self._max.reshape(-1), cells[cell], durations)

    def _number(self, name: tuple[str, ...]) -> int:
        if name not in self._series:
            if len(self._series) >= _MOST_SERIES:
                name = (OTHERS, OTHERS)
            if name not in self._series:
                self._series[name] = len(self._series)
                blank = np.zeros((1, _INTERVALS), dtype=np.int64)
                self._count, self._sum, self._max = (
                    np.concatenate([a, blank]) for a in (self._count, self._sum, self._max)
                )
        return self._series[name]

    def _halve(self) -> None:
        self._width_ns *= 2
        shape = (len(self._series), _INTERVALS // 2, 2)
        blank = np.zeros((len(self._series), _INTERVALS // 2), dtype=np.int64)
        self._count = np.concatenate([self._count.reshape(shape).sum(axis=2), blank], axis=1)
        self._sum = np.concatenate([self._sum.reshape(shape).sum(axis=2), blank], axis=1)
        self._max = np.concatenate([self._max.reshape(shape).max(axis=2, initial=0), blank], axis=1)

    def rows(self) -> list[RateRow]:
        """One row per interval, op and status that occurred."""
        begin = self._begin_ns or 0
        found = []
        for (op, status), number in self._series.items():
            for i in np.flatnonzero(self._count[number]).tolist():
                count = int(self._count[number, i])
                mean = int(self._sum[number, i]) // count
                longest = int(self._max[number, i])
                start = begin + i * self._width_ns
                found.append(RateRow(start, self._width_ns, op, status, count, mean, longest))
        return sorted(found, key=lambda r: (r.start_ns, r.op, r.status))


class _Walk:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._latencies = _Latencies()
        self._rates = _Rates()

    def feed(self, batch: pa.RecordBatch) -> None:
        rows = call_rows(batch)
        rows = rows[present(batch, "end_lo")[rows]]
        if len(rows) == 0:
            return
        endpoint, client, op, status = (
            text(batch, name).take(rows) for name in ("endpoint", "client", "op", "status")
        )
        ends = integers(batch, "end_lo")[rows]
        self._rates.add(op, status, ends, ends - integers(batch, "start_lo")[rows])
        columns = (endpoint, client, op)
        calls = group(*((c.codes, c.size) for c in columns))
        self._latencies.add(calls, calls.names(columns), batch, rows)

    def finish(self) -> None:
        self._tables.of(LatencyRow).extend(self._latencies.rows())
        self._tables.of(RateRow).extend(self._rates.rows())


FOLD = Fold(
    name="latency",
    reads=(
        "endpoint", "client", "op", "kind", "compound", "status", "status_code", "start_lo", "end_lo",
        "bytes", "at_return",
    ),
    produces=(LatencyRow, RateRow),
    start=_Walk,
)  # fmt: skip
