"""What it checks: ranks write shards, sync them, meet at a barrier, and one renames the pointer. A load
from other nodes found shards of different generations, a broken or missing shard, or an older generation
than a pointer whose rename had returned before the load began.

Why it matters: a job that resumes from such a checkpoint continues from a state that never existed.

When it is wrong: on NFS an older generation within the time that names are cached is what such a mount
does, and of low severity.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import counted, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, hits, late


def _mixed(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} loaded {b.object} with shards of generation {b.seen} "
        f"({b.detail}) and "
        f"{b.expected}: {counted(group.count, 'mixed load')}"
    )


def _torn(group: Group) -> str:
    b = group.worst
    return f"{b.process} on {b.client} loaded a broken shard {b.detail} of {b.object}: {times(group.count)}"


def _missing(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} found no shard {b.detail} of {b.object} although generation "
        f"{b.expected} was published: {times(group.count)}"
    )


def _older(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} loaded generation {b.seen} of {b.object} {late(group)} after "
        f"{b.expected} "
        f"had been published: {times(group.count)}"
    )


_DESCRIBE = {"mixed": _mixed, "torn": _torn, "missing": _missing, "older": _older}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "checkpoint", _DESCRIBE)


RULE = Rule(
    id="checkpoint-invalid",
    title="A loaded checkpoint was mixed, torn, incomplete or old",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=READS,
    check=check,
    remedy=(
        "Write each generation into a folder of its own, fsync files and folder, list the shards "
        "with checksums in a manifest, and check it at load."
    ),
    references=(
        "fsync(2), directories",
        "rename(2)",
    ),
    bad=(
        """
        workload checkpoint
        0..1 A rename c v1 size=2
        2..3 A rename c v2 size=2
        4..5 B read c v1 name=0 round=1 phase=load
        4..5 B read c v2 name=1 round=1 phase=load
        """,
        """
        workload checkpoint  # missing
        0..1 A rename c v1 size=2
        4..5 B read c v1 name=0 round=1 phase=load
        4..5 B read c name=1 round=1 phase=load -> ENOENT
        """,
        """
        workload checkpoint  # old
        0..1 A rename c v1 size=1
        2..3 A rename c v2 size=1
        4..5 B read c v1 name=0 round=1 phase=load
        """,
    ),
    good=(
        """
        workload checkpoint
        0..1 A rename c v1 size=2
        2..3 A rename c v2 size=2
        4..5 B read c v2 name=0 round=1 phase=load
        4..5 B read c v2 name=1 round=1 phase=load
        """,
    ),
    exercised_by=frozenset({"workload checkpoint"}),
    follows_state=False,
    witness="client",
    promise="checkpoint",
)
