"""Reads of shared units: coherent while files are open, from close to open, by baton, and by mmap.

* `coherent`: all reads and writes of a unit are linearizable as they are.
* `close-to-open`: a read whose file was opened after the writer's close had returned sees that write or a
  newer one. A write then lasts until its close returned, a read begins with its open.
* The same by baton: the reader's open began after a message that the close had returned (`after`), so that
  no clock is needed: the version seen must not be below the one that was closed.
* `mmap`: as coherent, for mappings.
"""

from __future__ import annotations

import numpy as np

from analyzer.analysis.breaches import Audit, Breach, Docket, stack, zeros
from analyzer.analysis.columns import Ints
from analyzer.analysis.history import History, history_fold
from analyzer.analysis.intervals import NEVER
from analyzer.analysis.register import Accesses, Conflicts, disorder, phantoms, seen_writes, stale_reads
from analyzer.core.table import Tables

_READS = ("handle", "after", "token", "sequence")


def accesses(h: History, start: Ints, end: Ints) -> tuple[Accesses, Ints]:
    """The reads that returned something known and the writes that may have happened, as columns, and their
    rows in the history."""
    writes = h.kind("write", "append", "rename", "create") & ~h.fail
    reads = h.kind("read") & h.ok & h.known("token")
    rows = np.flatnonzero(writes | reads)
    key = np.unique(h.text("object").codes[rows], return_inverse=True)[1].astype(np.int64)
    # a write that may not have happened lasts for ever
    lasting = np.where(h.ok, end, NEVER)
    own = Accesses(key, start[rows], lasting[rows], h.ints("token")[rows], writes[rows])
    return own, rows


def _report(docket: Docket, kind: str, found: Conflicts, rows: Ints) -> None:
    proof = np.where(found.rows >= 0, rows[np.maximum(found.rows, 0)], -1)
    other = np.where((kind == "disorder") & (proof[:, 2] >= 0), proof[:, 2], proof[:, 1])
    docket.add(kind, proof, rows[found.culprit], found.beyond_ns, other=other, late_ns=found.late_ns)


def judge_reads(h: History, docket: Docket, start: Ints, end: Ints, *, linearizable: bool) -> None:
    """Write what the reads of a history break: fresh reads only, or linearizable."""
    a, rows = accesses(h, start, end)
    seen = seen_writes(a)
    strange, stale = phantoms(a, seen), stale_reads(a, seen)
    _report(docket, "phantom", strange, rows)
    _report(docket, "stale", stale, rows)
    if linearizable and len(a):
        # units whose stale reads are told already need no second sentence
        told = np.zeros(int(a.key.max()) + 1, dtype=bool)
        told[a.key[np.concatenate([strange.culprit, stale.culprit])]] = True
        rest = np.flatnonzero(~told[a.key])
        part = Accesses(a.key[rest], a.start[rest], a.end[rest], a.token[rest], a.write[rest])
        _report(docket, "disorder", disorder(part, seen_writes(part)), rows[rest])
    docket.close(_shared(a), "no unit was both written and read by different workers")


def _shared(a: Accesses) -> int:
    """Reads of units that somebody wrote."""
    if not len(a):
        return 0
    written = np.zeros(int(a.key.max()) + 1, dtype=bool)
    written[a.key[a.write]] = True
    return int((~a.write & written[a.key]).sum())


def _opened(h: History) -> tuple[Ints, Ints]:
    """Start and end of each operation as close-to-open sees them."""
    handle = h.ints("handle", -1)
    opened = h.row_of(handle)
    start = np.where(h.kind("read") & (opened >= 0), h.start[np.maximum(opened, 0)], h.start)
    closes = np.flatnonzero(h.kind("close") & h.ok)
    order = closes[np.argsort(handle[closes], kind="stable")]
    end = h.end.copy()
    writes = h.kind("write") & (handle >= 0)
    if len(order):
        place = np.minimum(np.searchsorted(handle[order], handle), len(order) - 1)
        closed = handle[order[place]] == handle
        end = np.where(writes, np.where(closed, h.end[order[place]], NEVER), end)
    else:
        end = np.where(writes, NEVER, end)
    return start, end


def _judge(h: History, tables: Tables) -> None:
    workload = h.text("workload")
    for name, promise in (("register", "coherent"), ("mmap", "mmap")):
        part = h.take(workload.lookup(frozenset({name})))
        if len(part):
            judge_reads(part, Docket(tables, part, promise, name), part.start, part.end, linearizable=True)
    both = h.take(workload.lookup(frozenset({"register", "baton"})) & (h.known("handle") | h.kind("open")))
    if len(both):
        start, end = _opened(both)
        docket = Docket(tables, both, "close-to-open", "register, baton")
        judge_reads(both, docket, start, end, linearizable=False)
    baton = h.take(workload.lookup(frozenset({"baton"})))
    if len(baton):
        _by_baton(baton, tables)


def _by_baton(h: History, tables: Tables) -> None:
    """Reads behind a message, without clocks."""
    docket = Docket(tables, h, "close-to-open", "baton")
    handle, version = h.ints("handle", -1), h.ints("sequence")
    opened = h.row_of(handle)
    reads = np.flatnonzero(h.kind("read") & h.ok & h.known("token") & (opened >= 0))
    closed = h.row_of(np.where(h.known("after"), h.ints("after"), -1)[opened[reads]])
    reads, closed = reads[closed >= 0], closed[closed >= 0]
    # the newest version that the closed handle wrote
    writes = np.flatnonzero(h.kind("write") & h.ok)
    order = writes[np.lexsort((version[writes], handle[writes]))]
    if len(order):
        last = np.searchsorted(handle[order], handle[closed], side="right") - 1
        newest = order[np.maximum(last, 0)]
        there = (last >= 0) & (handle[newest] == handle[closed])
    else:
        newest, there = closed, np.zeros(len(closed), dtype=bool)
    objects = h.text("object").codes
    there &= objects[newest] == objects[reads]
    old = there & (version[reads] < version[newest])
    reads, newest, closed = reads[there], newest[there], closed[there]
    old = old[there]
    bad, new, close = reads[old], newest[old], closed[old]
    proof = stack(new, close, opened[bad], bad)
    docket.add(
        "stale-by-message", proof, bad, zeros(len(bad)), other=new, expected=version[new], seen=version[bad]
    )
    docket.close(len(reads), "no reader was told of a close before it opened")


FOLD = history_fold(
    "coherence",
    _judge,
    workloads=("register", "baton", "mmap"),
    kinds=("open", "close", "read", "write"),
    reads=_READS,
    produces=(Breach, Audit),
)
