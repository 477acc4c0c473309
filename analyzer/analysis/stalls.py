"""Stalls: times in which calls were outstanding at a server and it answered none of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import (
    Coded,
    Ints,
    call_rows,
    distinct,
    integers,
    present,
    text,
    truths,
)
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

#: Shorter silences are not kept; a rule may ask for longer ones.
MIN_STALL_NS: Final = 500_000_000
_MOST_OPEN_GAPS: Final = 1000


@dataclass(frozen=True, slots=True)
class Stall:
    """From `start_ns` to `end_ns` at least one answered call was outstanding at the server, and no call
    was answered. `outstanding` is how many were when it ended; `client`, `op` and `at_call` tell the one
    that had waited longest; `at_before` and `at_after` are the replies around the silence (`at_before`
    is None if there was none before). Calls that were never answered are not counted: a single lost
    reply would make every pause after it a stall."""

    endpoint: str
    start_ns: int
    end_ns: int
    outstanding: int
    client: str
    op: str
    at_before: str | None
    at_call: str
    at_after: str


@dataclass(slots=True)
class _Gap:
    """A long time without a reply, from `before_ns` to `after_ns`; some calls that were outstanding in
    it may not have been seen yet, since calls come in the order of their replies."""

    before_ns: int
    after_ns: int
    at_before: str | None
    at_after: str
    first_call_ns: int
    outstanding: int = 0
    client: str = ""
    op: str = ""
    at_call: str = ""

    def stall(self, endpoint: str) -> Stall | None:
        start = max(self.before_ns, self.first_call_ns)
        if self.after_ns - start < MIN_STALL_NS:
            return None
        proof = (self.at_before, self.at_call, self.at_after)
        return Stall(endpoint, start, self.after_ns, self.outstanding, self.client, self.op, *proof)


@dataclass(frozen=True, slots=True)
class _Calls:
    """The answered calls of one server in one batch, ordered by their ends."""

    batch: pa.RecordBatch
    rows: Ints
    start: Ints
    end: Ints
    client: Coded
    op: Coded


class _Server:
    """The sweep over one server's calls."""

    def __init__(self) -> None:
        self.last_end_ns: int | None = None
        self.at_last: str | None = None
        self.gaps: list[_Gap] = []
        self.over: list[_Gap] = []

    def feed(self, calls: _Calls) -> None:
        """Find new gaps, then give every gap the calls that were outstanding in it."""
        at_return = calls.batch.column("at_return")
        before = np.append(calls.end[0] if self.last_end_ns is None else self.last_end_ns, calls.end[:-1])
        for i in np.flatnonzero(calls.end - before >= MIN_STALL_NS).tolist():
            at_before = self.at_last if i == 0 else at_return[int(calls.rows[i - 1])].as_py()
            after = int(calls.end[i])
            at_after = at_return[int(calls.rows[i])].as_py() or ""
            self.gaps.append(_Gap(int(before[i]), after, at_before, at_after, after))
        if self.last_end_ns is None:
            self._add_first_gap(calls, at_return[int(calls.rows[0])].as_py() or "")
        self.last_end_ns = int(calls.end[-1])
        self.at_last = at_return[int(calls.rows[-1])].as_py()
        if self.gaps:
            self._add_calls(calls)
        if len(self.gaps) > _MOST_OPEN_GAPS:
            self.over.extend(self.gaps[:-_MOST_OPEN_GAPS])
            self.gaps = self.gaps[-_MOST_OPEN_GAPS:]

    def _add_first_gap(self, calls: _Calls, at_after: str) -> None:
        """Before the first reply nothing is known of the server: the silence begins with the first call."""
        first = int(calls.end[0])
        self.gaps.insert(0, _Gap(0, first, None, at_after, first))

    def _add_calls(self, calls: _Calls) -> None:
        """A call counts for the gaps that ended after its start and not after its end: a run of gaps."""
        ends = np.array([gap.after_ns for gap in self.gaps], dtype=np.int64)
        low = np.searchsorted(ends, calls.start, side="right")
        high = np.searchsorted(ends, calls.end, side="right")
        spans = np.flatnonzero(low < high)
        if len(spans) == 0:
            return
        steps = np.zeros(len(ends) + 1, dtype=np.int64)
        np.add.at(steps, low[spans], 1)
        np.add.at(steps, high[spans], -1)
        counts = np.cumsum(steps)[:-1].tolist()
        earliest = _earliest(calls.start[spans], low[spans], high[spans], len(ends))
        at_call = calls.batch.column("at_call")
        for gap, count, which in zip(self.gaps, counts, earliest.tolist(), strict=True):
            gap.outstanding += count
            if which < 0 or int(calls.start[spans[which]]) >= gap.first_call_ns:
                continue
            i = int(spans[which])
            gap.first_call_ns = int(calls.start[i])
            gap.client = calls.client.word(int(calls.client.codes[i])) or ""
            gap.op = calls.op.word(int(calls.op.codes[i])) or ""
            gap.at_call = at_call[int(calls.rows[i])].as_py() or ""


def _earliest(start: Ints, low: Ints, high: Ints, gaps: int) -> Ints:
    """For each gap the place of the earliest of the calls whose run `low..high-1` holds it, -1 if none.

    Runs are painted from the earliest start on, and only where nothing is painted yet: of the calls with
    the same `low` only the earliest and those that reach further matter, so few are painted.
    """
    order = np.lexsort((-high, start))
    reach = np.maximum.accumulate(high[order])
    order = order[np.append(True, reach[1:] > reach[:-1])]
    result = np.full(gaps, -1, dtype=np.int64)
    done = 0
    for i in order.tolist():
        begin, end = max(int(low[i]), done), int(high[i])
        result[begin:end] = i
        done = max(done, end)
    return result


class _Walk:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._servers: dict[str, _Server] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        rows = call_rows(batch)
        rows = rows[(present(batch, "end_lo") & ~truths(batch, "callback"))[rows]]
        if len(rows) == 0:
            return
        start, end = integers(batch, "start_lo"), integers(batch, "end_lo")
        endpoint, client, op = (text(batch, name) for name in ("endpoint", "client", "op"))
        codes, place = distinct(endpoint.codes[rows], endpoint.size)
        order = np.argsort(place, kind="stable")
        bounds = np.cumsum(np.bincount(place))[:-1]
        for code, own in zip(codes.tolist(), np.split(rows[order], bounds), strict=True):
            name = endpoint.word(code) or ""
            server = self._servers.setdefault(name, _Server())
            server.feed(_Calls(batch, own, start[own], end[own], client.take(own), op.take(own)))
            self._write(name, server.over)
            server.over = []

    def _write(self, endpoint: str, gaps: list[_Gap]) -> None:
        stalls = (gap.stall(endpoint) for gap in gaps)
        self._tables.of(Stall).extend([stall for stall in stalls if stall is not None])

    def finish(self) -> None:
        for endpoint, server in sorted(self._servers.items()):
            self._write(endpoint, server.gaps)


FOLD = Fold(
    name="stalls",
    reads=(
        "endpoint", "client", "op", "kind", "compound", "callback", "status_code", "start_lo", "end_lo",
        "at_call", "at_return",
    ),
    produces=(Stall,),
    start=_Walk,
)  # fmt: skip
