"""Operations that the COMPOUND's minor version doesn't have.

RFC 8881, section 17 lists what NFSv4.1 must not implement; RFC 7530 knows no operation above 39.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from analyzer.analysis.groups import booleans, is_in, rows_of
from analyzer.core.operations import operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_EVIDENCE = 8
_MOST = 4096

#: Mandatory not to implement since NFSv4.1.
GONE_IN_41 = frozenset({"OPEN_CONFIRM", "SETCLIENTID", "SETCLIENTID_CONFIRM", "RENEW", "RELEASE_LOCKOWNER"})
#: New in NFSv4.1 (operations 40 to 58).
NEW_IN_41 = frozenset(
    {
        *("BACKCHANNEL_CTL", "BIND_CONN_TO_SESSION", "EXCHANGE_ID", "CREATE_SESSION", "DESTROY_SESSION"),
        *("FREE_STATEID", "GET_DIR_DELEGATION", "GETDEVICEINFO", "GETDEVICELIST", "LAYOUTCOMMIT"),
        *("LAYOUTGET", "LAYOUTRETURN", "SECINFO_NO_NAME", "SEQUENCE", "SET_SSV", "TEST_STATEID"),
        *("WANT_DELEGATION", "DESTROY_CLIENTID", "RECLAIM_COMPLETE"),
    }
)


@dataclass(frozen=True, slots=True)
class ForbiddenRow:
    """One operation that a client sent in a minor version without it, and what the server answered
    (status → count as "NOTSUPP 2")."""

    endpoint: str
    client: str | None
    protocol: str
    op: str
    count: int
    answers: tuple[str, ...]
    first_ns: int
    last_ns: int
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    first_ns: int
    last_ns: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    evidence: list[str] = field(default_factory=list)


class _Conformance:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(ForbiddenRow)
        self._found: dict[tuple[str, str | None, str, str], _Found] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        later = is_in(batch.column("protocol"), frozenset({"nfs4.1", "nfs4.2"}))
        wrong = later & is_in(batch.column("op"), GONE_IN_41)
        wrong |= is_in(batch.column("protocol"), frozenset({"nfs4.0"})) & is_in(
            batch.column("op"), NEW_IN_41
        )
        wrong &= ~booleans(batch.column("callback"))
        for row in operations(rows_of(batch, wrong)):
            key = (row.endpoint, row.client, row.protocol, row.op)
            if key not in self._found and len(self._found) >= _MOST:
                continue
            found = self._found.setdefault(key, _Found(row.start_lo))
            found.last_ns = row.start_lo if row.end_lo is None else row.end_lo
            found.answers[row.status or "no answer"] += 1
            if len(found.evidence) < _EVIDENCE:
                found.evidence.append(row.at_call or row.at_return)

    def finish(self) -> None:
        for key, found in self._found.items():
            self._rows.append(
                ForbiddenRow(
                    *key,
                    count=found.answers.total(),
                    answers=tuple(f"{status} {count}" for status, count in found.answers.most_common()),
                    first_ns=found.first_ns,
                    last_ns=found.last_ns,
                    evidence=tuple(found.evidence),
                )
            )


FOLD = Fold(
    name="conformance",
    reads=(
        *("endpoint", "client", "protocol", "op", "callback", "status"),
        *("start_lo", "end_lo", "at_call", "at_return"),
    ),
    produces=(ForbiddenRow,),
    start=_Conformance,
    kinds=frozenset({"session", "open", "stateid", "layout", "delegation", "other"}),
)
