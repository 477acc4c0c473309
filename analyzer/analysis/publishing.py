"""Files that are replaced by rename: never absent, never mixed, never older than what was acknowledged.

A writer renames generation after generation over one name; readers open and read it. The reads are judged
as those of a register whose writes are the renames:

* `older`: another generation was certainly published after the one seen, and before the read began.
* `absent`: no file although one was published.
* `mixed`: a checksum is wrong, or two generations in one read.
* `backwards`: one reader saw a generation, and later an older one.
* `early`: a generation that nobody had begun to publish.
"""

from __future__ import annotations

import numpy as np

from analyzer.analysis.breaches import Audit, Breach, Docket, stack, zeros
from analyzer.analysis.columns import Ints, Mask
from analyzer.analysis.history import History, history_fold
from analyzer.analysis.intervals import NEVER, latest_before
from analyzer.analysis.register import Accesses, phantoms, seen_writes, stale_reads
from analyzer.core.table import Tables


def absent(h: History) -> Mask:
    """Reads that found no file."""
    return np.asarray(h.kind("read", "open") & h.fail & h.text("status").lookup(frozenset({"ENOENT"})))


def generations(h: History, reads: Mask) -> tuple[Accesses, Ints]:
    """Renames and reads as accesses of a register, by generation; their rows in the history."""
    renames = h.kind("rename") & ~h.fail
    rows = np.flatnonzero(renames | reads)
    key = np.unique(h.text("object").codes[rows], return_inverse=True)[1].astype(np.int64)
    # a generation is the content; unique over all names, and 0 for a file that isn't there
    number = np.where(absent(h), 0, h.ints("sequence"))[rows]
    width = int(key.max(initial=0)) + 1
    token = np.where(number > 0, number * width + key, 0)
    end = np.where(h.ok | h.fail, h.end, NEVER)[rows]
    return Accesses(key, h.start[rows], end, token, renames[rows]), rows


def _judge(h: History, tables: Tables) -> None:
    docket = Docket(tables, h, "publish", "publish")
    seen_ok = h.kind("read") & h.ok
    mixed = np.flatnonzero(seen_ok & ~h.true("intact"))
    docket.add("mixed", stack(mixed), mixed, zeros(len(mixed)), seen=h.ints("sequence")[mixed])
    reads = (seen_ok & h.true("intact") & h.known("sequence")) | absent(h)
    a, rows = generations(h, reads)
    seen = seen_writes(a)
    number = np.where(absent(h), 0, h.ints("sequence"))
    stale = stale_reads(a, seen)
    gone = absent(h)[rows[stale.culprit]]
    for kind, which in (("absent", gone), ("older", ~gone)):
        part = stale.rows[which]
        newer, read = rows[part[:, 1]], rows[part[:, 2]]
        old = np.where(part[:, 0] >= 0, rows[np.maximum(part[:, 0], 0)], -1)
        docket.add(kind, stack(old, newer, read), read, stale.beyond_ns[which], other=newer,
                   late_ns=stale.late_ns[which], expected=number[newer], seen=number[read])  # fmt: skip
    strange = phantoms(a, seen)
    early = rows[strange.culprit]
    docket.add("early", stack(early), early, strange.beyond_ns, seen=number[early])
    _backwards(h, docket, a, rows, seen, number)
    docket.close(int((~a.write).sum()) + len(mixed), "nobody read a file that was published")


def _backwards(h: History, docket: Docket, a: Accesses, rows: Ints, seen: Ints, number: Ints) -> None:
    """Reads that saw an older generation than the same reader had seen before."""
    reads = np.flatnonzero(~a.write & (seen >= 0))
    reader = h.text("process").codes[rows[reads]]
    key = np.unique(a.key[reads] * (int(reader.max(initial=0)) + 1) + reader, return_inverse=True)[1]
    order = np.lexsort((a.start[reads], key))
    reads, key = reads[order], key[order].astype(np.int64)
    before = latest_before(key, a.start[seen[reads]], np.ones(len(key), dtype=bool))
    newest = seen[reads[np.maximum(before, 0)]]
    bad = (before >= 0) & (a.end[seen[reads]] < a.start[newest])
    now, then = rows[reads[bad]], rows[reads[np.maximum(before, 0)][bad]]
    proof = stack(rows[seen[reads[bad]]], rows[newest[bad]], then, now)
    late = np.maximum(h.start[now] - h.end[rows[newest[bad]]], 0)
    docket.add("backwards", proof, now, a.start[newest[bad]] - a.end[seen[reads[bad]]],
               other=rows[newest[bad]], late_ns=late, expected=number[then], seen=number[now])  # fmt: skip


FOLD = history_fold(
    "publishing",
    _judge,
    workloads=("publish",),
    kinds=("rename", "read", "open"),
    reads=("sequence", "intact", "status"),
    produces=(Breach, Audit),
)
