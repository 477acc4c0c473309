"""What it checks: workers on several hosts append records to one file with O_APPEND; afterwards the file
is read back. Every acknowledged record must lie there once and whole, and behind those that had been
acknowledged before it was begun. The sentence names the worker whose records are gone, and who overwrote
them where the writer knew its offset.

Why it matters: logs, metrics and result lists that several hosts append to lose records without any
error. NFS has no append: the client writes where it believes the end of the file to be.

When it is wrong: if the file was read back before all writers had closed it.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import counted, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, by_process, files, hits, late

#: What helps, by family of file systems.
_REMEDIES = {
    "nfs": (
        "NFS can't append: give each worker a file of its own and merge them later, or "
        "append under an fcntl lock and open the file anew for each record."
    ),
    "ceph-fuse": (
        "Use the kernel client, or give each worker a file of its own; a lock alone "
        "doesn't help while the file stays open."
    ),
}


def _lost(group: Group) -> str:
    b = group.worst
    return (
        f"{counted(group.count, 'acknowledged record')} of {b.process} on {b.client} gone "
        f"{files(group)}"
        + (f", overwritten by {b.other_process} on {b.other_client}" if b.other_process else "")
    )


def _torn(group: Group) -> str:
    b = group.worst
    return f"{counted(group.count, 'torn record')} {files(group)}, of {b.process or 'an unknown writer'}"


def _doubled(group: Group) -> str:
    b = group.worst
    return f"{counted(group.count, 'record')} of {b.process} more than once {files(group)}"


def _reordered(group: Group) -> str:
    b = group.worst
    return (
        f"a record of {b.process} lies before one of {b.other_process} that had been acknowledged "
        f"{late(group)} earlier: {times(group.count)}, {files(group)}"
    )


_DESCRIBE = {"lost": _lost, "torn": _torn, "doubled": _doubled, "reordered": _reordered}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach and worker."""
    yield from hits(
        case, "append", _DESCRIBE, unpromised=Severity.HIGH, remedies=_REMEDIES, group=by_process
    )


RULE = Rule(
    id="append-lost",
    title="Appended records are lost, torn, doubled or out of order",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=READS,
    check=check,
    remedy=(
        "Give each worker a file of its own and merge them later, or append under an fcntl lock "
        "and open the file anew for each record."
    ),
    references=(
        "open(2), O_APPEND on NFS",
        "Linux NFS FAQ, A9",
    ),
    bad=(
        """
        workload append
        0..1 A append f =1 v1 0+64
        2..3 B append f =2 v1 0+64
        5..6 C read f =2 0+64 phase=audit
        """,
        """
        workload append  # torn
        0..1 A append f =1 v1
        5..6 C read f =1 0+64 phase=audit
        5..6 C read f =0 64+64 torn phase=audit
        """,
        """
        workload append  # out of order
        0..1 A append f =1 v1
        2..3 B append f =2 v1
        5..6 C read f =2 0+64 phase=audit
        5..6 C read f =1 64+64 phase=audit
        """,
    ),
    good=(
        """
        workload append
        0..1 A append f =1 v1
        2..3 B append f =2 v1
        5..6 C read f =1 0+64 phase=audit
        5..6 C read f =2 64+64 phase=audit
        """,
        """
        workload append  # one that never returned may be there or not
        0..1 A append f =1 v1
        2.. B append f =2 v1
        5..6 C read f =1 0+64 phase=audit
        """,
    ),
    exercised_by=frozenset({"workload append"}),
    follows_state=False,
    witness="client",
    promise="append",
)
