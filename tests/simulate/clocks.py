"""Hosts whose clocks are off and drift, pinged over a network that is slower one way than the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyzer.core.clock import Pings

Ints = NDArray[np.int64]
S = 1_000_000_000


@dataclass(frozen=True)
class Host:
    """A clock that shows `offset + (1 + drift)·t`, where the drift itself wobbles slowly."""

    offset_ns: int
    drift: float
    wobble: float
    period_ns: float

    def stamp(self, true_ns: Ints) -> Ints:
        t = true_ns.astype(np.float64)
        swing = self.wobble * self.period_ns / (2 * np.pi) * np.sin(2 * np.pi * t / self.period_ns)
        return self.offset_ns + true_ns + np.rint(self.drift * t + swing).astype(np.int64)


def hosts(rng: np.random.Generator, count: int) -> list[Host]:
    return [
        Host(
            int(rng.integers(-5_000_000, 5_000_000)) + int(rng.integers(0, 50)) * S,
            float(rng.uniform(-60e-6, 60e-6)),
            float(rng.uniform(0, 30e-6)),
            float(rng.uniform(5, 60)) * S,
        )
        for _ in range(count)
    ]


def ping(rng: np.random.Generator, host: Host, length_ns: int, every_ns: int = 25_000_000) -> Pings:
    """Pings with a heavy tail, ten times slower on the way back than there."""
    sent = np.arange(0, length_ns, every_ns) + rng.integers(0, every_ns, -(-length_ns // every_ns))
    there = 30_000 + rng.pareto(2.0, len(sent)) * 20_000
    back = 10 * (30_000 + rng.pareto(2.0, len(sent)) * 20_000)
    arrived = sent + there.astype(np.int64)
    return Pings(sent, arrived + back.astype(np.int64), host.stamp(arrived))
