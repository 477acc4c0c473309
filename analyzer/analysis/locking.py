"""What the lock calls of workers show: exclusion, families, refusals, deadlocks, lost updates."""

from __future__ import annotations

import numpy as np

from analyzer.analysis.breaches import Audit, Breach, Docket, stack, zeros
from analyzer.analysis.columns import Ints
from analyzer.analysis.deadlocks import false_deadlocks
from analyzer.analysis.exclusion import Overlaps, judge_locks
from analyzer.analysis.history import History, history_fold
from analyzer.analysis.holds import EXCLUSIVE, SHARED, LockCalls
from analyzer.analysis.intervals import NEVER
from analyzer.core.table import Tables

_READS = ("owner", "family", "offset", "length", "lock_type", "blocking", "status", "sequence", "phase")
_REFUSED = frozenset({"EAGAIN", "EACCES"})


def lock_calls(h: History) -> tuple[LockCalls, Ints]:
    """The lock, unlock and close calls of a history as columns, in order of time, and their rows."""
    rows = np.flatnonzero(h.kind("lock", "unlock", "close"))
    rows = rows[np.lexsort((h.ints("op_id")[rows], h.end[rows], h.start[rows]))]
    whole = h.kind("close")[rows] | ~h.known("length")[rows]
    low = np.where(whole, 0, h.ints("offset")[rows])
    length = h.ints("length")[rows]
    high = np.where(whole | (length < 0), NEVER, low + length)
    write = h.text("lock_type").lookup(frozenset({"write"}))[rows]
    level = np.where(h.kind("lock")[rows], np.where(write, EXCLUSIVE, SHARED), 0)
    calls = LockCalls(
        object=np.unique(h.text("object").codes[rows], return_inverse=True)[1].astype(np.int64),
        owner=np.unique(h.text("owner").codes[rows], return_inverse=True)[1].astype(np.int64),
        flock=h.text("family").lookup(frozenset({"flock"}))[rows],
        low=low,
        high=high,
        level=level.astype(np.int64),
        start=h.start[rows],
        end=h.end[rows],
        done=h.ok[rows],
        refused=h.fail[rows],
    )
    return calls, rows


def _report(docket: Docket, kind: str, found: Overlaps, rows: Ints, calls: LockCalls) -> None:
    one, two = found.rows[:, 0], found.rows[:, 2]
    later = np.where(calls.end[one] >= calls.end[two], one, two)
    earlier = np.where(later == one, two, one)
    proof = np.where(found.rows >= 0, rows[np.maximum(found.rows, 0)], -1)
    docket.add(kind, proof, rows[later], found.beyond_ns, other=rows[earlier])


def _judge(h: History, tables: Tables) -> None:
    calls, rows = lock_calls(h)
    if len(calls):
        _locks(h, tables, calls, rows)
    counter = h.take(h.text("workload").lookup(frozenset({"counter"})))
    if len(counter):
        _counter(counter, tables)


def _locks(h: History, tables: Tables, calls: LockCalls, rows: Ints) -> None:
    found = judge_locks(calls)
    docket = Docket(tables, h, "lock-exclusion", "locks")
    _report(docket, "overlap", found.overlaps, rows, calls)
    docket.close(
        found.rivalled + len(found.overlaps), "no two owners wanted the same lock at the same time"
    )

    docket = Docket(tables, h, "lock-families", "locks")
    _report(docket, "across", found.across, rows, calls)
    mixed = len(np.intersect1d(calls.object[calls.flock], calls.object[~calls.flock]))
    docket.close(mixed, "no file was locked with both flock and fcntl")

    waiting = h.true("blocking")[rows]
    denied = calls.refused & (calls.level > 0) & h.text("status").lookup(_REFUSED)[rows] & ~waiting
    needless = found.needless[denied[found.needless]]
    docket = Docket(tables, h, "lock-refusal", "locks")
    docket.add("needless", stack(rows[needless]), rows[needless], zeros(len(needless)))
    docket.close(int(denied.sum()), "no lock was refused")

    dead = np.flatnonzero(h.text("status").lookup(frozenset({"EDEADLK"}))[rows])
    false = false_deadlocks(calls, np.asarray(waiting), dead)
    docket = Docket(tables, h, "deadlock", "locks")
    docket.add("false", stack(rows[false]), rows[false], zeros(len(false)))
    docket.close(len(dead), "no call failed with EDEADLK")


def _counter(h: History, tables: Tables) -> None:
    """Each write under the lock adds one: a number that two writes wrote is a lost update."""
    docket = Docket(tables, h, "lost-update", "counter")
    writes = np.flatnonzero(h.kind("write") & h.ok)
    objects, number = h.text("object").codes, h.ints("sequence")
    order = writes[np.lexsort((h.start[writes], number[writes], objects[writes]))]
    again = np.flatnonzero(
        (objects[order[1:]] == objects[order[:-1]]) & (number[order[1:]] == number[order[:-1]])
    )
    first, second = order[again], order[again + 1]
    docket.add(
        "overwritten",
        stack(first, second),
        second,
        zeros(len(second)),
        other=first,
        expected=number[second] + 1,
        seen=number[second],
    )
    audits = np.flatnonzero(h.kind("read") & h.ok & (h.text("phase").lookup(frozenset({"audit"}))))
    greatest = np.zeros(int(objects.max()) + 2, dtype=np.int64)
    np.maximum.at(greatest, objects[writes], number[writes])
    low = audits[number[audits] < greatest[objects[audits]]]
    docket.add(
        "lost-at-end", stack(low), low, zeros(len(low)), expected=greatest[objects[low]], seen=number[low]
    )
    docket.close(len(writes), "the counter was never written")


FOLD = history_fold(
    "locking",
    _judge,
    workloads=("locks", "counter"),
    kinds=("lock", "unlock", "close", "read", "write"),
    reads=_READS,
    produces=(Breach, Audit),
)
