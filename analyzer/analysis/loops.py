"""Recovery that doesn't help: the same client failing on the same state again and again.

What counts is rounds, not failures: requests in flight together fail together once their state is gone,
and that's one round. A new round needs a call that was sent after the failure of the round before was
known, and 100 ms after that round began.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from analyzer.analysis.groups import booleans, is_in, present, rows_of
from analyzer.core.operations import Operation, operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_ROUND_NS = 100_000_000
_PAUSE_NS = 120_000_000_000  # failures further apart have nothing to do with each other
_MOST = 16_384
_EVIDENCE = 8

_OF_CLIENT = frozenset({"BADSESSION", "DEADSESSION", "STALE_CLIENTID"})
_OF_STATE = frozenset({"BAD_STATEID", "STALE_STATEID", "OLD_STATEID", "EXPIRED", "ADMIN_REVOKED"})
_STATUSES = _OF_CLIENT | _OF_STATE | {"DELEG_REVOKED"}


@dataclass(frozen=True, slots=True)
class LoopRow:
    """Failures of one client with one status on one thing, in more than one round.

    `target` is the file, or the stateid where the operation has none; "" for the client's session or
    client id as a whole. `inside`: how many sat inside the result of a TEST_STATEID that was ok.
    """

    endpoint: str
    client: str
    status: str
    target: str
    path: str | None
    ops: tuple[str, ...]
    count: int
    inside: int
    rounds: int
    first_ns: int
    last_ns: int
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Loop:
    path: str | None
    round_start_ns: int
    known_ns: int
    first_ns: int
    last_ns: int
    rounds: int = 1
    count: int = 0
    inside: int = 0
    ops: dict[str, None] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)


_Key = tuple[str, str, str, str]


class _Loops:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(LoopRow)
        self._loops: dict[_Key, _Loop] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        failed = is_in(batch.column("status"), _STATUSES) | present(batch.column("results"))
        failed &= present(batch.column("client")) & present(batch.column("end_lo"))
        failed &= ~booleans(batch.column("callback"))
        for row in operations(rows_of(batch, failed)):
            if row.status in _STATUSES:
                target = "" if row.status in _OF_CLIENT else row.object or row.stateid or ""
                self._failed(row, row.status, target, 0)
            elif row.results:
                for status in sorted(_STATUSES.intersection(row.results.split(","))):
                    self._failed(row, status, row.stateid or "", row.results.split(",").count(status))

    def _failed(self, row: Operation, status: str, target: str, inside: int) -> None:
        key = (row.endpoint, row.client, status, target)
        loop = self._loops.pop(key, None)
        if loop is not None and row.start_lo > loop.last_ns + _PAUSE_NS:
            self._emit(key, loop)
            loop = None
        if loop is None:
            if len(self._loops) >= _MOST:
                oldest = next(iter(self._loops))
                self._emit(oldest, self._loops.pop(oldest))
            loop = _Loop(row.path, row.start_lo, row.end_lo, row.start_lo, row.end_lo)
            self._cite(loop, row)
        elif row.start_lo > loop.known_ns and row.start_lo >= loop.round_start_ns + _ROUND_NS:
            loop.rounds += 1
            loop.round_start_ns, loop.known_ns = row.start_lo, row.end_lo
            self._cite(loop, row)
        self._loops[key] = loop  # last in order: the oldest goes first when there are too many
        loop.count += inside or 1
        loop.inside += inside
        loop.last_ns = max(loop.last_ns, row.end_lo)
        loop.ops[row.op] = None

    @staticmethod
    def _cite(loop: _Loop, row: Operation) -> None:
        if row.at_return and len(loop.evidence) < _EVIDENCE:
            loop.evidence.append(row.at_return)

    def _emit(self, key: _Key, loop: _Loop) -> None:
        if loop.rounds < 2:
            return
        self._rows.append(
            LoopRow(
                *key,
                path=loop.path,
                ops=tuple(loop.ops),
                count=loop.count,
                inside=loop.inside,
                rounds=loop.rounds,
                first_ns=loop.first_ns,
                last_ns=loop.last_ns,
                evidence=tuple(loop.evidence),
            )
        )

    def finish(self) -> None:
        for key, loop in self._loops.items():
            self._emit(key, loop)


FOLD = Fold(
    name="loops",
    reads=(
        *("endpoint", "client", "op", "object", "path", "stateid", "status", "results", "callback"),
        *("start_lo", "end_lo", "at_return"),
    ),
    produces=(LoopRow,),
    start=_Loops,
    kinds=frozenset({"stateid"}),
    failed=True,
)
