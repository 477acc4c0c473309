"""Whether reads of a shared unit (a file, a block) saw what they had to see.

Every write has an id of its own, so that each read names the write it saw. Two models:

* *Fresh reads* (`stale_reads`): a read must not return content that had been overwritten before it began:
  there is no other write that began after the write it saw had ended, and ended before the read began. With
  a write taken as lasting until its file was closed, and a read as beginning when its file was opened, this
  is what close-to-open promises.
* *Linearizable* (`disorder` besides): there is one order of all operations that fits real time and in
  which each read returns the last write. For each id let `f` be the earliest end and `l` the latest start
  of the operations on it. Two ids a, b contradict each other if and only if `f_a < l_b` and `f_b < l_a`
  (Gibbons and Korach 1997, for reads that name their write).

A write that may or may not have happened counts if somebody saw it; it then lasts for ever. Content 0 was
there before everything. Cost O(n log n), independent of how many operations overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyzer.analysis.columns import Ints, Mask
from analyzer.analysis.intervals import BEFORE, by_key, last_ended, latest_before


@dataclass(frozen=True, slots=True)
class Accesses:
    """Reads and writes of units, as columns of one length. `key` numbers the units from 0; `start`/`end`
    are the widest possible times in ns (`NEVER`: not seen to return); `token` is the content."""

    key: Ints
    start: Ints
    end: Ints
    token: Ints
    write: Mask

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Contradictions, one per place of these columns. `rows` has shape (n, 4): rows of `Accesses` that
    prove it, -1 for none; `culprit` is the row that saw what it should not have seen; `beyond_ns` is by how
    much the times would have to be wrong for it to be legal; `late_ns` how long before the culprit began
    its contrary had certainly happened."""

    rows: Ints
    culprit: Ints
    beyond_ns: Ints
    late_ns: Ints

    def __len__(self) -> int:
        return len(self.culprit)


def seen_writes(a: Accesses) -> Ints:
    """For each row the row of the write of its token on the same unit (a write's own), -1 for content 0 and
    for content that nobody wrote there."""
    writes = np.flatnonzero(a.write)
    order = writes[np.argsort(a.token[writes], kind="stable")]
    tokens = a.token[order]
    if not len(order):
        return np.full(len(a), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(tokens, a.token), len(order) - 1)
    found = order[place]
    good = (a.token[found] == a.token) & (a.key[found] == a.key)
    return np.where(good, found, -1)


def phantoms(a: Accesses, seen: Ints) -> Conflicts:
    """Reads of what nobody wrote there, and reads that ended before their write began."""
    never = np.flatnonzero(~a.write & (a.token != 0) & (seen < 0))
    source = np.maximum(seen, 0)
    early = np.flatnonzero(~a.write & (seen >= 0) & (a.end < a.start[source]))
    rows = np.full((len(never) + len(early), 4), -1, dtype=np.int64)
    rows[: len(never), 0] = never
    rows[len(never) :, 0] = early
    rows[len(never) :, 1] = seen[early]
    beyond = np.concatenate([np.zeros(len(never), dtype=np.int64), a.start[seen[early]] - a.end[early]])
    return Conflicts(rows, rows[:, 0].copy(), beyond, beyond)


def stale_reads(a: Accesses, seen: Ints) -> Conflicts:
    """Reads of content that had been overwritten before they began: (write seen, newer write, read)."""
    reads = np.flatnonzero(~a.write & ((seen >= 0) | (a.token == 0)))
    writes = np.flatnonzero(a.write)
    found = last_ended(a.key[writes], a.end[writes], a.start[writes], a.key[reads], a.start[reads])
    some = found >= 0
    reads, newer = reads[some], writes[found[some]]
    old = seen[reads]
    old_end = np.where(old >= 0, a.end[np.maximum(old, 0)], BEFORE)
    bad = old_end < a.start[newer]
    reads, newer, old, old_end = reads[bad], newer[bad], old[bad], old_end[bad]
    rows = np.stack([old, newer, reads, np.full(len(reads), -1)], axis=1).astype(np.int64)
    late = a.start[reads] - a.end[newer]
    return Conflicts(rows, reads, np.minimum(late, a.start[newer] - old_end), late)


def disorder(a: Accesses, seen: Ints) -> Conflicts:
    """Ids that contradict each other's order. Rows: the operations that ended first and began last of one
    id, then of the other. Legal reads (no `phantoms`) are assumed."""
    used = np.flatnonzero(a.write | (seen >= 0) | (a.token == 0))
    if not len(used):
        return _nothing()
    # one zone per id: that of a write, or of content 0 of a unit
    zone = np.where(a.token[used] == 0, len(a) + a.key[used], np.where(a.write[used], used, seen[used]))
    start, end = a.start[used], a.end[used]
    order = by_key(_dense(zone), end)
    first = _run_starts(zone[order])
    ended = used[order[first]]  # the operation of each zone that ended first
    order = by_key(_dense(zone), start)
    first = _run_starts(zone[order])
    began = used[order[np.append(first[1:], len(order)) - 1]]  # and the one that began last
    initial = a.token[ended] == 0
    f = np.where(initial, BEFORE, a.end[ended])
    return _contradictions(a, ended, began, f, a.start[began], initial)


def _contradictions(a: Accesses, ended: Ints, began: Ints, f: Ints, last: Ints, initial: Mask) -> Conflicts:
    """Pairs of zones with f1 < l2 and f2 < l1; each zone is named at most once as the second."""
    key = a.key[ended]
    forward = f < last
    # forward zones against each other: an earlier-beginning one that reaches beyond this one's begin
    order = by_key(key, f)
    own = order[forward[order]]
    earlier = latest_before(key[own], last[own], np.ones(len(own), dtype=bool))
    other = np.where(earlier >= 0, own[np.maximum(earlier, 0)], -1)
    bad = (other >= 0) & (f[own] < last[np.maximum(other, 0)])
    pairs = [(other[bad], own[bad])]
    # a backward zone inside a forward one
    forwards, backwards = np.flatnonzero(forward), np.flatnonzero(~forward)
    found = last_ended(key[forwards], f[forwards], last[forwards], key[backwards], last[backwards])
    around = np.where(found >= 0, forwards[np.maximum(found, 0)] if len(forwards) else -1, -1)
    bad = (around >= 0) & (f[backwards] < last[np.maximum(around, 0)])
    pairs.append((around[bad], backwards[bad]))
    one, two = (np.concatenate([p[i] for p in pairs]) for i in (0, 1))
    rows = np.stack([ended[one], began[one], ended[two], began[two]], axis=1)
    rows[initial[one], 0] = -1  # what was there before everything is no operation
    rows[initial[two], 2] = -1
    culprit = np.where(last[one] >= last[two], began[one], began[two])
    beyond = np.minimum(last[two] - f[one], last[one] - f[two])
    return Conflicts(rows, culprit, beyond, beyond)


def _nothing() -> Conflicts:
    none = np.zeros(0, dtype=np.int64)
    return Conflicts(none.reshape(0, 4), none, none, none)


def _run_starts(values: Ints) -> Ints:
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))


def _dense(values: Ints) -> Ints:
    return values - int(values.min())
