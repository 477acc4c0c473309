"""The verdict matrix: per promise what the mount promises, what was seen, and what follows.

The verdict is about the property itself: *violated* (it was broken before our eyes, beyond a bound if the
mount names one), *upheld* (judged, and nothing found), *not exercised*, *unknown*. Whether a violation is a
surprise is another question: `surprise` is True where the mount promises the property.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from analyzer.analysis.breaches import Audit, Breach
from analyzer.analysis.expectation import (
    PROMISES,
    ROUND_TRIP_NS,
    Expectation,
    Level,
    weakest,
)
from analyzer.analysis.lock_service import LockServiceRow
from analyzer.analysis.mounts import MountRow
from analyzer.analysis.staleness import StalenessRow
from analyzer.analysis.tenancy import TenantRow
from analyzer.analysis.words import duration
from analyzer.core.finding import Verdict
from analyzer.core.table import Tables

#: Breaches of these kinds are what a cache within its bound does.
BY_CACHE: Final = frozenset({"older", "missed", "ghost", "absent", "backwards"})
#: A grant of this share of what others got, and less, is starvation; as the rule says.
_STARVED: Final = 10


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One line of the matrix. `witness`: references of the gravest breach."""

    promise: str
    title: str
    expected: Level
    why: str
    observed: str
    verdict: Verdict
    surprise: bool
    witness: tuple[str, ...]


def within_bound(breach: Breach, expected: Expectation) -> bool:
    """Whether the mount's own caches explain a breach."""
    bounded = expected.level is Level.BOUNDED and breach.kind in BY_CACHE
    return bounded and breach.late_ns <= expected.bound_ns + ROUND_TRIP_NS


def matrix(tables: Tables, unknown: Mapping[str, str] | None = None) -> tuple[MatrixRow, ...]:
    """The lines in the order of `PROMISES`. `unknown` maps promises to the reason why nothing can be
    concluded from finding nothing (a clock that could not be calibrated, a run cut short)."""
    mounts = list(tables.of(MountRow))
    audits: dict[str, list[Audit]] = {}
    for audit in tables.of(Audit):
        audits.setdefault(audit.promise, []).append(audit)
    breaches: dict[str, list[Breach]] = {}
    for breach in tables.of(Breach):
        breaches.setdefault(breach.promise, []).append(breach)
    rows = []
    for promise in PROMISES:
        expected = weakest(mounts, promise)
        observed, verdict, witness = _observed(
            promise, tables, expected, audits.get(promise, []), breaches.get(promise, [])
        )
        doubt = (unknown or {}).get(promise)
        if doubt and verdict is Verdict.UPHELD:
            observed, verdict = doubt, Verdict.UNKNOWN
        surprise = verdict is Verdict.VIOLATED and expected.level in (Level.PROMISED, Level.BOUNDED)
        title = PROMISES[promise]
        rows.append(
            MatrixRow(promise, title, expected.level, expected.why, observed, verdict, surprise, witness)
        )
    return tuple(rows)


_Seen = tuple[str, Verdict, tuple[str, ...]]


def _observed(
    promise: str,
    tables: Tables,
    expected: Expectation,
    audits: Iterable[Audit],
    breaches: list[Breach],
) -> _Seen:
    if promise == "staleness":
        return _staleness(list(tables.of(StalenessRow)), expected)
    if promise == "fairness":
        return _fairness(list(tables.of(LockServiceRow)))
    if promise == "isolation":
        return _isolation(list(tables.of(TenantRow)))
    audits = list(audits)
    judged, count = sum(a.judged for a in audits), sum(a.breaches for a in audits)
    if not judged and not count:
        why = next((a.why for a in audits if a.why), "its workload did not run")
        return why, Verdict.NOT_EXERCISED, ()
    if not count:
        return f"{judged:,} judged, none broken", Verdict.UPHELD, ()
    beyond = [b for b in breaches if not within_bound(b, expected)]
    worst = max(beyond or breaches, key=lambda b: b.late_ns)
    text = f"{count:,} broken of {judged:,} judged ({worst.kind})"
    if worst.late_ns:
        text += f", by up to {duration(worst.late_ns)}"
    return text, Verdict.VIOLATED if beyond else Verdict.UPHELD, worst.evidence


def _staleness(rows: list[StalenessRow], expected: Expectation) -> _Seen:
    if not any(row.changes or row.stale_looks for row in rows):
        return "nothing was changed and looked at", Verdict.NOT_EXERCISED, ()
    worst = max(rows, key=lambda row: row.lag_ns_max)
    text = f"{worst.aspect}: p50 {duration(worst.lag_ns_p50)}, most {duration(worst.lag_ns_max)}"
    bad = expected.level is not Level.UNKNOWN and worst.lag_ns_max > expected.bound_ns + ROUND_TRIP_NS
    return text, Verdict.VIOLATED if bad else Verdict.UPHELD, worst.worst


def _fairness(rows: list[LockServiceRow]) -> _Seen:
    if not rows:
        return "nobody waited for a lock", Verdict.NOT_EXERCISED, ()
    worst = min(rows, key=lambda row: row.jain)
    text = f"Jain {worst.jain:.2f}, longest wait {duration(max(r.wait_ns_max for r in rows))}"
    starved = starving(worst)
    return text, Verdict.VIOLATED if starved else Verdict.UPHELD, worst.evidence if starved else ()


def starving(row: LockServiceRow) -> bool:
    """Whether somebody got less than a tenth of an equal share."""
    return row.grants >= _STARVED * row.owners and row.least_grants * _STARVED * row.owners < row.grants


def _isolation(rows: list[TenantRow]) -> _Seen:
    if not rows:
        return "no tenant ran alone and with others", Verdict.NOT_EXERCISED, ()
    worst = max(rows, key=lambda row: row.slowdown)
    text = f"{worst.tenant} {worst.slowdown:.1f} times slower, Jain {worst.jain:.2f}"
    return text, Verdict.VIOLATED if worst.slowdown_low > 1.5 else Verdict.UPHELD, ()
