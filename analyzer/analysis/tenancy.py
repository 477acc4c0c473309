"""What tenants cost each other: speed together against speed alone, with confidence intervals.

Each tenant runs alone (phase `solo`) and with the others (`together`), several rounds each. Its speed in a
round is bytes (or calls, where it moves none) per second; the slowdown is the mean alone over the mean
together, and its 95 % interval comes from a bootstrap over the rounds with a fixed seed, so that the same
history gives the same numbers. A tenant is a *victim* if the whole interval lies above 1. The *aggressor*
is the tenant whose share of all work together exceeds its share alone the most. If all together move less
than the strongest alone, bandwidth isn't what is short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyzer.analysis.columns import Ints
from analyzer.analysis.history import History, history_fold
from analyzer.analysis.lock_service import jain_index
from analyzer.core.table import Tables

_RESAMPLES: Final = 2000
_SEED: Final = 20
_PPM: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One tenant. Speeds are per second, of bytes or (`unit` = calls) of calls; latencies are of its calls.
    `slowdown_low..slowdown_high`: 95 %; rounds of 1 give no interval (both are then 0). `total_together`
    and `best_solo` are the same for all tenants; `jain` is that of their speeds relative to alone."""

    tenant: str
    unit: str
    rounds_solo: int
    rounds_together: int
    speed_solo: float
    speed_together: float
    slowdown: float
    slowdown_low: float
    slowdown_high: float
    share_solo: float
    share_together: float
    latency_ns_p50_solo: int
    latency_ns_p50: int
    latency_ns_p99_solo: int
    latency_ns_p99: int
    total_together: float
    best_solo: float
    jain: float
    evidence: tuple[str, ...]
    at_ns: int


@dataclass(frozen=True, slots=True)
class _Speeds:
    solo: NDArray[np.float64]
    together: NDArray[np.float64]
    solo_ns: Ints
    together_ns: Ints
    rows: Ints


def bootstrap_ratio(
    above: NDArray[np.float64], below: NDArray[np.float64], seed: int = _SEED
) -> tuple[float, float]:
    """95 % interval of mean(above) / mean(below), both resampled; (0, 0) for fewer than two values each."""
    if len(above) < 2 or len(below) < 2:
        return 0.0, 0.0
    rng = np.random.default_rng(seed)
    ups = above[rng.integers(0, len(above), (_RESAMPLES, len(above)))].mean(axis=1)
    downs = below[rng.integers(0, len(below), (_RESAMPLES, len(below)))].mean(axis=1)
    low, high = np.quantile(ups / np.maximum(downs, 1e-9), [0.025, 0.975])
    return float(low), float(high)


def _judge(h: History, tables: Tables) -> None:
    tenant, phase = h.text("tenant"), h.text("phase")
    done = h.ok & (h.end > h.start)
    names = [t for t in sorted(set(tenant.dictionary.to_pylist())) if tenant.lookup(frozenset({t})).any()]
    size = h.ints("bytes")
    unit = "bytes" if bool((size[done] > 0).any()) else "calls"
    work = size if unit == "bytes" else np.ones(len(h), dtype=np.int64)
    begin = np.where(h.known("intended"), h.ints("intended"), h.start)
    found: dict[str, _Speeds] = {}
    for name in names:
        own = done & tenant.lookup(frozenset({name}))
        solo, both = (np.flatnonzero(own & phase.lookup(frozenset({p}))) for p in ("solo", "together"))
        if len(solo) and len(both):
            times = np.sort((h.end - begin)[solo]), np.sort((h.end - begin)[both])
            found[name] = _Speeds(_rounds(h, solo, work), _rounds(h, both, work), *times, both)
    _write(h, tables, unit, found)


def _rounds(h: History, rows: Ints, work: Ints) -> NDArray[np.float64]:
    """Work per second of each round."""
    number = h.ints("round")[rows]
    speeds = []
    for one in np.unique(number):
        own = rows[number == one]
        span = int(h.end[own].max() - h.start[own].min())
        speeds.append(float(work[own].sum()) * 1e9 / max(span, 1))
    return np.array(speeds, dtype=np.float64)


def _write(h: History, tables: Tables, unit: str, found: dict[str, _Speeds]) -> None:
    if len(found) < 2:
        return
    solo = {name: float(s.solo.mean()) for name, s in found.items()}
    both = {name: float(s.together.mean()) for name, s in found.items()}
    relative = np.array([both[n] / max(solo[n], 1e-9) * _PPM for n in found]).astype(np.int64)
    for name, speeds in found.items():
        low, high = bootstrap_ratio(speeds.solo, speeds.together)
        tables.of(TenantRow).append(
            TenantRow(
                tenant=name,
                unit=unit,
                rounds_solo=len(speeds.solo),
                rounds_together=len(speeds.together),
                speed_solo=solo[name],
                speed_together=both[name],
                slowdown=solo[name] / max(both[name], 1e-9),
                slowdown_low=low,
                slowdown_high=high,
                share_solo=solo[name] / max(sum(solo.values()), 1e-9),
                share_together=both[name] / max(sum(both.values()), 1e-9),
                latency_ns_p50_solo=_at(speeds.solo_ns, 0.5),
                latency_ns_p50=_at(speeds.together_ns, 0.5),
                latency_ns_p99_solo=_at(speeds.solo_ns, 0.99),
                latency_ns_p99=_at(speeds.together_ns, 0.99),
                total_together=sum(both.values()),
                best_solo=max(solo.values()),
                jain=jain_index(relative),
                evidence=h.cite([int(speeds.rows[0]), int(speeds.rows[-1])]),
                at_ns=int(h.start[speeds.rows].min()),
            )
        )


def _at(ordered: Ints, share: float) -> int:
    return int(ordered[int(share * (len(ordered) - 1))])


FOLD = history_fold(
    "tenancy",
    _judge,
    workloads=("tenants",),
    reads=("tenant", "phase", "round", "bytes", "intended"),
    produces=(TenantRow,),
)
