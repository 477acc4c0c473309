"""What survives: whole units, acknowledged data after a fault, and locks after their holder was frozen.

* `torn-write`: a read of one unit returns one write, never parts of two.
* `durability`: what fsync acknowledged is there after a fault. A write is acknowledged once an fsync of the
  same descriptor that began after it has returned 0; the audit then sees its version or a newer one.
* `zombie-write`: a holder that lost its lock must not write any more. A write that began after another
  owner had certainly been granted a conflicting lock, and that somebody saw afterwards, did land.
"""

from __future__ import annotations

import numpy as np

from analyzer.analysis.breaches import Audit, Breach, Docket, stack, zeros
from analyzer.analysis.columns import Ints, Mask
from analyzer.analysis.history import History, history_fold
from analyzer.analysis.intervals import NEVER, last_ended, next_started
from analyzer.core.table import Tables


def _judge(h: History, tables: Tables) -> None:
    workload = h.text("workload")
    for name, judge in (("torn", _torn), ("durability", _durable), ("zombie", _zombie)):
        part = h.take(workload.lookup(frozenset({name})) | h.kind("fault"))
        if workload.lookup(frozenset({name})).any():
            judge(part, tables)


def _writer_of(h: History, tokens: Ints) -> Ints:
    """The write of each content, -1 for none."""
    writes = np.flatnonzero(h.kind("write") & h.known("token"))
    own = h.ints("token")[writes]
    order = writes[np.argsort(own, kind="stable")]
    if not len(order):
        return np.full(len(tokens), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(h.ints("token")[order], tokens), len(order) - 1)
    return np.where(h.ints("token")[order[place]] == tokens, order[place], -1)


def _torn(h: History, tables: Tables) -> None:
    docket = Docket(tables, h, "torn-write", "torn")
    reads = np.flatnonzero(h.kind("read") & h.ok)
    torn = reads[~h.true("intact")[reads]]
    one, two = _writer_of(h, h.ints("token", -1)[torn]), _writer_of(h, h.ints("other", -1)[torn])
    place = h.ints("torn_at", -1)[torn]
    docket.add("torn", stack(one, two, torn), torn, zeros(len(torn)), other=np.where(one >= 0, one, two),
               seen=place)  # fmt: skip
    writes = int((h.kind("write") & ~h.fail).sum())
    docket.close(len(reads) if writes else 0, "no unit was read that others wrote")


def _durable(h: History, tables: Tables) -> None:
    docket = Docket(tables, h, "durability", "durability")
    handle, version = h.ints("handle", -1), h.ints("sequence")
    commits = np.flatnonzero(h.kind("commit") & h.ok & (handle >= 0))
    order = commits[np.lexsort((h.start[commits], handle[commits]))]
    writes = np.flatnonzero(h.kind("write") & h.ok & (handle >= 0))
    audits = np.flatnonzero(h.kind("read") & h.ok & h.text("phase").lookup(frozenset({"audit"})))
    if not len(order) or not len(writes):
        return docket.close(0, "nothing was written and acknowledged by fsync")
    last = order[np.maximum(np.searchsorted(handle[order], handle[writes], side="right") - 1, 0)]
    safe = (handle[last] == handle[writes]) & (h.start[last] > h.start[writes])
    writes, last = writes[safe], last[safe]
    objects, offset = h.text("object").codes, h.ints("offset")
    unit = np.unique(np.stack([objects, offset]), axis=1, return_inverse=True)[1].astype(np.int64).ravel()
    # the newest acknowledged version of each unit
    by_unit = np.lexsort((version[writes], unit[writes]))
    writes, last = writes[by_unit], last[by_unit]
    place = np.searchsorted(unit[writes], unit[audits], side="right") - 1
    found = writes[np.maximum(place, 0)] if len(writes) else audits
    asked = (place >= 0) & (unit[found] == unit[audits])
    seen = np.where(h.true("intact"), version, -1)
    lost = asked & (seen[audits] < version[found])
    rows, write, commit = audits[lost], found[lost], last[place[lost]] if len(writes) else audits[lost]
    faults = _faults(h, rows)
    docket.add("lost", stack(write, commit, rows), write, zeros(len(rows)), other=rows,
               expected=version[write], seen=seen[rows], detail=faults)  # fmt: skip
    return docket.close(int(asked.sum()), "no acknowledged data was read back")


def _faults(h: History, rows: Ints) -> list[str]:
    """The last fault before each row."""
    faults = np.flatnonzero(h.kind("fault"))
    if not len(faults):
        return [""] * len(rows)
    nothing = np.zeros(len(faults), dtype=np.int64)
    found = last_ended(
        nothing, h.end[faults], h.start[faults], np.zeros(len(rows), dtype=np.int64), h.start[rows]
    )
    return [h.word("name", int(faults[i])) if i >= 0 else "" for i in found]


def _zombie(h: History, tables: Tables) -> None:
    docket = Docket(tables, h, "zombie-write", "zombie")
    objects, owner = h.text("object").codes, h.text("owner").codes
    grants = np.flatnonzero(h.kind("lock") & h.ok & h.text("lock_type").lookup(frozenset({"write"})))
    writes = np.flatnonzero(h.kind("write"))
    reads = np.flatnonzero(h.kind("read") & h.ok & h.known("token"))
    last = last_ended(objects[grants], h.end[grants], h.start[grants], objects[writes], h.start[writes])
    has = last >= 0
    writes, newer = writes[has], grants[last[has]]
    # the writer's own last grant, in its own order: bounds of clocks may let it overlap the write
    width = int(owner.max()) + 1
    whose = objects * width + owner
    own = last_ended(whose[grants], h.start[grants], h.start[grants], whose[writes], h.start[writes] + 1)
    mine = grants[np.maximum(own, 0)]
    late = (own >= 0) & (owner[newer] != owner[writes]) & (h.end[mine] < h.start[newer])
    writes, newer = writes[late], newer[late]
    freed = _given_back(h, newer, writes)
    seen = _first_reader(h, writes, reads)
    landed = (seen >= 0) & ~freed
    rows, grant, proof = writes[landed], newer[landed], seen[landed]
    docket.add("landed", stack(grant, rows, proof), rows, h.start[rows] - h.end[grant], other=grant)
    docket.close(len(writes), "no frozen holder wrote after its lock had gone to another")


def _given_back(h: History, grants: Ints, writes: Ints) -> Mask:
    """Whether the new holder may have unlocked before the write of the old one ended."""
    objects, owner = h.text("object").codes, h.text("owner").codes
    unlocks = np.flatnonzero(h.kind("unlock") & ~h.fail)
    width = int(owner.max(initial=0)) + 1
    whose = objects * width + owner
    found = next_started(whose[unlocks], h.start[unlocks], whose[grants], h.start[grants])
    return np.asarray((found < NEVER) & (found <= h.end[writes]))


def _first_reader(h: History, writes: Ints, reads: Ints) -> Ints:
    token = h.ints("token")
    order = reads[np.argsort(token[reads], kind="stable")]
    if not len(order):
        return np.full(len(writes), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(token[order], token[writes]), len(order) - 1)
    return np.where(token[order[place]] == token[writes], order[place], -1)


FOLD = history_fold(
    "survival",
    _judge,
    workloads=("torn", "durability", "zombie"),
    kinds=("write", "read", "commit", "fault", "lock", "unlock"),
    reads=(*("token", "other", "torn_at", "intact", "sequence", "offset", "handle", "phase", "name"),
           *("owner", "lock_type")),
    produces=(Breach, Audit),
)  # fmt: skip
