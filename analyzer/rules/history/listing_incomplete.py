"""What it checks: workers create and remove files in a directory while others list it. A listing missed
an entry that was there from before it began until after it ended, held one twice, or held one that had
been removed before it began.

Why it matters: data loaders and clean-up jobs that list a directory skip files, or read files twice.

When it is wrong: NFS clients believe a cached directory for a while (up to acdirmax): entries that are
newer or older than that by less are what such a mount does, and of low severity.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import counted, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, hits, late


def _missed(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} missed {b.detail} in {b.object} {late(group)} after "
        f"{b.other_process} had "
        f"created it: {counted(group.count, 'missing entry', 'missing entries')}"
    )


def _doubled(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} saw {b.detail} more than once in one listing of {b.object}: "
        f"{times(group.count)}"
    )


def _ghost(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} saw {b.detail} in {b.object} {late(group)} after "
        f"{b.other_process} had "
        f"removed it: {counted(group.count, 'ghost')}"
    )


_DESCRIBE = {"missed": _missed, "doubled": _doubled, "ghost": _ghost}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "readdir", _DESCRIBE)


RULE = Rule(
    id="listing-incomplete",
    title="A directory listing missed, doubled or invented entries",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=READS,
    check=check,
    remedy="Don't take a listing for the truth: keep a manifest of what belongs there.",
    references=(
        "readdir(3)",
        "nfs(5): acdirmin, acdirmax",
    ),
    bad=(
        """
        workload readdir
        0..1 A create d name=a
        2..3 B readdir d round=1
        """,
        """
        workload readdir  # twice
        0..1 A create d name=a
        2..3 B readdir d round=1
        2..3 B readdir d round=1 name=a
        2..3 B readdir d round=1 name=a
        """,
        """
        workload readdir  # gone
        0..1 A create d name=a
        2..3 A remove d name=a
        4..5 B readdir d round=1
        4..5 B readdir d round=1 name=a
        """,
    ),
    good=(
        """
        workload readdir
        0..1 A create d name=a
        2..3 B readdir d round=1
        2..3 B readdir d round=1 name=a
        """,
        """
        workload readdir  # meanwhile
        0..1 A create d name=a
        2..4 A remove d name=a
        3..5 B readdir d round=1
        3..5 A create d name=b
        3..5 B readdir d round=1 name=b
        """,
    ),
    exercised_by=frozenset({"workload readdir"}),
    follows_state=False,
    witness="client",
    promise="readdir",
)
