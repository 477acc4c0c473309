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
from analyzer.analysis.intervals import NEVER, runs
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
    # a removal that may lie between the two
    removed = np.zeros(len(pair), dtype=bool)
    if len(gone):
        by_object = gone[np.lexsort((h.start[gone], objects[gone]))]
        for i, (a, b) in enumerate(zip(one.tolist(), two.tolist(), strict=True)):
            low, high = np.searchsorted(objects[by_object], [objects[a], objects[a] + 1])
            near = by_object[low:high]
            removed[i] = bool(((h.end[near] >= h.start[a]) & (h.start[near] <= h.end[b])).any())
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
    """Compare every listing with every name that was made or removed in its directory."""
    name, objects = h.text("name"), h.text("object").codes
    changes = np.flatnonzero(h.kind("create", "remove", "rename") & ~h.fail & h.known("name"))
    target = name.codes[changes]
    size = name.size
    made = _by_name(h, changes[h.kind("create")[changes]], objects, target[h.kind("create")[changes]], size)
    removing = ~h.kind("create")[changes]
    gone = _by_name(h, changes[removing], objects, target[removing], size)
    for low in range(0, len(whole), max(1, _PAIRS // max(len(made), 1))):
        part = whole[low : low + max(1, _PAIRS // max(len(made), 1))]
        _compare(h, docket, part, made, gone, seen, pairs, listing_of, size)


def _by_name(h: History, rows: Ints, objects: Ints, names: Ints, size: int) -> dict[int, int]:
    """(directory, name) as one number → the row that made or removed it; names are used once."""
    return {int(o) * size + int(n): int(r) for o, n, r in zip(objects[rows], names, rows, strict=True)}


def _compare(
    h: History,
    docket: Docket,
    listings: Ints,
    made: dict[int, int],
    gone: dict[int, int],
    seen: Ints,
    pairs: Ints,
    listing_of: Ints,
    size: int,
) -> None:
    keys = np.array(sorted(made), dtype=np.int64)
    makers = np.array([made[int(k)] for k in keys], dtype=np.int64)
    removers = np.array([gone.get(int(k), -1) for k in keys], dtype=np.int64)
    if not len(keys):
        return
    objects = h.text("object").codes
    li, ki = np.nonzero(objects[listings][:, None] == (keys // size)[None, :])
    row, maker, remover = listings[li], makers[ki], removers[ki]
    wanted = listing_of[row] * size + keys[ki] % size
    at = np.minimum(np.searchsorted(pairs, wanted), max(len(pairs) - 1, 0))
    there = (pairs[at] == wanted) if len(pairs) else np.zeros(len(wanted), dtype=bool)
    removal_start = np.where(remover >= 0, h.start[np.maximum(remover, 0)], NEVER)
    removal_end = np.where(
        (remover >= 0) & h.ok[np.maximum(remover, 0)], h.end[np.maximum(remover, 0)], NEVER
    )
    made_end = np.where(h.ok[maker], h.end[maker], NEVER)
    missed = ~there & (made_end < h.start[row]) & (removal_start > h.end[row])
    proof, late = stack(maker[missed], row[missed]), (h.start[row] - made_end)[missed]
    docket.add("missed", proof, row[missed], late, other=maker[missed], detail=_names(h, maker[missed]))
    ghost = there & (removal_end < h.start[row])
    entry = seen[at[ghost]] if len(seen) else row[ghost]
    proof, late = stack(remover[ghost], row[ghost], entry), (h.start[row] - removal_end)[ghost]
    docket.add("ghost", proof, entry, late, other=remover[ghost], detail=_names(h, maker[ghost]))


FOLD = history_fold(
    "names",
    _judge,
    workloads=("exclusive", "readdir"),
    kinds=("create", "link", "remove", "rename", "readdir"),
    reads=("name", "round", "status", "family"),
    produces=(Breach, Audit),
)
