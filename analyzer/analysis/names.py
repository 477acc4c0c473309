"""Names: one winner of an exclusive create, and listings of a directory that others change.

* `exclusive-create`: of many workers that create a name with O_EXCL, mkdir or link, exactly one succeeds.
  A name that is removed and made again is a lock: two creations need a removal between them.
* `readdir`: a listing holds each entry that was there all the time exactly once, none that had been removed
  before it began, and, of those that came or went meanwhile, any.
"""

from __future__ import annotations

import numpy as np

from analyzer.analysis.breaches import Audit, Breach, Docket, stack, zeros
from analyzer.analysis.columns import Ints
from analyzer.analysis.history import History, history_fold
from analyzer.analysis.intervals import NEVER, count_before, runs
from analyzer.core.table import Tables

_PAIRS = 2_000_000  # listings × names that are looked at together


def _judge(h: History, tables: Tables) -> None:
    workload = h.text("workload")
    exclusive = h.take(workload.lookup(frozenset({"exclusive"})))
    if len(exclusive):
        _exclusive(exclusive, tables)
    listing = h.take(workload.lookup(frozenset({"readdir"})))
    if len(listing):
        _listings(listing, tables)


def _exclusive(h: History, tables: Tables) -> None:
    docket = Docket(tables, h, "exclusive-create", "exclusive")
    objects = h.text("object").codes
    made, gone = np.flatnonzero(h.kind("create", "link") & h.ok), np.flatnonzero(h.kind("remove") & ~h.fail)
    order = made[np.lexsort((h.end[made], objects[made]))]
    pair = np.flatnonzero(objects[order[1:]] == objects[order[:-1]])
    one, two = order[pair], order[pair + 1]
    # removals that may lie between the two: those that began by then, without those that had ended before
    keys, lasting = objects[gone], np.where(h.ok[gone], h.end[gone], NEVER)
    began = count_before(keys, h.start[gone], objects[one], h.end[two], inclusive=True)
    removed = began > count_before(keys, lasting, objects[one], h.start[one])
    one, two = one[~removed], two[~removed]
    docket.add("two-winners", stack(one, two), two, zeros(len(two)), other=one)
    tried = np.flatnonzero(h.kind("create", "link"))
    may = np.zeros(int(objects.max()) + 1, dtype=bool)
    may[objects[tried[~h.fail[tried]]]] = True
    refused = np.flatnonzero(h.kind("create", "link") & h.text("status").lookup(frozenset({"EEXIST"})))
    alone = refused[~may[objects[refused]]]
    alone = alone[np.unique(objects[alone], return_index=True)[1]]
    docket.add("no-winner", stack(alone), alone, zeros(len(alone)))
    rivals = np.bincount(objects[tried], minlength=1)
    docket.close(int((rivals > 1).sum()), "no name was created by more than one worker")


def _listings(h: History, tables: Tables) -> None:
    docket = Docket(tables, h, "readdir", "readdir")
    name = h.text("name")
    whole = np.flatnonzero(h.kind("readdir") & h.ok & ~h.known("name"))
    entries = np.flatnonzero(h.kind("readdir") & h.ok & h.known("name"))
    round_, objects = h.ints("round"), h.text("object").codes
    width = int(round_.max(initial=0)) + 1
    listing_of = objects * width + round_
    whole = whole[np.argsort(listing_of[whole], kind="stable")]
    seen = entries[np.lexsort((entries, name.codes[entries], listing_of[entries]))]
    pair = listing_of[seen] * name.size + name.codes[seen]
    first = runs(pair)
    again = np.setdiff1d(np.arange(len(seen)), first)
    twice = seen[again]
    listing = _listing(listing_of, whole, twice)
    proof = stack(listing, seen[again - 1], twice)
    docket.add("doubled", proof, twice, zeros(len(twice)), detail=_names(h, twice))
    _entries(h, docket, whole, seen[first], pair[first], listing_of)
    docket.close(len(whole), "no directory was listed while others changed it")


def _listing(listing_of: Ints, whole: Ints, rows: Ints) -> Ints:
    """The listing that an entry belongs to."""
    if not len(whole):
        return np.full(len(rows), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(listing_of[whole], listing_of[rows]), len(whole) - 1)
    return np.where(listing_of[whole[place]] == listing_of[rows], whole[place], -1)


def _names(h: History, rows: Ints) -> list[str]:
    return [h.word("name", int(row)) for row in rows]


def _entries(h: History, docket: Docket, whole: Ints, seen: Ints, pairs: Ints, listing_of: Ints) -> None:
    """Compare every listing with every name that was made in its directory. `pairs`: listing and name of
    each entry in `seen`, as one ascending number."""
    size = h.text("name").size
    key = h.text("object").codes * size + h.text("name").codes
    known = ~h.fail & h.known("name")
    made = np.flatnonzero(h.kind("create") & known)
    gone = np.flatnonzero(h.kind("remove", "rename") & known)
    made, gone = made[np.argsort(key[made], kind="stable")], gone[np.argsort(key[gone], kind="stable")]
    if not len(made):
        return
    place = np.minimum(np.searchsorted(key[gone], key[made]), max(len(gone) - 1, 0))
    there = (key[gone[place]] == key[made]) if len(gone) else np.zeros(len(made), dtype=bool)
    remover = np.where(there, gone[place] if len(gone) else -1, -1)
    directory = key[made] // size
    low, high = (
        np.searchsorted(directory, h.text("object").codes[whole], side=side) for side in ("left", "right")
    )
    turn = np.cumsum(high - low) // _PAIRS
    for part in np.split(np.arange(len(whole)), np.flatnonzero(np.diff(turn)) + 1):
        count = (high - low)[part]
        begins = np.repeat(np.cumsum(count) - count, count)
        which = np.repeat(low[part], count) + np.arange(int(count.sum())) - begins
        listing = np.repeat(whole[part], count)
        wanted = listing_of[listing] * size + key[made[which]] % size
        at = np.minimum(np.searchsorted(pairs, wanted), max(len(pairs) - 1, 0))
        shown = (pairs[at] == wanted) if len(pairs) else np.zeros(len(wanted), dtype=bool)
        entry = np.where(shown, seen[at] if len(seen) else -1, -1)
        _compare(h, docket, listing, made[which], remover[which], entry)


def _compare(h: History, docket: Docket, row: Ints, maker: Ints, remover: Ints, entry: Ints) -> None:
    """Listings (`row`) against names: who made and removed it, and the entry that was shown (-1: none)."""
    removed = np.maximum(remover, 0)
    removal_start = np.where(remover >= 0, h.start[removed], NEVER)
    removal_end = np.where((remover >= 0) & h.ok[removed], h.end[removed], NEVER)
    made_end = np.where(h.ok[maker], h.end[maker], NEVER)
    missed = (entry < 0) & (made_end < h.start[row]) & (removal_start > h.end[row])
    proof, late = stack(maker[missed], row[missed]), (h.start[row] - made_end)[missed]
    docket.add("missed", proof, row[missed], late, other=maker[missed], detail=_names(h, maker[missed]))
    ghost = (entry >= 0) & (removal_end < h.start[row])
    proof, late = stack(remover[ghost], row[ghost], entry[ghost]), (h.start[row] - removal_end)[ghost]
    docket.add("ghost", proof, entry[ghost], late, other=remover[ghost], detail=_names(h, maker[ghost]))


FOLD = history_fold(
    "names",
    _judge,
    workloads=("exclusive", "readdir"),
    kinds=("create", "link", "remove", "rename", "readdir"),
    reads=("name", "round", "status", "family"),
    produces=(Breach, Audit),
)
