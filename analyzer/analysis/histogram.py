"""A histogram of durations that can be merged: fixed logarithmic buckets, so merging is adding."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Each bucket's upper edge is at most 3 % above its lower edge (a little less, so that rounding fits).
GROWTH: Final = 1.029
LOWEST_NS: Final = 1_000
HIGHEST_NS: Final = 1_000_000_000_000

#: Bucket 0 holds everything up to 1 µs, the last one everything above 1000 s.
BUCKETS: Final = math.ceil(math.log(HIGHEST_NS / LOWEST_NS) / math.log(GROWTH)) + 2


def buckets_of(durations_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bucket of each duration."""
    scaled = np.log(np.maximum(durations_ns, 1) / LOWEST_NS) / math.log(GROWTH)
    return np.clip(np.floor(scaled).astype(np.int64) + 1, 0, BUCKETS - 1)


def upper_edge_ns(bucket: int) -> int:
    """The largest duration that a bucket holds; meaningless for the last one."""
    return math.ceil(LOWEST_NS * GROWTH**bucket)


def percentiles_ns(counts: NDArray[np.int64], max_ns: int, quantiles: tuple[float, ...]) -> tuple[int, ...]:
    """The durations at some quantiles (0..1) by nearest rank: for each the smallest one that at least this
    share of the values doesn't exceed. At most 3 % above the true value, never below it, never above
    `max_ns`. 0 if there are no values."""
    reached = np.cumsum(counts)
    total = int(reached[-1])
    if total == 0:
        return (0,) * len(quantiles)
    ranks = [min(max(math.ceil(quantile * total), 1), total) for quantile in quantiles]
    buckets = np.searchsorted(reached, ranks).tolist()
    return tuple(max_ns if b == BUCKETS - 1 else min(upper_edge_ns(b), max_ns) for b in buckets)


def _empty() -> NDArray[np.int64]:
    return np.zeros(BUCKETS, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts of durations per bucket, and the exact maximum. Adding two gives the histogram of both."""

    counts: NDArray[np.int64] = field(default_factory=_empty)
    max_ns: int = 0

    @classmethod
    def of(cls, durations_ns: NDArray[np.int64]) -> Histogram:
        """The histogram of these durations."""
        if len(durations_ns) == 0:
            return cls()
        counts = np.bincount(buckets_of(durations_ns), minlength=BUCKETS).astype(np.int64)
        return cls(counts, int(durations_ns.max()))

    def __add__(self, other: Histogram) -> Histogram:
        return Histogram(self.counts + other.counts, max(self.max_ns, other.max_ns))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return self.max_ns == other.max_ns and bool((self.counts == other.counts).all())

    def __hash__(self) -> int:
        return hash((self.max_ns, self.counts.tobytes()))

    @property
    def count(self) -> int:
        """How many durations."""
        return int(self.counts.sum())

    def percentile_ns(self, quantile: float) -> int:
        """The duration at a quantile (0..1); see `percentiles_ns`."""
        return percentiles_ns(self.counts, self.max_ns, (quantile,))[0]
