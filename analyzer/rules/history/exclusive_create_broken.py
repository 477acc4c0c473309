"""What it checks: many workers create the same new name with O_CREAT|O_EXCL, mkdir or link. Two of them
succeeded, with no removal in between; or all were told that it exists although nobody made it.

Why it matters: it is the oldest lock there is; schedulers, package managers and checkpoint writers rest
on it.

When it is wrong: "no winner" after a lost connection can be a request that the client sent twice: the
first succeeded and the answer was lost. The worker that it happened to then has outcome `info`, and isn't
counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import counted
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, hits


def _two(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} and {b.other_process} on {b.other_client} both created "
        f"{b.object}: "
        f"{counted(group.objects, 'name')} with two winners"
    )


def _none(group: Group) -> str:
    b = group.worst
    return (
        f"nobody created {b.object} and {b.process} on {b.client} was told that it exists: "
        f"{counted(group.objects, 'name')} without a winner"
    )


_DESCRIBE = {"two-winners": _two, "no-winner": _none}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "exclusive-create", _DESCRIBE)


RULE = Rule(
    id="exclusive-create-broken",
    title="An exclusive create had two winners, or none",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=READS,
    check=check,
    remedy=(
        "Don't use it as a lock on this mount; use fcntl locks, or a lock service outside of the "
        "file system."
    ),
    references=(
        "open(2), O_EXCL",
        "RFC 8881 section 18.16.3, EXCLUSIVE4_1",
    ),
    bad=(
        """
        workload exclusive
        0..1 A create n family=create
        0..1 B create n family=create
        """,
        """
        workload exclusive  # nobody
        0..1 A create n -> EEXIST
        0..1 B create n -> EEXIST
        """,
    ),
    good=(
        """
        workload exclusive
        0..1 A create n family=create
        0..1 B create n -> EEXIST
        """,
        """
        workload exclusive  # removed between
        0..1 A create n
        2..3 A remove n
        4..5 B create n
        4..5 A create n -> EEXIST
        """,
        """
        workload exclusive  # the first may have been the winner
        0.. A create n
        0..1 B create n -> EEXIST
        """,
    ),
    exercised_by=frozenset({"workload exclusive"}),
    follows_state=False,
    witness="client",
    promise="exclusive-create",
)
