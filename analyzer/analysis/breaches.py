"""What the checkers of histories write: breaches of a promise with their witnesses, and what was judged.

Every checker of a workload's history writes the same two row types. A *promise* is a property that a shared
file system may have (`analyzer.analysis.expectation` says which mount has which).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyzer.analysis.columns import Ints
from analyzer.analysis.history import History
from analyzer.core.table import Tables

#: Breaches of one kind that are kept one by one, the gravest; all are counted.
MOST_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Breach:
    """One operation that saw or did what the promise excludes.

    `client`, `process`: whose operation it was; `other_client`, `other_process`: whose it contradicts (the
    writer, the other holder). `op_ids`, `evidence`: 1 to 4 operations that prove it. `beyond_ns`: by how
    much the clocks would have to be wrong for it to be legal (0 where no clock is involved); `late_ns`: how
    long before it what it contradicts had happened (the overwriting of what was read). `expected`, `seen`:
    versions, generations, record numbers; -1 where there are none. `count` stands for how many.
    """

    promise: str
    kind: str
    object: str
    client: str
    process: str
    other_client: str
    other_process: str
    op_ids: tuple[int, ...]
    evidence: tuple[str, ...]
    at_ns: int
    beyond_ns: int
    late_ns: int
    expected: int = -1
    seen: int = -1
    count: int = 1
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """How often a promise could have been broken in one history, and how often it was. `judged` 0: nothing
    in it could have shown a breach; `why` then says what was missing."""

    promise: str
    workload: str
    judged: int
    breaches: int
    worst_ns: int
    why: str = ""


class Docket:
    """Writes the breaches of one promise, and its audit at the end."""

    def __init__(self, tables: Tables, history: History, promise: str, workload: str) -> None:
        self._breaches, self._audits = tables.of(Breach), tables.of(Audit)
        self._history, self._promise, self._workload = history, promise, workload
        self._count, self._worst = 0, 0

    def add(
        self,
        kind: str,
        rows: Ints,
        culprit: Ints,
        beyond_ns: Ints,
        *,
        other: Ints | None = None,
        late_ns: Ints | None = None,
        expected: Ints | None = None,
        seen: Ints | None = None,
        detail: str | Sequence[str] = "",
    ) -> None:
        """Breaches as columns: `rows` (n, k) proves each, -1 for none; `culprit` and `other` are rows."""
        gravity = beyond_ns if late_ns is None else late_ns
        self._count += len(culprit)
        if len(culprit):
            self._worst = max(self._worst, int(gravity.max()))
        h = self._history
        for i in np.argsort(-gravity, kind="stable")[:MOST_KEPT].tolist():
            own, two = int(culprit[i]), -1 if other is None else int(other[i])
            proof = [int(row) for row in rows[i]]
            self._breaches.append(
                Breach(
                    promise=self._promise,
                    kind=kind,
                    object=h.word("object", own),
                    client=h.word("client", own),
                    process=h.word("process", own),
                    other_client=h.word("client", two) if two >= 0 else "",
                    other_process=h.word("process", two) if two >= 0 else "",
                    op_ids=h.ids(proof),
                    evidence=h.cite(proof),
                    at_ns=int(h.start[own]),
                    beyond_ns=int(beyond_ns[i]),
                    late_ns=int(gravity[i]),
                    expected=-1 if expected is None else int(expected[i]),
                    seen=-1 if seen is None else int(seen[i]),
                    detail=detail if isinstance(detail, str) else detail[i],
                )
            )

    def close(self, judged: int, why: str = "") -> None:
        """Write the audit."""
        self._audits.append(
            Audit(self._promise, self._workload, judged, self._count, self._worst, "" if judged else why)
        )


def zeros(count: int) -> Ints:
    """No clock is involved in any of them."""
    return np.zeros(count, dtype=np.int64)


def stack(*columns: Ints) -> Ints:
    """Columns of rows side by side: (n, k)."""
    return np.stack(columns, axis=1).astype(np.int64)
