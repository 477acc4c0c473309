"""Grace: who was refused while clients may only reclaim, and which clients said RECLAIM_COMPLETE.

RFC 8881, sections 8.4.2 and 18.51: a client says RECLAIM_COMPLETE before its first OPEN or LOCK that is
no reclaim, even if it has nothing to reclaim; a server may end grace early once all have.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from analyzer.analysis.groups import (
    Bools,
    Candidates,
    booleans,
    integers,
    is_in,
    present,
    rows_of,
)
from analyzer.core.operations import Operation, operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_WINDOW_GAP_NS = 60_000_000_000  # refusals further apart belong to two grace periods
_EVIDENCE = 8
_STEPS = frozenset({"CREATE_SESSION", "RECLAIM_COMPLETE", "DESTROY_CLIENTID"})
_OPENING = frozenset({"OPEN", "LOCK"})
_REFUSED_IN_GRACE = frozenset({"open", "lock", "read", "write", "remove", "rename", "setattr", "create"})


@dataclass(frozen=True, slots=True)
class GraceRow:
    """One client that was refused with GRACE: first call, last refusal, and when it first got through
    (reply of the first operation of its kind that succeeded after), None if not in this input."""

    endpoint: str
    client: str
    refused: int
    first_ns: int
    last_ns: int
    through_ns: int | None
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClientStartRow:
    """A client id that came into use in this input (CREATE_SESSION reply), its RECLAIM_COMPLETE, and the
    first OPEN or LOCK that was no reclaim. `refused`: how many of these met GRACE before."""

    endpoint: str
    client: str
    clientid: str | None
    created_ns: int
    complete_ns: int | None
    first_open_ns: int | None
    refused: int
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Start:
    clientid: str | None
    created_ns: int
    complete_ns: int | None = None
    first_open_ns: int | None = None
    refused: int = 0
    evidence: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Grace:
    refused: int
    first_ns: int
    last_ns: int
    through_ns: int | None = None
    evidence: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Client:
    start: _Start | None = None
    grace: _Grace | None = None


def _cite(evidence: list[str], ref: str | None) -> None:
    if ref and len(evidence) < _EVIDENCE:
        evidence.append(ref)


_Key = tuple[str, str]


class _Graces:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._clients: dict[_Key, _Client] = {}
        self._batch: pa.RecordBatch | None = None
        # of this batch, once asked for
        self._opens: Candidates | None = None
        self._successes: Candidates | None = None

    def feed(self, batch: pa.RecordBatch) -> None:
        usable = present(batch.column("client")) & present(batch.column("end_lo"))
        batch = rows_of(batch, usable & ~booleans(batch.column("callback")))
        special = is_in(batch.column("op"), _STEPS) | is_in(batch.column("status"), frozenset({"GRACE"}))
        self._batch, self._opens, self._successes = batch, None, None
        for at, row in zip(
            np.flatnonzero(special).tolist(), operations(rows_of(batch, special)), strict=True
        ):
            key = (row.endpoint, row.client)
            state = self._clients.setdefault(key, _Client())
            self._find(key, state, at)
            self._step(key, state, row)
        for key, state in self._clients.items():
            self._find(key, state, batch.num_rows)

    def _find(self, key: _Key, state: _Client, before_row: int) -> None:
        """Look for the first OPEN or LOCK of a new client, and the first success of a refused one."""
        batch, start, grace = self._batch, state.start, state.grace
        if batch is None:
            return
        ends, refs = batch.column("end_lo"), batch.column("at_return")
        if start is not None and start.first_open_ns is None:
            if self._opens is None:
                self._opens = Candidates(batch, self._fresh(is_in(batch.column("op"), _OPENING)))
            row = self._opens.first(key, start.created_ns, before_row)
            if row is not None:
                start.first_open_ns = ends[row].as_py()
                _cite(start.evidence, refs[row].as_py())
        if grace is not None and grace.through_ns is None:
            if self._successes is None:
                good = integers(batch.column("status_code"), null=-1) == 0
                mask = self._fresh(good & is_in(batch.column("kind"), _REFUSED_IN_GRACE))
                self._successes = Candidates(batch, mask)
            row = self._successes.first(key, grace.last_ns, before_row)
            if row is not None:
                grace.through_ns = ends[row].as_py()
                _cite(grace.evidence, refs[row].as_py())

    def _fresh(self, mask: Bools) -> Bools:
        assert self._batch is not None
        return mask & ~booleans(self._batch.column("reclaim"))

    def _step(self, key: _Key, state: _Client, row: Operation) -> None:
        if row.status == "GRACE":
            self._refused(key, state, row)
        elif row.op == "CREATE_SESSION" and row.status_code == 0:
            if state.start is None or state.start.clientid != row.clientid:
                self._close_start(key, state)
                state.start = _Start(row.clientid, row.end_lo)
                _cite(state.start.evidence, row.at_return)
        elif row.op == "RECLAIM_COMPLETE" and not row.one_fs:
            done = row.status_code == 0 or row.status == "COMPLETE_ALREADY"
            if done and state.start is not None and state.start.complete_ns is None:
                state.start.complete_ns = row.end_lo
        elif row.op == "DESTROY_CLIENTID" and row.status_code == 0:
            self._close_start(key, state)

    def _refused(self, key: _Key, state: _Client, row: Operation) -> None:
        grace = state.grace
        if grace is not None and row.start_lo > grace.last_ns + _WINDOW_GAP_NS:
            self._close_grace(key, state)
            grace = None
        if grace is None:
            grace = state.grace = _Grace(0, row.start_lo, row.end_lo)
        grace.refused += 1
        grace.last_ns = max(grace.last_ns, row.end_lo)
        grace.through_ns = None
        _cite(grace.evidence, row.at_return)
        if state.start is not None and state.start.complete_ns is None:
            state.start.refused += 1

    def finish(self) -> None:
        for key, state in self._clients.items():
            self._close_start(key, state)
            self._close_grace(key, state)

    def _close_start(self, key: _Key, state: _Client) -> None:
        start, state.start = state.start, None
        if start is not None:
            self._tables.of(ClientStartRow).append(
                ClientStartRow(
                    *key,
                    clientid=start.clientid,
                    created_ns=start.created_ns,
                    complete_ns=start.complete_ns,
                    first_open_ns=start.first_open_ns,
                    refused=start.refused,
                    evidence=tuple(start.evidence),
                )
            )

    def _close_grace(self, key: _Key, state: _Client) -> None:
        grace, state.grace = state.grace, None
        if grace is not None:
            self._tables.of(GraceRow).append(
                GraceRow(
                    *key,
                    refused=grace.refused,
                    first_ns=grace.first_ns,
                    last_ns=grace.last_ns,
                    through_ns=grace.through_ns,
                    evidence=tuple(grace.evidence),
                )
            )


FOLD = Fold(
    name="grace",
    reads=(
        *("endpoint", "client", "kind", "op", "status", "status_code", "clientid", "reclaim", "one_fs"),
        *("callback", "start_lo", "end_lo", "at_return"),
    ),
    produces=(GraceRow, ClientStartRow),
    start=_Graces,
    kinds=frozenset({"session"}) | _REFUSED_IN_GRACE,
    failed=True,
)
