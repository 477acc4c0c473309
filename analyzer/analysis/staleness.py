"""How old what is read may be, in ms: data, size, times, names, and names that aren't there.

One worker changes an object from version to version, others look at it again and again. A look that saw
version v although v+1 had certainly been made before the look began was stale by at least the time since.
Per reader and version the longest such time is the *lag*: how long this change stayed unseen. All numbers
are lower bounds: uncertainty of clocks makes them smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyzer.analysis.columns import Ints
from analyzer.analysis.history import History, history_fold
from analyzer.analysis.intervals import runs
from analyzer.core.table import Tables

#: Points of the curve: which share of changes was still unseen after that time.
CURVE_NS: Final = tuple(
    int(s * 1e9) for s in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 2, 3, 5, 10, 20, 30, 45, 60, 90, 120)
)


@dataclass(frozen=True, slots=True)
class StalenessRow:
    """One aspect as one node saw it. `looks`, `stale_looks`: reads; `changes`: versions times readers;
    percentiles are of the lag of those changes; `curve`: how many of them were unseen after `CURVE_NS`.
    `worst`: the operations that prove the longest lag."""

    aspect: str
    client: str
    looks: int
    stale_looks: int
    changes: int
    lag_ns_p50: int
    lag_ns_p90: int
    lag_ns_p99: int
    lag_ns_max: int
    curve: tuple[int, ...]
    worst_object: str
    worst: tuple[str, ...]
    worst_ids: tuple[int, ...]
    at_ns: int


def _judge(h: History, tables: Tables) -> None:
    objects, version = h.text("object").codes, h.ints("sequence", -1)
    changed = h.kind("write", "create", "remove", "setattr", "rename", "append") & h.ok & (version >= 0)
    writes = np.flatnonzero(changed)
    looks = np.flatnonzero(h.kind("read", "getattr", "lookup", "readdir") & h.ok & (version >= 0))
    if not len(looks):
        return
    newer = _made(objects, version, writes, objects[looks], version[looks] + 1)
    safe = np.maximum(newer, 0)
    lag = np.where(newer >= 0, h.start[looks] - h.end[safe], 0)
    lag = np.maximum(lag, 0)
    aspect, client, process = (h.text(name).codes[looks] for name in ("aspect", "client", "process"))
    order = np.lexsort((client, aspect))
    for first, stop in _stretches(aspect[order] * (int(client.max()) + 1) + client[order]):
        part = order[first:stop]
        _row(h, tables, looks[part], newer[part], lag[part], process[part])


def _made(objects: Ints, version: Ints, writes: Ints, ask_objects: Ints, ask_versions: Ints) -> Ints:
    """The write of a version of an object; -1 for none."""
    if not len(writes):
        return np.full(len(ask_objects), -1, dtype=np.int64)
    width = int(max(version.max(), ask_versions.max())) + 2
    key = objects[writes] * width + version[writes]
    order = np.argsort(key, kind="stable")
    asked = ask_objects * width + ask_versions
    place = np.minimum(np.searchsorted(key[order], asked), len(order) - 1)
    return np.where(key[order[place]] == asked, writes[order[place]], -1)


def _stretches(keys: Ints) -> list[tuple[int, int]]:
    first = runs(keys)
    return list(zip(first.tolist(), [*first[1:].tolist(), len(keys)], strict=True))


def _row(h: History, tables: Tables, looks: Ints, newer: Ints, lag: Ints, process: Ints) -> None:
    """One row for the looks of one node at one aspect."""
    seen = np.flatnonzero(newer >= 0)
    change = newer[seen] * (int(process.max()) + 1) + process[seen]
    order = np.lexsort((lag[seen], change))
    first = runs(change[order])
    last = np.append(first[1:], len(order)) - 1 if len(order) else first
    longest = np.sort(lag[seen][order[last]])
    if not len(longest):
        longest = np.zeros(1, dtype=np.int64)
    worst = int(np.argmax(lag))
    proof = (int(newer[worst]), int(looks[worst]))
    p50, p90, p99 = (int(longest[int(q * (len(longest) - 1))]) for q in (0.5, 0.9, 0.99))
    tables.of(StalenessRow).append(
        StalenessRow(
            aspect=h.word("aspect", int(looks[0])) or "data",
            client=h.word("client", int(looks[0])),
            looks=len(looks),
            stale_looks=int((lag > 0).sum()),
            changes=len(first),
            lag_ns_p50=p50,
            lag_ns_p90=p90,
            lag_ns_p99=p99,
            lag_ns_max=int(longest[-1]),
            curve=tuple(int((longest > t).sum()) for t in CURVE_NS),
            worst_object=h.word("object", int(looks[worst])),
            worst=h.cite(proof),
            worst_ids=h.ids(proof),
            at_ns=int(h.start[looks[worst]]),
        )
    )


FOLD = history_fold(
    "staleness",
    _judge,
    workloads=("staleness",),
    reads=("sequence", "aspect"),
    produces=(StalenessRow,),
)
