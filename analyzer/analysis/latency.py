"""How long operations took: a mergeable histogram per operation and client, and rates over time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """Latency of one protocol operation by one client at one server; `client` is "" for all clients.

    Percentiles in ns, each at most 3 % above the true value (bucket width of the histogram)."""

    endpoint: str
    client: str
    op: str
    count: int
    failed: int
    bytes: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    slowest: str


@dataclass(frozen=True, slots=True)
class RateRow:
    """How often one operation returned one status in one interval of time, and how long it took."""

    start_ns: int
    width_ns: int
    op: str
    status: str
    count: int
    mean_ns: int
    max_ns: int
