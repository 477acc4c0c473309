"""Client identities: one name (co_ownerid of EXCHANGE_ID, id of SETCLIENTID) used by several hosts.

A server takes a known name with another boot verifier for a rebooted client and drops all state of the
first (RFC 8881, section 18.35.4; RFC 7530, section 16.33.5). A client that really rebooted never uses
its old verifier again; two hosts with one name do, in turns. Several connections or addresses of one
host (nconnect, trunking) share the verifier.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from analyzer.analysis.clients import address_of
from analyzer.analysis.groups import is_in, present, rows_of
from analyzer.core.operations import Operation, operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_MOST_IDENTITIES = 50_000
_MOST_HOSTS = 16
_EVIDENCE = 8


@dataclass(frozen=True, slots=True)
class SharedIdentityRow:
    """One identity that two hosts used in turns. `returns`: how often a verifier came back from its
    address after another host had used the identity with another verifier."""

    endpoint: str
    client: str | None
    identity: str
    addresses: tuple[str, ...]
    verifiers: tuple[str, ...]
    returns: int
    first_ns: int
    last_ns: int
    evidence: tuple[str, ...]


_Host = tuple[str, str]  # address, verifier


@dataclass(slots=True)
class _Identity:
    client: str | None
    current: _Host
    hosts: dict[_Host, None] = field(default_factory=dict)
    returns: int = 0
    first_ns: int = 0
    last_ns: int = 0
    evidence: list[str] = field(default_factory=list)


class _Identities:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(SharedIdentityRow)
        self._known: dict[tuple[str, str], _Identity] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        named = is_in(batch.column("op"), frozenset({"EXCHANGE_ID", "SETCLIENTID"}))
        named &= present(batch.column("identity")) & present(batch.column("value"))
        for row in operations(rows_of(batch, named)):
            if row.connection is not None:
                self._use(row)

    def _use(self, row: Operation) -> None:
        key = (row.endpoint, row.identity)
        host = (address_of(row.connection)[0], row.value)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_IDENTITIES:
                self._emit(next(iter(self._known)))
            known = self._known[key] = _Identity(row.client, host, first_ns=row.start_lo)
        elif host != known.current:
            known.evidence.append(row.at_call)
            other = host[0] != known.current[0] and host[1] != known.current[1]
            if host in known.hosts and other:
                known.returns += 1
                known.last_ns = row.start_lo
            known.current = host
        if not known.evidence:
            known.evidence.append(row.at_call)
        del known.evidence[_EVIDENCE:]
        if len(known.hosts) < _MOST_HOSTS:
            known.hosts[host] = None

    def _emit(self, key: tuple[str, str]) -> None:
        known = self._known.pop(key)
        if not known.returns:
            return
        self._rows.append(
            SharedIdentityRow(
                endpoint=key[0],
                client=known.client,
                identity=key[1],
                addresses=tuple(dict.fromkeys(address for address, _ in known.hosts)),
                verifiers=tuple(dict.fromkeys(verifier for _, verifier in known.hosts)),
                returns=known.returns,
                first_ns=known.first_ns,
                last_ns=known.last_ns,
                evidence=tuple(known.evidence),
            )
        )

    def finish(self) -> None:
        for key in list(self._known):
            self._emit(key)


FOLD = Fold(
    name="identities",
    reads=("endpoint", "client", "op", "identity", "value", "connection", "start_lo", "at_call"),
    produces=(SharedIdentityRow,),
    start=_Identities,
    kinds=frozenset({"session"}),
)
