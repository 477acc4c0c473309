"""How waiting workers are served: waits, order, starvation, and the signature of a polling server.

A wait is the time of a blocking call that was granted. A client of an NFSv4 server that doesn't notify it
asks again after 1, 2, 4, 8, 16 and then every 30 s: the wait then ends near 1, 3, 7, 15, 31, 61, 91 s
(`at_marks` counts those; a wait of chance lies there for about one in ten). `bypassed` counts, for one
wait, the grants of the same file that were asked for after it and came before it. Jain's index of the
grants of all owners is 1 if all got as many, and 1/n if one got all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyzer.analysis.columns import Ints
from analyzer.analysis.history import History, history_fold
from analyzer.analysis.intervals import runs
from analyzer.core.table import Tables

_S: Final = 1_000_000_000
#: Ends of the sleeps of Linux's NFSv4 client (fs/nfs/nfs4proc.c), s.
MARKS_NS: Final = tuple(s * _S for s in (1, 3, 7, 15, 31, 61, 91))
_NEAR_NS: Final = 250_000_000
#: Below that, a wait says nothing about polling, nor is it worth to count who came before.
_LONG_NS: Final = 500_000_000
_MOST_COUNTED: Final = 20_000
#: Files that get a row: those with the longest waits.
_MOST_FILES: Final = 200


@dataclass(frozen=True, slots=True)
class LockServiceRow:
    """One contended file. `grants`: blocking calls that got the lock; `pending`: that never returned;
    `long_waits`: of more than 0.5 s, `at_marks`: those that ended near a mark; `bypassed_max`: of the wait
    that most others overtook. `evidence`: the longest wait."""

    object: str
    owners: int
    grants: int
    pending: int
    wait_ns_p50: int
    wait_ns_p90: int
    wait_ns_p99: int
    wait_ns_p999: int
    wait_ns_max: int
    long_waits: int
    at_marks: int
    bypassed_max: int
    jain: float
    least_owner: str
    least_grants: int
    most_owner: str
    most_grants: int
    longest_owner: str
    longest_client: str
    at_ns: int
    evidence: tuple[str, ...]


def jain_index(values: Ints) -> float:
    """(Σx)² / (n·Σx²): 1 for equal shares, 1/n where one has all; 1 for no shares at all."""
    total, squares = float(values.sum()), float((values.astype(np.float64) ** 2).sum())
    return 1.0 if squares == 0 else total * total / (len(values) * squares)


def _judge(h: History, tables: Tables) -> None:
    asked = np.flatnonzero(h.kind("lock") & h.true("blocking") & ~h.fail)
    objects = h.text("object").codes
    asked = _most_waited(h, asked[np.lexsort((h.start[asked], objects[asked]))], objects)
    if not len(asked):
        return
    first = runs(objects[asked])
    for low, high in zip(first.tolist(), [*first[1:].tolist(), len(asked)], strict=True):
        _row(h, tables, asked[low:high])


def _most_waited(h: History, asked: Ints, objects: Ints) -> Ints:
    """The calls for those files that were waited for the longest, all waits together."""
    wait = np.where(h.ok, h.end - h.start, 0)[asked].astype(np.float64)
    total = np.bincount(objects[asked], weights=wait)
    if len(total) <= _MOST_FILES:
        return asked
    chosen = np.zeros(len(total), dtype=bool)
    chosen[np.argsort(-total, kind="stable")[:_MOST_FILES]] = True
    return asked[chosen[objects[asked]]]


def _row(h: History, tables: Tables, asked: Ints) -> None:
    """One row for the blocking calls of one file, in order of their begin."""
    owner = h.text("owner").codes
    owners, place = np.unique(owner[asked], return_inverse=True)
    if len(owners) < 2:
        return
    granted = h.ok[asked]
    rows = asked[granted]
    # the middle of both bounds: a host's own stamps tell a duration exactly
    middle = h.ints("start_hi")[rows] + h.start[rows]
    wait = np.maximum((h.ints("end_lo")[rows] + h.end[rows] - middle) // 2, 0)
    if not len(wait):
        return
    shares = np.bincount(place[granted], minlength=len(owners)).astype(np.int64)
    ordered = np.sort(wait)
    p50, p90, p99, p999 = (int(ordered[int(q * (len(wait) - 1))]) for q in (0.5, 0.9, 0.99, 0.999))
    long = wait > _LONG_NS
    near = np.zeros(len(wait), dtype=bool)
    for mark in MARKS_NS:
        near |= np.abs(wait - mark) <= _NEAR_NS
    worst, least, most = int(np.argmax(wait)), int(np.argmin(shares)), int(np.argmax(shares))
    name = h.text("owner")
    tables.of(LockServiceRow).append(
        LockServiceRow(
            object=h.word("object", int(asked[0])),
            owners=len(owners),
            grants=len(rows),
            pending=int((~granted).sum()),
            wait_ns_p50=p50,
            wait_ns_p90=p90,
            wait_ns_p99=p99,
            wait_ns_p999=p999,
            wait_ns_max=int(wait[worst]),
            long_waits=int(long.sum()),
            at_marks=int((long & near).sum()),
            bypassed_max=int(bypassed(h.start[rows], h.end[rows], wait, place[granted]).max()),
            jain=jain_index(shares),
            least_owner=name.word(int(owners[least])) or "",
            least_grants=int(shares[least]),
            most_owner=name.word(int(owners[most])) or "",
            most_grants=int(shares[most]),
            longest_owner=h.word("owner", int(rows[worst])),
            longest_client=h.word("client", int(rows[worst])),
            at_ns=int(h.start[rows[worst]]),
            evidence=h.cite([int(rows[worst])]),
        )
    )


def bypassed(start: Ints, end: Ints, wait: Ints, owner: Ints) -> Ints:
    """For the longest waits: how many grants were asked for later and came sooner, for certain."""
    chosen = np.argsort(-wait, kind="stable")[:_MOST_COUNTED]
    ended = np.searchsorted(np.sort(end), end[chosen])  # grants that returned before this one
    begun = np.searchsorted(np.sort(start), start[chosen], side="right")  # asked no later than this one
    # of those asked no later, the ones that didn't return sooner: each owner has at most its last such call
    open_ = np.zeros(len(chosen), dtype=np.int64)
    for one in np.unique(owner):
        own = np.flatnonzero(owner == one)
        own = own[np.argsort(start[own], kind="stable")]
        last = np.searchsorted(start[own], start[chosen], side="right") - 1
        open_ += (last >= 0) & (end[own[np.maximum(last, 0)]] >= end[chosen])
    return np.maximum(ended - (begun - open_), 0)


FOLD = history_fold(
    "lock_service",
    _judge,
    workloads=("locks", "counter"),
    kinds=("lock",),
    reads=("owner", "blocking", "start_hi", "end_lo"),
    produces=(LockServiceRow,),
)
