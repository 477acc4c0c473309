"""Records that many workers appended to one file: lost, torn, doubled, out of order, and by whom.

Each `append` writes one record with an id of its own; after the run one `read` (phase `audit`) per slot of
the file says what lies there. Judged per file that was audited:

* *lost*: acknowledged, and nowhere in the file. Where the writer knew its offset, the record that lies
  there now names who overwrote it.
* *torn*: a slot whose checksum is wrong, or which holds two records (a hole of zeros, too).
* *doubled*: one record in two slots.
* *reordered*: a record lies before one whose append had returned before its own began.
"""

from __future__ import annotations

import numpy as np

from analyzer.analysis.breaches import Audit, Breach, Docket, stack, zeros
from analyzer.analysis.columns import Ints, Mask
from analyzer.analysis.history import History, history_fold
from analyzer.analysis.intervals import by_key, latest_before
from analyzer.core.table import Tables


def _judge(h: History, tables: Tables) -> None:
    docket = Docket(tables, h, "append", "append")
    objects, token = h.text("object").codes, h.ints("token")
    audit = h.text("phase").lookup(frozenset({"audit"})) & h.kind("read") & h.ok
    audited = np.zeros(int(objects.max()) + 1, dtype=bool)
    audited[objects[audit]] = True
    appended = np.flatnonzero(h.kind("append") & ~h.fail & audited[objects])
    slots = np.flatnonzero(audit)
    slots = slots[np.lexsort((h.ints("offset")[slots], objects[slots]))]
    acknowledged = appended[h.ok[appended]]
    good = h.true("intact")[slots] & (token[slots] != 0)
    whole = slots[good]
    lost = acknowledged[~_among(objects, token, acknowledged, whole)]
    over = _overwriter(h, lost, whole)
    docket.add("lost", stack(lost, over), lost, zeros(len(lost)), other=_writers(token, over, appended),
               expected=h.ints("sequence")[lost])  # fmt: skip
    torn = slots[~good]
    wrote = _writers(token, torn, appended)
    docket.add("torn", stack(torn, wrote), np.where(wrote >= 0, wrote, torn), zeros(len(torn)))
    order = whole[np.lexsort((h.ints("offset")[whole], token[whole], objects[whole]))]
    again = np.flatnonzero(_same(objects, order) & _same(token, order))
    twice = order[again + 1]
    wrote = _writers(token, twice, appended)
    culprit = np.where(wrote >= 0, wrote, twice)
    docket.add("doubled", stack(wrote, order[again], twice), culprit, zeros(len(twice)))
    _reordered(h, docket, whole, appended, token)
    docket.close(len(acknowledged), "no file was appended to and read back")


def _same(values: Ints, order: Ints) -> Mask:
    return np.asarray(values[order[1:]] == values[order[:-1]])


def _among(objects: Ints, token: Ints, rows: Ints, others: Ints) -> Mask:
    """Whether the content of each row is that of one of the others, in the same file."""
    found = _writers(token, rows, others)
    return np.asarray((found >= 0) & (objects[np.maximum(found, 0)] == objects[rows]))


def _writers(token: Ints, rows: Ints, candidates: Ints) -> Ints:
    """For each row the candidate with the same content, -1 for none (or for a row of -1)."""
    if not len(candidates) or not len(rows):
        return np.full(len(rows), -1, dtype=np.int64)
    order = candidates[np.argsort(token[candidates], kind="stable")]
    wanted = np.where(rows >= 0, token[np.maximum(rows, 0)], -1)
    place = np.minimum(np.searchsorted(token[order], wanted), len(order) - 1)
    return np.where((rows >= 0) & (token[order[place]] == wanted), order[place], -1)


def _overwriter(h: History, lost: Ints, slots: Ints) -> Ints:
    """The slot that lies where a lost record should, -1 where that isn't known."""
    objects, offset = h.text("object").codes, h.ints("offset", -1)
    if not len(slots) or not len(lost):
        return np.full(len(lost), -1, dtype=np.int64)
    place = {(o, at): s for o, at, s in zip(objects[slots], offset[slots], slots, strict=True)}
    found = [place.get((o, at), -1) for o, at in zip(objects[lost], offset[lost], strict=True)]
    return np.array(found, dtype=np.int64)


def _reordered(h: History, docket: Docket, slots: Ints, appended: Ints, token: Ints) -> None:
    """Slots behind which lies a record that had been acknowledged before theirs was begun."""
    writer = _writers(token, slots, appended)
    slots, writer = slots[writer >= 0], writer[writer >= 0]
    key = np.unique(h.text("object").codes[slots], return_inverse=True)[1].astype(np.int64)
    order = by_key(key, h.ints("offset")[slots])[::-1]  # from the end of the file
    key, slots, writer = int(key.max(initial=0)) - key[order], slots[order], writer[order]
    # the record further on that was acknowledged first
    behind = latest_before(key, -h.end[writer], np.ones(len(key), dtype=bool))
    later = writer[np.maximum(behind, 0)]
    bad = (behind >= 0) & (h.end[later] < h.start[writer])
    own, first = writer[bad], later[bad]
    proof = stack(first, own, slots[bad], slots[np.maximum(behind, 0)][bad])
    docket.add("reordered", proof, own, h.start[own] - h.end[first], other=first)


FOLD = history_fold(
    "appends",
    _judge,
    workloads=("append",),
    kinds=("append", "read"),
    reads=("token", "intact", "sequence", "offset", "phase"),
    produces=(Breach, Audit),
)
