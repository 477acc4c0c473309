"""How clients come back: session loss and its recovery in phases.

The sequence after a loss (RFC 8881, sections 2.10.13 and 8.4): the client is told (BADSESSION or, in
4.0, STALE_CLIENTID, STALE_STATEID, EXPIRED), gets a client id (EXCHANGE_ID, SETCLIENTID), makes a
session, reclaims its state, says RECLAIM_COMPLETE (4.1), and works again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from analyzer.analysis.groups import (
    Candidates,
    booleans,
    grouped,
    integers,
    is_in,
    least,
    present,
    rows_of,
)
from analyzer.core.operations import Operation, operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_MOST_SESSIONS = 16
_ASKING = frozenset({"getattr", "lookup", "access"})
_EVIDENCE = 8

_STEPS = frozenset(
    {
        *("EXCHANGE_ID", "CREATE_SESSION", "SETCLIENTID", "SETCLIENTID_CONFIRM"),
        *("RECLAIM_COMPLETE", "DESTROY_CLIENTID"),
    }
)
_NAMING = frozenset({"EXCHANGE_ID", "SETCLIENTID"})  # in no session yet
_SESSION_LOSS = frozenset({"BADSESSION", "DEADSESSION"})
_STATE_LOSS = frozenset({"STALE_STATEID", "EXPIRED"})  # in 4.0; with sessions it's one stateid's matter
_LOSS = _SESSION_LOSS | _STATE_LOSS | {"STALE_CLIENTID"}
#: What an application asks for. LOOKUP, GETATTR and ACCESS are left out before RECLAIM_COMPLETE: recovery
#: itself sends them.
_WORK = frozenset(
    {
        *("open", "close", "lock", "unlock", "read", "write", "commit"),
        *("remove", "rename", "create", "setattr", "readdir"),
    }
)


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    """One loss of a client's session or state, and the way back. A step that wasn't seen is None.

    `detected_ns`: first reply that told of the loss; `losses`: how many told it. `known` is False if
    the session that was refused was never seen to belong to the client. `client_restarted`: the client
    itself came back with a new verifier. The other times are replies, but `reclaim_first_ns` is a call.
    `normal_ns`: first ordinary operation that succeeded in the new session.
    """

    endpoint: str
    client: str
    protocol: str
    session: str | None
    status: str | None
    losses: int
    known: bool
    client_restarted: bool
    detected_ns: int | None
    exchange_ns: int | None
    created_ns: int | None
    reclaim_first_ns: int | None
    reclaim_last_ns: int | None
    reclaims: int
    reclaims_refused: int
    complete_ns: int | None
    normal_ns: int | None
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Recovery:
    protocol: str
    session: str | None
    status: str | None = None
    losses: int = 0
    known: bool = True
    client_restarted: bool = False
    detected_ns: int | None = None
    exchange_ns: int | None = None
    created_ns: int | None = None
    reclaim_first_ns: int | None = None
    reclaim_last_ns: int | None = None
    reclaims: int = 0
    reclaims_refused: int = 0
    complete_ns: int | None = None
    normal_ns: int | None = None
    evidence: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Client:
    clientid: str | None = None
    verifier: str | None = None
    confirmed: bool = False
    sessions: dict[str, int] = field(default_factory=dict)  # when each was first seen to work, ns
    recovery: _Recovery | None = None
    strange: _Recovery | None = None  # refused sessions that were never the client's


def _cite(evidence: list[str], ref: str | None) -> None:
    if ref and len(evidence) < _EVIDENCE:
        evidence.append(ref)


class _Recoveries:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._clients: dict[tuple[str, str], _Client] = {}
        self._batch: pa.RecordBatch | None = None
        # ordinary operations of this batch, and what recovery may send too, once asked for
        self._work: Candidates | None = None
        self._asking: Candidates | None = None

    def feed(self, batch: pa.RecordBatch) -> None:
        usable = present(batch.column("client")) & present(batch.column("end_lo"))
        batch = rows_of(batch, usable & ~booleans(batch.column("callback")))
        if not batch.num_rows:
            return
        good = integers(batch.column("status_code"), null=-1) == 0
        reclaim = booleans(batch.column("reclaim"))
        special = is_in(batch.column("op"), _STEPS) | is_in(batch.column("status"), _LOSS) | reclaim
        # all operations of a COMPOUND share its session, so one of them is enough
        working = good & present(batch.column("session")) & (integers(batch.column("position")) == 0)
        self._own_sessions(rows_of(batch, working & ~is_in(batch.column("op"), _NAMING)))
        self._batch, self._work, self._asking = batch, None, None
        for at, row in zip(
            np.flatnonzero(special).tolist(), operations(rows_of(batch, special)), strict=True
        ):
            key = (row.endpoint, row.client)
            state = self._clients.setdefault(key, _Client())
            self._find_work(key, state, at)
            self._step(key, state, row)
        for key, state in self._clients.items():
            self._find_work(key, state, batch.num_rows)

    def _find_work(self, key: tuple[str, str], state: _Client, before_row: int) -> None:
        """Look for the first ordinary operation of a recovery that waits for it."""
        recovery, batch = state.recovery, self._batch
        if (
            batch is None
            or recovery is None
            or recovery.normal_ns is not None
            or recovery.created_ns is None
        ):
            return
        if self._work is None or self._asking is None:
            good = integers(batch.column("status_code"), null=-1) == 0
            work = is_in(batch.column("kind"), _WORK) & ~booleans(batch.column("reclaim"))
            self._work = Candidates(batch, work & good)
            self._asking = Candidates(batch, is_in(batch.column("kind"), _ASKING) & good)
        rows = [self._work.first(key, recovery.created_ns, before_row)]
        if recovery.complete_ns is not None:
            rows.append(self._asking.first(key, recovery.complete_ns, before_row))
        row = min((found for found in rows if found is not None), default=None)
        if row is not None:
            recovery.normal_ns = batch.column("end_lo")[row].as_py()
            _cite(recovery.evidence, batch.column("at_return")[row].as_py())

    def _own_sessions(self, batch: pa.RecordBatch) -> None:
        codes, groups = grouped(batch, ("endpoint", "client", "session"))
        first = least(codes, integers(batch.column("end_lo")), len(groups)).tolist()
        for (endpoint, client, session), since in zip(groups, first, strict=True):
            state = self._clients.setdefault((endpoint, client), _Client())
            state.sessions[session] = state.sessions.pop(session, since)
            if len(state.sessions) > _MOST_SESSIONS:
                del state.sessions[next(iter(state.sessions))]

    def _step(self, key: tuple[str, str], state: _Client, row: Operation) -> None:
        if row.status in _LOSS and (row.session is None or row.status not in _STATE_LOSS):
            self._lost(key, state, row)
        if row.reclaim and state.recovery is not None:
            _reclaimed(state.recovery, row)
        if row.op in _NAMING and row.status_code == 0:
            self._named(key, state, row)
        elif row.op in ("CREATE_SESSION", "SETCLIENTID_CONFIRM") and row.status_code == 0:
            _created(state, row)
        elif row.op == "RECLAIM_COMPLETE" and not row.one_fs:
            if row.status in ("ok", "OK", "COMPLETE_ALREADY"):
                _completed(state, row)
        elif row.op == "DESTROY_CLIENTID" and row.status_code == 0:
            self._close(key, state)
            state.sessions.clear()
            state.clientid, state.confirmed = None, False

    def _lost(self, key: tuple[str, str], state: _Client, row: Operation) -> None:
        recovery = state.recovery
        if row.status in _SESSION_LOSS:
            if row.session is not None and row.session not in state.sessions:
                _count_strange(state, row)
                return
            again = recovery is not None and recovery.created_ns is not None
            if again and recovery is not None and row.session != recovery.session:
                self._close(key, state)
                recovery = None
        elif not (state.confirmed or state.sessions):
            return
        elif recovery is not None and recovery.normal_ns is not None and row.start_lo > recovery.normal_ns:
            self._close(key, state)
            recovery = None
        if recovery is None:
            recovery = state.recovery = _Recovery(row.protocol or "", row.session)
        if recovery.detected_ns is None:
            recovery.detected_ns, recovery.status = row.end_lo, row.status
        recovery.losses += 1
        _cite(recovery.evidence, row.at_return)

    def _named(self, key: tuple[str, str], state: _Client, row: Operation) -> None:
        restarted = None not in (state.verifier, row.value) and state.verifier != row.value
        other = None not in (state.clientid, row.clientid) and state.clientid != row.clientid
        if other and state.recovery is not None and state.recovery.created_ns is not None:
            self._close(key, state)
        before = [session for session, since in state.sessions.items() if since < row.start_lo]
        if state.recovery is None and other and (before or state.confirmed):
            state.recovery = _Recovery(row.protocol or "", before[-1] if before else None)
        recovery = state.recovery
        if recovery is not None and recovery.created_ns is None:
            if recovery.exchange_ns is None:
                recovery.exchange_ns = row.end_lo
                _cite(recovery.evidence, row.at_return)
            recovery.client_restarted = recovery.client_restarted or restarted
        state.clientid, state.verifier = row.clientid or state.clientid, row.value or state.verifier

    def finish(self) -> None:
        for key, state in self._clients.items():
            self._close(key, state)
            if state.strange is not None:
                self._emit(key, state.strange)

    def _close(self, key: tuple[str, str], state: _Client) -> None:
        recovery, state.recovery = state.recovery, None
        if recovery is None:
            return
        told_in_41 = recovery.losses and recovery.status in _SESSION_LOSS
        if told_in_41 or (recovery.exchange_ns is not None and recovery.created_ns is not None):
            self._emit(key, recovery)

    def _emit(self, key: tuple[str, str], found: _Recovery) -> None:
        self._tables.of(RecoveryRow).append(
            RecoveryRow(
                *key,
                protocol=found.protocol,
                session=found.session,
                status=found.status,
                losses=found.losses,
                known=found.known,
                client_restarted=found.client_restarted,
                detected_ns=found.detected_ns,
                exchange_ns=found.exchange_ns,
                created_ns=found.created_ns,
                reclaim_first_ns=found.reclaim_first_ns,
                reclaim_last_ns=found.reclaim_last_ns,
                reclaims=found.reclaims,
                reclaims_refused=found.reclaims_refused,
                complete_ns=found.complete_ns,
                normal_ns=found.normal_ns,
                evidence=tuple(found.evidence),
            )
        )


def _created(state: _Client, row: Operation) -> None:
    if row.session is not None:
        state.sessions.setdefault(row.session, row.end_lo)
    state.confirmed = True
    if state.recovery is not None and state.recovery.created_ns is None:
        state.recovery.created_ns = row.end_lo
        _cite(state.recovery.evidence, row.at_return)


def _count_strange(state: _Client, row: Operation) -> None:
    if state.strange is None:
        state.strange = _Recovery(row.protocol or "", row.session, row.status, known=False)
        state.strange.detected_ns = row.end_lo
    state.strange.losses += 1
    _cite(state.strange.evidence, row.at_return)


def _reclaimed(recovery: _Recovery, row: Operation) -> None:
    if recovery.created_ns is None or recovery.complete_ns is not None:
        return
    if row.status_code:
        recovery.reclaims_refused += 1
    else:
        recovery.reclaims += 1
    if recovery.reclaim_first_ns is None:
        recovery.reclaim_first_ns = row.start_lo
        _cite(recovery.evidence, row.at_call)
    recovery.reclaim_last_ns = row.end_lo


def _completed(state: _Client, row: Operation) -> None:
    recovery = state.recovery
    if recovery is not None and recovery.created_ns is not None and recovery.complete_ns is None:
        recovery.complete_ns = row.end_lo
        _cite(recovery.evidence, row.at_return)


def phases(row: RecoveryRow) -> list[tuple[str, int]]:
    """Names and durations (ns) of the steps that were seen, each from the step before it.

    Steps come in the order in which they happened: work may begin before RECLAIM_COMPLETE. A loss that
    the client was told of only when it was already recovering (an old session tried once more) is no
    step.
    """
    late = None not in (row.detected_ns, row.exchange_ns) and (row.detected_ns or 0) > (
        row.exchange_ns or 0
    )
    steps = [
        ("detection", None if late else row.detected_ns),
        ("client id", row.exchange_ns),
        ("session", row.created_ns),
        ("wait before reclaim", row.reclaim_first_ns),
        ("reclaim", row.reclaim_last_ns),
        ("RECLAIM_COMPLETE", row.complete_ns),
        ("first ordinary operation", row.normal_ns),
    ]
    seen = sorted(((name, when) for name, when in steps if when is not None), key=lambda step: step[1])
    return [(name, when - before) for (_, before), (name, when) in pairwise(seen)]


FOLD = Fold(
    name="recovery",
    reads=(
        *("endpoint", "client", "protocol", "kind", "op", "status", "status_code", "session", "clientid"),
        *(
            "value",
            "reclaim",
            "one_fs",
            "callback",
            "position",
            "start_lo",
            "end_lo",
            "at_call",
            "at_return",
        ),
    ),
    produces=(RecoveryRow,),
    start=_Recoveries,
)
