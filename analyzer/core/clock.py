"""Stamps of many hosts in the coordinator's time, as bounds that hold for certain.

Each host stamps with a clock of its own (CLOCK_MONOTONIC_RAW). The coordinator pings it now and then: a
ping that was sent at `sent`, answered with the host's `stamp` and received at `received` (both in the
coordinator's clock) proves that the host's clock showed `stamp` somewhere within `sent..received`. No
symmetry of the way there and back is assumed. Between pings only a bound on drift is assumed: while a
host's clock advances by `d`, the coordinator's advances by `d·(1±drift)`. All that every ping proves is
intersected, so that a wider interval is the worst that can come of a slow network. An operation then began
no earlier than the lower bound of its call and ended no later than the upper bound of its return: that only
adds possible orders, and what is found to be impossible is impossible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyzer.core.errors import PremiseError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Two free-running crystals: 100 ppm each, as their data sheets allow.
DRIFT: Final = 200e-6
#: Rounding of 64-bit floats over the longest span that is taken.
_SLACK_NS: Final = 2
_LONGEST_NS: Final = 10**15  # 11 days
_SUSPENDED_NS: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class Pings:
    """Pings of one host, in ns: arrays of one length. `stamp` is the host's clock, the others are the
    coordinator's. `boot` is the host's CLOCK_BOOTTIME beside `stamp`, where it was sent along: the two
    part ways while the host is suspended, when its other clock stands still."""

    sent: Ints
    received: Ints
    stamp: Ints
    boot: Ints | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """Converts stamps of one host (`bounds`). `width_ns` is the mean width of the interval at the pings."""

    drift: float
    local_base: int
    base: int
    stamps: Ints
    earlier_low: Floats
    earlier_high: Floats
    later_low: Floats
    later_high: Floats
    width_ns: int

    def bounds(self, stamps: Ints) -> tuple[Ints, Ints]:
        """Lower and upper bound of each stamp in the coordinator's ns, both of the shape of `stamps`."""
        if not len(self.stamps):  # the coordinator's own host
            return stamps.copy(), stamps.copy()
        x = (stamps - self.local_base).astype(np.float64)
        slow, fast = (1 - self.drift) * x, (1 + self.drift) * x
        earlier = np.searchsorted(self.stamps, stamps, side="right")  # index 0: no ping before
        later = np.searchsorted(self.stamps, stamps, side="left")  # last index: none after
        low = np.maximum(slow + self.earlier_low[earlier], fast + self.later_low[later])
        high = np.minimum(fast + self.earlier_high[earlier], slow + self.later_high[later])
        lower = np.floor(low).astype(np.int64) - _SLACK_NS + self.base
        upper = np.ceil(high).astype(np.int64) + _SLACK_NS + self.base
        return lower, upper


def same_clock() -> Clock:
    """The clock of workers on the coordinator's own host: exact."""
    none, empty = np.zeros(0), np.zeros(0, dtype=np.int64)
    return Clock(0.0, 0, 0, empty, none, none, none, none, 0)


def calibrate(pings: Pings, drift: float = DRIFT) -> Clock:
    """The clock of the host that was pinged.

    Raises `PremiseError` where there is no ping, where the host was suspended in between, or where no clock
    within the drift bound fits all pings.
    """
    if not len(pings.stamp):
        raise PremiseError("the host never answered a ping, so that its clock is unknown. Run again")
    order = np.argsort(pings.stamp, kind="stable")
    stamps = pings.stamp[order]
    if max(np.ptp(stamps), np.ptp(pings.sent)) > _LONGEST_NS:
        raise PremiseError("the pings span more than 11 days. Judge shorter runs")
    if pings.boot is not None and np.ptp(pings.boot[order] - stamps) > _SUSPENDED_NS:
        raise PremiseError("the host was suspended during the run: its clock stood still. Run again")
    local_base, base = int(stamps[0]), int(pings.sent[order[0]])
    r = (stamps - local_base).astype(np.float64)
    sent = (pings.sent[order] - base).astype(np.float64)
    received = (pings.received[order] - base).astype(np.float64)
    slow, fast = (1 - drift) * r, (1 + drift) * r
    infinite = np.array([np.inf])
    clock = Clock(
        drift=drift,
        local_base=local_base,
        base=base,
        stamps=stamps,
        earlier_low=np.concatenate([-infinite, np.maximum.accumulate(sent - slow)]),
        earlier_high=np.concatenate([infinite, np.minimum.accumulate(received - fast)]),
        later_low=np.concatenate([np.maximum.accumulate((sent - fast)[::-1])[::-1], -infinite]),
        later_high=np.concatenate([np.minimum.accumulate((received - slow)[::-1])[::-1], infinite]),
        width_ns=0,
    )
    low, high = clock.bounds(stamps)
    if bool((low > high).any()):
        worst = int((low - high).max())
        raise PremiseError(
            f"no clock that drifts by at most {drift * 1e6:.0f} ppm fits the pings of this host (off by "
            f"{worst} ns): its clock was set, or it was suspended. Run again"
        )
    return replace(clock, width_ns=int((high - low).mean()))
