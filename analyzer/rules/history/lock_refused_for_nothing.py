"""What it checks: a call that doesn't wait failed with EAGAIN or EACCES, and no other worker can have
held anything in its way at any instant of the call.

Why it matters: a lock that was left behind (by a client that is gone, by a close that never reached the
server) keeps everybody out.

When it is wrong: if a program outside the run locks the same file. The workers lock files of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, files, hits


def _needless(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} was refused a lock on {b.object} that nobody can have held: "
        f"{times(group.count)}, {files(group)}"
    )


_DESCRIBE = {"needless": _needless}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "lock-refusal", _DESCRIBE)


RULE = Rule(
    id="lock-refused-for-nothing",
    title="A lock was refused though nobody can have held it",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=READS,
    check=check,
    remedy=(
        "Look at the server for who holds the lock (knfsd: `/proc/locks` and "
        "`/proc/fs/nfsd/clients/*/states`; CephFS: `ceph tell mds.* dump inode`)."
    ),
    references=("fcntl(2), F_SETLK",),
    bad=(
        """
        workload locks
        0..1 A lock f 0+10 write
        2..3 A unlock f 0+10
        4..5 B lock f 0+10 write -> EAGAIN
        """,
    ),
    good=(
        """
        workload locks
        0..1 A lock f 0+10 write
        2..4.5 A unlock f 0+10
        4..5 B lock f 0+10 write -> EAGAIN
        """,
    ),
    exercised_by=frozenset({"workload locks"}),
    follows_state=False,
    witness="client",
    promise="lock-refusal",
)
