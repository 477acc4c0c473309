"""What it checks: workers read and write shared blocks with files open; every block carries a unique id.
A read returned content that had certainly been overwritten before the read began, or two reads saw two
writes in orders that can't both be. An operation lasts as long as the clocks' uncertainty allows, so that
none of this is an effect of skewed clocks.

Why it matters: programs that share an open file (a queue, an index, a log that others follow) act on old
data without any error. NFS doesn't promise otherwise; CephFS and a local file system do.

When it is wrong: if the program under test writes the same id twice. The workloads never do.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import counted, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, files, hits, late

#: What helps, by family of file systems.
_REMEDIES = {
    "nfs": (
        "Between open and close NFS promises nothing: open the file again before reading,"
        " read under an fcntl lock, use O_DIRECT on both sides, or mount with `noac` "
        "(slower)."
    ),
    "cephfs": (
        "CephFS promises coherence: check that nobody mounts with lazy I/O "
        "(`client_force_lazyio`), and report it with the two operations."
    ),
    "ceph-fuse": (
        "CephFS promises coherence, and ceph-fuse breaks it with the kernel's page cache:"
        " set `fuse_disable_pagecache = true`, or use the kernel client."
    ),
}


def _stale(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} read old data {files(group)} {late(group)} after "
        f"{b.other_process} had "
        f"overwritten it: {counted(group.count, 'stale read')}"
    )


def _disorder(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} and {b.other_process} saw writes in orders that contradict "
        f"each other "
        f"{files(group)}: {times(group.count)}"
    )


def _phantom(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} read what nobody had written there yet {files(group)}: "
        f"{times(group.count)}"
    )


_DESCRIBE = {"stale": _stale, "disorder": _disorder, "phantom": _phantom}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "coherent", _DESCRIBE, remedies=_REMEDIES)


RULE = Rule(
    id="read-not-coherent",
    title="A read returned data that had been overwritten",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=READS,
    check=check,
    remedy=(
        "Open the file again before reading, or read under a lock: both make the client ask the server."
    ),
    references=(
        "facts of nfs(5): data and metadata coherence",
        "CephFS: differences from POSIX",
        "Gibbons and Korach, Testing Shared Memories, SIAM J. Comput. 26(4), 1997",
    ),
    bad=(
        """
        workload register
        0..1 A write f =1
        2..3 A write f =2
        4..5 B read f =1
        """,
        """
        workload register  # old after new
        0..1 A write f =1
        2..9 A write f =2
        3..4 B read f =2
        5..6 C read f =1
        """,
    ),
    good=(
        """
        workload register  # the read may have been first
        0..1 A write f =1
        2..3 A write f =2
        2.5..5 B read f =1
        """,
        """
        workload register  # the clocks leave it open
        0..1 A write f =1
        2..3~4.1 A write f =2
        4~4.2..5 B read f =1
        """,
        """
        workload register  # a write that never returned may come later
        0..1 A write f =1
        2.. A write f =2
        4..5 B read f =1
        6..7 B read f =2
        """,
    ),
    exercised_by=frozenset({"workload register"}),
    follows_state=False,
    witness="client",
    promise="coherent",
)
