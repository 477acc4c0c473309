"""What it checks: two workers were granted locks that exclude each other (exclusive against exclusive or
shared, on overlapping bytes) and both certainly held them at one time: the second grant had returned
before the first holder began to give its lock back, and the other way round.

Why it matters: everything that is guarded by the lock is open to two writers.

When it is wrong: if a lock was given back by a call that isn't in the history (a close by another part of
the same process). The workers record every close.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import counted
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, hits, late

#: What helps, by family of file systems.
_REMEDIES = {
    "nfs": (
        "Check `local_lock` and `nolock` in the mount's options: with them each node "
        "locks for itself. If they aren't set, look for a restart of the server in the "
        "time of the overlap, and for clients that missed its grace period."
    ),
    "cephfs": (
        "Look for an eviction of one of the clients in the time of the overlap (`ceph "
        "tell mds.* session ls`), and for `recover_session=clean`."
    ),
}


def _overlap(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} was granted a lock on {b.object} while {b.other_process} on "
        f"{b.other_client} held it: both held it for at least {late(group)}; "
        f"{counted(group.count, 'overlap')}"
    )


_DESCRIBE = {"overlap": _overlap}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "lock-exclusion", _DESCRIBE, remedies=_REMEDIES)


RULE = Rule(
    id="lock-not-exclusive",
    title="Two owners held a lock at the same time",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=READS,
    check=check,
    remedy=(
        "Don't rely on locks on this mount until it is found why: look at its lock options "
        "(`local_lock`, `nolock`), at the server's lock recovery, and at a restart of the server "
        "meanwhile."
    ),
    references=(
        "fcntl(2), advisory record locking",
        "RFC 8881 section 9",
    ),
    bad=(
        """
        workload locks
        0..1 A lock f 0+10 write
        2..3 B lock f 5+10 write
        4..5 A unlock f 0+10
        6..7 B unlock f 5+10
        """,
        """
        workload locks  # shared against exclusive
        0..1 A lock f 0+10 read
        2..3 B lock f 0+10 write
        4..5 A unlock f 0+10
        6..7 B unlock f 0+10
        """,
    ),
    good=(
        """
        workload locks  # neighbours
        0..1 A lock f 0+10 write
        1..2 B lock f 10+10 write
        2..3 B unlock f 10+10
        3..3.5 B lock f 0+10 write -> EAGAIN
        4..5 A unlock f 0+10
        4.5..7 B lock f 0+10 write
        8..9 B unlock f 0+10
        """,
        """
        workload locks  # given back just in time
        0..1 A lock f 0+10 write
        2..5 B lock f 0+10 write
        4..6 A unlock f 0+10
        6..7 B unlock f 0+10
        """,
        """
        workload locks  # both shared
        0..1 A lock f 0+10 read
        2..3 B lock f 0+10 read
        2.5..9 C lock f 0+10 write
        4..5 A unlock f 0+10
        6..7 B unlock f 0+10
        9..10 C unlock f 0+10
        """,
    ),
    exercised_by=frozenset({"workload locks", "workload counter"}),
    follows_state=False,
    witness="client",
    promise="lock-exclusion",
)
