"""What it checks: workers on several hosts map one file shared and read and write through the mapping. A
read through it returned content that had certainly been overwritten before.

Why it matters: libraries that map files for sharing (databases, array formats, some data loaders) work on
one host and fail silently on several.

When it is wrong: never, but hardly any network file system promises coherent mappings across hosts; take
it as a fact about the mount.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, files, hits, late


def _stale(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} saw old data in its mapping {files(group)} {late(group)} after "
        f"{b.other_process} had overwritten it: {times(group.count)}"
    )


def _disorder(group: Group) -> str:
    return (
        f"mappings {files(group)} showed writes in orders that contradict each other: {times(group.count)}"
    )


def _phantom(group: Group) -> str:
    b = group.worst
    return f"{b.process} on {b.client} saw what nobody had written {files(group)}: {times(group.count)}"


_DESCRIBE = {"stale": _stale, "disorder": _disorder, "phantom": _phantom}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "mmap", _DESCRIBE)


RULE = Rule(
    id="mapping-not-coherent",
    title="A mapping kept old data",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=READS,
    check=check,
    remedy=("Don't share mappings between hosts: read and write with calls, or pass the data by messages."),
    references=(
        "mmap(2), MAP_SHARED",
        "CephFS: differences from POSIX",
    ),
    bad=(
        """
        workload mmap
        0..1 A write f =1
        2..3 A write f =2
        4..5 B read f =1
        """,
    ),
    good=(
        """
        workload mmap
        0..1 A write f =1
        2..3 A write f =2
        4..5 B read f =2
        """,
    ),
    exercised_by=frozenset({"workload mmap"}),
    follows_state=False,
    witness="client",
    promise="mmap",
)
