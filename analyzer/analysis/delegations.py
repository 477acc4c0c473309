"""Delegations: what was granted, recalled and returned, and how long the return took.

A recall (CB_RECALL, RFC 8881, section 20.2) is answered at once and met by a DELEGRETURN. A server that
got no answer sends it again with the same XID on the client's next connection: that's the same recall,
told by the delegation's stateid.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from analyzer.analysis.groups import is_in, present, rows_of
from analyzer.core.operations import Operation, operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_MOST = 65_536
_EVIDENCE = 8


@dataclass(frozen=True, slots=True)
class RecallRow:
    """One recall of one delegation. `client` holds it. `recalled_ns`: first CB_RECALL call;
    `answered_ns`, `answer`: its first reply; `returned_ns`: reply of DELEGRETURN. None: not in this
    input. `sent`: how often CB_RECALL went out."""

    endpoint: str
    client: str | None
    object: str | None
    path: str | None
    stateid: str | None
    delegation: str | None
    granted_ns: int | None
    recalled_ns: int
    answered_ns: int | None
    answer: str | None
    returned_ns: int | None
    sent: int
    last_ns: int
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Grant:
    client: str | None
    object: str | None
    path: str | None
    delegation: str | None
    granted_ns: int
    at_grant: str | None


@dataclass(slots=True)
class _Recall:
    client: str | None
    object: str | None
    path: str | None
    recalled_ns: int
    answered_ns: int | None = None
    answer: str | None = None
    sent: int = 0
    last_ns: int = 0
    evidence: list[str] = field(default_factory=list)


_Key = tuple[str, str]  # endpoint, stateid (or the object where the stateid is unknown)


class _Delegations:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(RecallRow)
        self._grants: dict[_Key, _Grant] = {}
        self._returns: dict[_Key, tuple[int, int, str | None]] = {}
        self._recalls: dict[_Key, _Recall] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        granted = present(batch.column("delegation_stateid")) | is_in(
            batch.column("delegation"), frozenset({"read", "write"})
        )
        chosen = granted | is_in(batch.column("op"), frozenset({"DELEGRETURN", "CB_RECALL"}))
        for row in operations(rows_of(batch, chosen)):
            if row.op == "CB_RECALL":
                self._recalled(row)
            elif row.op == "DELEGRETURN":
                if row.status_code == 0 and row.stateid is not None:
                    self._returned(row)
            elif row.status_code == 0 and row.delegation_stateid is not None:
                self._granted(row)

    def _granted(self, row: Operation) -> None:
        key = (row.endpoint, row.delegation_stateid)
        self._grants[key] = _Grant(
            row.client, row.object, row.path, row.delegation, row.end_lo, row.at_return
        )
        if len(self._grants) > _MOST:
            del self._grants[next(iter(self._grants))]

    def _recalled(self, row: Operation) -> None:
        key = (row.endpoint, row.stateid or f"object {row.object}")
        recall = self._recalls.get(key)
        if recall is None:
            if len(self._recalls) >= _MOST:
                self._close(next(iter(self._recalls)))
            recall = self._recalls[key] = _Recall(row.client, row.object, row.path, row.start_lo)
        recall.recalled_ns = min(recall.recalled_ns, row.start_lo)
        recall.last_ns = max(recall.last_ns, row.start_lo)
        recall.sent += row.attempts or 1
        if row.end_lo is not None and recall.answered_ns is None:
            recall.answered_ns, recall.answer = row.end_lo, row.status
        recall.evidence += [ref for ref in (row.at_call, row.at_return) if ref][: _EVIDENCE - 2]
        del recall.evidence[_EVIDENCE - 2 :]

    def _returned(self, row: Operation) -> None:
        key = (row.endpoint, row.stateid)
        self._returns[key] = (row.start_lo, row.end_lo, row.at_return)
        if len(self._returns) > _MOST:
            del self._returns[next(iter(self._returns))]
        by_object = (row.endpoint, f"object {row.object}")
        if by_object in self._recalls:
            self._returns[by_object] = self._returns[key]

    def _close(self, key: _Key) -> None:
        recall = self._recalls.pop(key)
        grant = self._grants.get(key)
        returned = self._returns.get(key)
        if returned is not None and returned[1] < recall.recalled_ns:
            returned = None
        evidence = [*recall.evidence, *([returned[2]] if returned and returned[2] else [])]
        if grant is not None and grant.at_grant is not None:
            evidence.insert(0, grant.at_grant)
        self._rows.append(
            RecallRow(
                endpoint=key[0],
                client=(grant.client if grant else None) or recall.client,
                object=recall.object or (grant.object if grant else None),
                path=recall.path or (grant.path if grant else None),
                stateid=None if key[1].startswith("object ") else key[1],
                delegation=grant.delegation if grant else None,
                granted_ns=grant.granted_ns if grant else None,
                recalled_ns=recall.recalled_ns,
                answered_ns=recall.answered_ns,
                answer=recall.answer,
                returned_ns=returned[1] if returned else None,
                sent=recall.sent,
                last_ns=recall.last_ns,
                evidence=tuple(evidence),
            )
        )

    def finish(self) -> None:
        # only now: a CB_RECALL that was never answered comes last in the stream
        for key in list(self._recalls):
            self._close(key)


FOLD = Fold(
    name="delegations",
    reads=(
        *("endpoint", "client", "op", "object", "path", "stateid", "delegation", "delegation_stateid"),
        *("status", "status_code", "attempts", "start_lo", "end_lo", "at_call", "at_return"),
    ),
    produces=(RecallRow,),
    start=_Delegations,
    kinds=frozenset({"open", "delegation", "recall"}),
)
