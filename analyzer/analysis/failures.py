"""Which operations failed: counted per client, operation and status, with references to a few.

What a status means for the user is decided by its topic (`TOPICS`): a rule takes the statuses of one
topic, and the catch-all takes what has none. Names and meanings: RFC 7530 and RFC 8881, section 15.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from analyzer.analysis.groups import (
    ends_or_starts,
    greatest,
    grouped,
    integers,
    is_in,
    least,
    present,
    rows_of,
)
from analyzer.core.operations import operations
from analyzer.core.rule import Case, Fold
from analyzer.core.table import Tables

_EVIDENCE = 8
_MOST_GROUPS = 50_000  # beyond it, further groups are counted without the client's name

#: Statuses by what they tell. Everything that a rule of its own explains is in here.
TOPICS: Mapping[str, frozenset[str]] = {
    "bad-slot": frozenset({"BADSLOT", "BAD_HIGH_SLOT"}),
    "sequence": frozenset({"SEQ_MISORDERED", "SEQ_FALSE_RETRY", "RETRY_UNCACHED_REP"}),
    "session": frozenset({"BADSESSION", "DEADSESSION"}),
    "expired": frozenset({"EXPIRED"}),
    "stale": frozenset({"STALE_STATEID", "BAD_STATEID", "OLD_STATEID", "STALE_CLIENTID", "BAD_SEQID"}),
    "revoked": frozenset({"DELEG_REVOKED", "ADMIN_REVOKED"}),
    "reclaim": frozenset({"NO_GRACE", "RECLAIM_BAD", "RECLAIM_CONFLICT"}),
    "grace": frozenset({"GRACE"}),
    "delay": frozenset({"DELAY"}),
    "callback": frozenset({"CB_PATH_DOWN"}),
    "malformed": frozenset(
        {
            *("OP_NOT_IN_SESSION", "SEQUENCE_POS", "NOT_ONLY_OP", "BADXDR", "OP_ILLEGAL"),
            *("TOO_MANY_OPS", "REQ_TOO_BIG", "REP_TOO_BIG", "REP_TOO_BIG_TO_CACHE", "UNSAFE_COMPOUND"),
        }
    ),
    "lock": frozenset({"DENIED", "DEADLOCK", "SHARE_DENIED", "LOCKED"}),
    "storage": frozenset({"NOSPC", "DQUOT", "IO", "STALE", "ROFS"}),
}


@dataclass(frozen=True, slots=True)
class FailureRow:
    """One client's failures of one operation with one status at one server.

    `callback`: the server called and the client refused. `in_result`: the operation itself was ok and
    the status sits inside its result (TEST_STATEID). `first_ns`, `last_ns`: replies. `path` is that of
    the first, `evidence` the replies of the first few.
    """

    endpoint: str
    client: str | None
    protocol: str
    op: str
    status: str
    status_code: int
    callback: bool
    in_result: bool
    count: int
    first_ns: int
    last_ns: int
    path: str | None
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Count:
    count: int
    first_ns: int
    last_ns: int
    path: str | None
    evidence: list[str]

    def add(self, count: int, first_ns: int, last_ns: int, evidence: list[str]) -> None:
        self.count += count
        self.first_ns = min(self.first_ns, first_ns)
        self.last_ns = max(self.last_ns, last_ns)
        self.evidence.extend(evidence[: _EVIDENCE - len(self.evidence)])


_Key = tuple[str, str | None, str, str, str, int, bool, bool]


class _Failures:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(FailureRow)
        self._counts: dict[_Key, _Count] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        codes = integers(batch.column("status_code"))
        self._failed(rows_of(batch, codes != 0))
        tested = is_in(batch.column("op"), frozenset({"TEST_STATEID"})) & present(batch.column("results"))
        if tested.any():
            self._inside(rows_of(batch, tested))

    def _failed(self, batch: pa.RecordBatch) -> None:
        names = ("endpoint", "client", "protocol", "op", "status", "status_code", "callback")
        codes, groups = grouped(batch, names)
        if not groups:
            return
        seen = ends_or_starts(batch)
        counts = np.bincount(codes, minlength=len(groups)).tolist()
        first = least(codes, seen, len(groups)).tolist()
        last = greatest(codes, seen, len(groups)).tolist()
        order = np.argsort(codes, kind="stable")
        begins = np.searchsorted(codes[order], np.arange(len(groups)))
        for index, (endpoint, client, protocol, op, status, code, callback) in enumerate(groups):
            rows = order[begins[index] : begins[index] + min(_EVIDENCE, counts[index])].tolist()
            evidence = [ref for ref in (batch.column("at_return")[row].as_py() for row in rows) if ref]
            path = batch.column("path")[rows[0]].as_py()
            key = (endpoint, client, protocol or "", op, status or str(code), code, bool(callback), False)
            self._add(key, _Count(counts[index], first[index], last[index], path, evidence))

    def _inside(self, batch: pa.RecordBatch) -> None:
        for row in operations(batch):
            wrong = Counter(name for name in row.results.split(",") if name not in ("", "ok", "OK"))
            for status, count in wrong.items():
                key = (row.endpoint, row.client, row.protocol or "", row.op, status, 0, False, True)
                evidence = [row.at_return] if row.at_return else []
                self._add(key, _Count(count, row.end_lo, row.end_lo, row.path, evidence))

    def _add(self, key: _Key, found: _Count) -> None:
        if key not in self._counts and len(self._counts) >= _MOST_GROUPS:
            key = (key[0], None, *key[2:])
        known = self._counts.get(key)
        if known is None:
            self._counts[key] = found
        else:
            known.add(found.count, found.first_ns, found.last_ns, found.evidence)

    def finish(self) -> None:
        for key, found in self._counts.items():
            self._rows.append(
                FailureRow(
                    *key, found.count, found.first_ns, found.last_ns, found.path, tuple(found.evidence)
                )
            )


@dataclass(frozen=True, slots=True)
class Failing:
    """Failures that belong to one sentence: at one server, of one topic."""

    endpoint: str
    rows: tuple[FailureRow, ...]

    @property
    def count(self) -> int:
        """How many operations failed."""
        return sum(row.count for row in self.rows)

    @property
    def when(self) -> tuple[int, int]:
        """First and last reply, ns."""
        return min(row.first_ns for row in self.rows), max(row.last_ns for row in self.rows)

    @property
    def evidence(self) -> tuple[str, ...]:
        """A few replies, from each kind of failure the first ones."""
        turns = max((len(row.evidence) for row in self.rows), default=0)
        mixed = [r.evidence[turn] for turn in range(turns) for r in self.rows if turn < len(r.evidence)]
        return tuple(mixed[:_EVIDENCE])

    def by(self, column: str) -> dict[Any, int]:
        """Counts by `client`, `op`, `status` ..., the most frequent first."""
        counts: Counter[Any] = Counter()
        for row in self.rows:
            counts[getattr(row, column)] += row.count
        return dict(sorted(counts.items(), key=lambda item: (-item[1], str(item[0]))))

    def where(self, **wanted: object) -> Failing:
        """Only the rows with these values."""
        rows = tuple(r for r in self.rows if all(getattr(r, k) == v for k, v in wanted.items()))
        return Failing(self.endpoint, rows)


def failing(rows: Iterable[FailureRow], statuses: frozenset[str]) -> Iterator[Failing]:
    """Failures of clients' requests (not of callbacks) with one of `statuses`, one group per server."""
    found: dict[str, list[FailureRow]] = {}
    for row in rows:
        if row.status in statuses and not row.callback:
            found.setdefault(row.endpoint, []).append(row)
    for endpoint, group in found.items():
        yield Failing(endpoint, tuple(sorted(group, key=lambda r: (-r.count, r.first_ns, r.op, r.status))))


def failing_of(case: Case, topic: str) -> Iterator[Failing]:
    """`failing` for the statuses of one topic."""
    return failing(case.rows(FailureRow), TOPICS[topic])


FOLD = Fold(
    name="failures",
    reads=(
        *("endpoint", "client", "protocol", "op", "status", "status_code", "callback"),
        *("results", "start_lo", "end_lo", "path", "at_return"),
    ),
    produces=(FailureRow,),
    start=_Failures,
    kinds=frozenset({"stateid"}),
    failed=True,
)
