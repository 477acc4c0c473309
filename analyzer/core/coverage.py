"""Coverage: what the input showed, what it lost, and what could therefore not be judged."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Loss(enum.StrEnum):
    """Why answers may be incomplete. The value is the sentence's subject in reports."""

    SNAPLEN = "truncated frames"  # cap_len < len
    GAP = "lost TCP segments"
    CUT = "file cut off"
    MID_START = "begins mid-connection"
    MID_END = "ends mid-call"
    ONE_WAY = "one direction missing"
    UNDECODED = "undecoded frames"
    UNMATCHED = "replies without a call"
    CAPPED = "capped"
    FILTERED = "filtered"


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence of coverage. `loss` is None for plain facts ("seen but not judged").

    `count` is how many frames, bytes or calls; `remedy` says how to get a complete input.
    """

    text: str
    loss: Loss | None = None
    count: int = 0
    remedy: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was seen. `seen` maps a plural noun ("frames", "operations", "clients") to a count.

    `severe` is True where so much is missing that rules which follow state over time can't be judged
    (truncated frames, one direction missing, more than 1 % of calls unmatched): the engine then gives
    them the verdict *unknown*. A lesser loss lowers confidence by one step (`degraded`).
    """

    seen: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    first_ns: int | None = None
    last_ns: int | None = None
    notes: tuple[Note, ...] = ()
    severe: bool = False

    @property
    def degraded(self) -> bool:
        """True if anything that a rule may need was lost."""
        harmless = {Loss.MID_END, Loss.FILTERED}
        return self.severe or any(n.loss is not None and n.loss not in harmless for n in self.notes)
