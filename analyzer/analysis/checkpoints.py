"""Whether a checkpoint that was loaded is one checkpoint, and the one that was saved.

Every rank writes a shard, all meet at a barrier, then one rank renames the pointer to the new generation.
A load (phase `load`, one `round`) reads every shard: all of one generation, whole, none missing, and not
older than a pointer whose rename had returned before the load began.
"""

from __future__ import annotations

import numpy as np

from analyzer.analysis.breaches import Audit, Breach, Docket, stack, zeros
from analyzer.analysis.columns import Ints
from analyzer.analysis.history import History, history_fold
from analyzer.analysis.intervals import last_ended, runs
from analyzer.analysis.publishing import absent
from analyzer.core.table import Tables


def _judge(h: History, tables: Tables) -> None:
    docket = Docket(tables, h, "checkpoint", "checkpoint")
    loading = h.text("phase").lookup(frozenset({"load"}))
    missing = np.flatnonzero(loading & absent(h))
    read = loading & h.kind("read") & h.ok
    torn = np.flatnonzero(read & ~h.true("intact"))
    whole = np.flatnonzero(read & h.true("intact") & h.known("sequence"))
    version = h.ints("sequence")
    renames = np.flatnonzero(h.kind("rename") & h.ok)
    docket.add("torn", stack(torn), torn, zeros(len(torn)), seen=version[torn], detail=_names(h, torn))
    _missing(h, docket, missing, renames)

    objects, number = h.text("object").codes, h.ints("round")
    order = whole[np.lexsort((version[whole], number[whole], objects[whole]))]
    load = objects[order] * (int(number.max(initial=0)) + 1) + number[order]
    first = runs(load)
    last = np.append(first[1:], len(load)) - 1 if len(load) else first
    oldest, newest = order[first], order[last]
    mixed = version[oldest] != version[newest]
    low, high = oldest[mixed], newest[mixed]
    docket.add("mixed", stack(low, high), low, zeros(len(low)), other=high,
               expected=version[high], seen=version[low], detail=_names(h, low))  # fmt: skip
    begin = np.minimum.reduceat(h.start[order], first) if len(order) else first
    _older(h, docket, newest[~mixed], begin[~mixed], renames)
    docket.close(len(first) + len(torn) + len(missing), "no checkpoint was loaded")


def _names(h: History, rows: Ints) -> list[str]:
    return [h.word("name", int(row)) for row in rows]


def _published(h: History, renames: Ints, objects: Ints, start: Ints) -> Ints:
    """The newest generation whose rename had returned before `start`; -1 for none."""
    found = last_ended(
        h.text("object").codes[renames], h.end[renames], h.ints("sequence")[renames], objects, start
    )
    return np.where(found >= 0, renames[np.maximum(found, 0)] if len(renames) else -1, -1)


def _missing(h: History, docket: Docket, missing: Ints, renames: Ints) -> None:
    pointer = _published(h, renames, h.text("object").codes[missing], h.start[missing])
    rows, pointer = missing[pointer >= 0], pointer[pointer >= 0]
    docket.add("missing", stack(pointer, rows), rows, zeros(len(rows)), other=pointer,
               expected=h.ints("sequence")[pointer], detail=_names(h, rows))  # fmt: skip


def _older(h: History, docket: Docket, loads: Ints, begin: Ints, renames: Ints) -> None:
    version = h.ints("sequence")
    pointer = _published(h, renames, h.text("object").codes[loads], begin)
    bad = (pointer >= 0) & (version[loads] < version[np.maximum(pointer, 0)])
    rows, newer = loads[bad], pointer[bad]
    docket.add("older", stack(newer, rows), rows, begin[bad] - h.end[newer], other=newer,
               expected=version[newer], seen=version[rows])  # fmt: skip


FOLD = history_fold(
    "checkpoints",
    _judge,
    workloads=("checkpoint",),
    kinds=("rename", "read", "open"),
    reads=("sequence", "intact", "status", "phase", "round", "name"),
    produces=(Breach, Audit),
)
