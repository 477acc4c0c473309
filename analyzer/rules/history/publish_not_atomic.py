"""What it checks: a worker writes a new file, syncs it and renames it over the old one, generation after
generation; others open and read it all the time. A reader found no file, a file of two generations or
with a wrong checksum, one older than a generation whose rename had returned, or an older one than it had
seen before.

Why it matters: rename is how checkpoints, configurations and indexes are replaced while others use them.

When it is wrong: NFS clients believe cached names for a while (up to acdirmax): an older generation
within that time is what such a mount does, and of low severity.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, hits, late

#: What helps, by family of file systems.
_REMEDIES = {
    "nfs": (
        "Names are cached: `lookupcache=none` or a smaller `acdirmax` narrows the window,"
        " at a price. Put a generation number into the file and let readers wait for the "
        "one they need."
    ),
}


def _absent(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} found no {b.object} {late(group)} after generation "
        f"{b.expected} had been "
        f"published: {times(group.count)}"
    )


def _mixed(group: Group) -> str:
    b = group.worst
    return f"{b.process} on {b.client} read a mixed or broken {b.object}: {times(group.count)}"


def _older(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} read generation {b.seen} of {b.object} {late(group)} after "
        f"{b.other_process} "
        f"had published {b.expected}: {times(group.count)}"
    )


def _early(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} read generation {b.seen} of {b.object} before anybody began "
        f"to publish it"
    )


def _backwards(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} read generation {b.seen} of {b.object} after it had read "
        f"{b.expected}: "
        f"{times(group.count)}"
    )


_DESCRIBE = {"absent": _absent, "mixed": _mixed, "older": _older, "early": _early, "backwards": _backwards}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "publish", _DESCRIBE, remedies=_REMEDIES)


RULE = Rule(
    id="publish-not-atomic",
    title="A published file was absent, mixed, or older than acknowledged",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=READS,
    check=check,
    remedy=(
        "Have readers open the file anew each time and check a generation number inside it; keep "
        "the old file for a while rather than removing it."
    ),
    references=(
        "rename(2)",
        "nfs(5): lookupcache, acdirmax",
    ),
    bad=(
        """
        workload publish
        0..1 A rename p v1
        2..3 A rename p v2
        4..5 B read p v1
        """,
        """
        workload publish  # absent
        0..1 A rename p v1
        4..5 B read p -> ENOENT
        """,
        """
        workload publish  # mixed
        0..1 A rename p v1
        2..3 A rename p v2
        4..5 B read p v2 torn
        """,
        """
        workload publish  # backwards, with the second rename still under way
        0..1 A rename p v1
        2..9 A rename p v2
        4..5 B read p v2
        6..7 B read p v1
        """,
    ),
    good=(
        """
        workload publish  # still being published
        0..1 A rename p v1
        2..5 A rename p v2
        4..5 B read p v1
        6..7 B read p v2
        """,
        """
        workload publish  # not yet
        0..1 B read p -> ENOENT
        0.5..2 A rename p v1
        3..4 B read p v1
        """,
    ),
    exercised_by=frozenset({"workload publish"}),
    follows_state=False,
    witness="client",
    promise="publish",
)
