"""Calls by the second in which they were answered: hands out whole seconds, whatever the batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import Groups, Ints, group

#: One second: long enough to tell a storm from a burst, short enough to see what it did to others.
WIDTH_NS: Final = 1_000_000_000

#: A second with more calls than this is handed out in parts, so that memory is bounded.
_MOST_CALLS: Final = 200_000


class Seconds:
    """Holds back the calls of the last second of a batch until the next one shows that it is over.

    Columns are integer arrays by name; `end` (ns) ascends from batch to batch."""

    def __init__(self) -> None:
        self._held: dict[str, Ints] = {}

    def feed(self, columns: Mapping[str, Ints]) -> dict[str, Ints] | None:
        """The calls of the seconds that are over, None if none is."""
        if self._held:
            columns = {n: np.concatenate([self._held[n], values]) for n, values in columns.items()}
        end = columns["end"]
        if len(end) == 0:
            return None
        over = int(np.searchsorted(end, end[-1] // WIDTH_NS * WIDTH_NS))
        if over == 0 and len(end) > _MOST_CALLS:
            over = len(end)
        self._held = {name: values[over:] for name, values in columns.items()}
        return {name: values[:over] for name, values in columns.items()} if over else None

    def finish(self) -> dict[str, Ints] | None:
        """What is still held back."""
        held, self._held = self._held, {}
        return held if held and len(held["end"]) else None


def by_second(endpoint: Ints, end: Ints) -> tuple[Groups, int]:
    """Groups by (endpoint, second), and what to add to a group's second; `end` ascends."""
    second = end // WIDTH_NS
    base = int(second[0])
    places = (endpoint, int(endpoint.max()) + 1), (second - base, int(second[-1]) - base + 1)
    return group(*places), base


class Proofs:
    """The first and the last reply of each endpoint and second, for evidence."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[str, str]] = {}

    def note(self, endpoint: Ints, end: Ints, proof: pa.Array) -> None:
        """Take in replies in the order of their ends; `proof` holds their references."""
        seconds, base = by_second(endpoint, end)
        wanted = pa.array(np.concatenate([seconds.first(), seconds.last()]))
        words = [w or "" for w in proof.take(wanted).to_pylist()]
        for i, (server, second) in enumerate(zip(*(k.tolist() for k in seconds.keys), strict=True)):
            first, _ = self._known.get((server, second + base), (words[i], ""))
            self._known[server, second + base] = (first, words[i + len(seconds)])

    def of(self, endpoint: int, second: int) -> tuple[str, str]:
        """References to the first and the last reply."""
        return self._known.get((endpoint, second), ("", ""))

    def forget(self, second: int) -> None:
        """Forget that second and all before it."""
        self._known = {k: v for k, v in self._known.items() if k[1] > second}
