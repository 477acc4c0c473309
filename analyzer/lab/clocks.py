"""How far a node's clocks are from the host's: what relates a workload's stamps to the capture's.

One question and answer proves an interval: the node read its clock after the host asked and before the host
had the answer. Of several the narrowest is kept. Drift is not estimated: measure again, at the end.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from analyzer.lab.node import UmlNode

_PINGS = 12


@dataclass(frozen=True, slots=True)
class Offset:
    """`node clock - host clock` lies in [lo_ns, hi_ns]: `wall` for CLOCK_REALTIME, `mono` for the node's
    CLOCK_MONOTONIC_RAW against the host's CLOCK_REALTIME. `at_ns`: host's CLOCK_REALTIME."""

    node: str
    at_ns: int
    wall_lo_ns: int
    wall_hi_ns: int
    mono_lo_ns: int
    mono_hi_ns: int

    def as_json(self) -> dict[str, Any]:
        """For lab.json."""
        return asdict(self)


def measure(node: UmlNode, pings: int = _PINGS) -> Offset | None:
    """Ask a node for its clocks several times; None if it doesn't answer."""
    best: Offset | None = None
    for _ in range(pings):
        answer: dict[str, Any] = {}
        before = time.time_ns()
        node.ask({"do": "clock", "timeout_s": 5}, answer.update)
        after = time.time_ns()
        if "wall_ns" not in answer:
            return best
        wall, mono = int(answer["wall_ns"]), int(answer["mono_ns"])
        found = Offset(node.name, after, wall - after, wall - before, mono - after, mono - before)
        if best is None or found.wall_hi_ns - found.wall_lo_ns < best.wall_hi_ns - best.wall_lo_ns:
            best = found
    return best
