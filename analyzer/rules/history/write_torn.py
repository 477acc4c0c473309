"""What it checks: workers overwrite a unit that lies across block and object boundaries, each time whole,
and others read it whole. A read returned parts of two writes, or a wrong checksum. The sentence says at
which byte the content changes.

Why it matters: records that are overwritten in place are broken for every reader that comes in between.

When it is wrong: hardly any file system promises that large writes are atomic: then it says where the
units are that are.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import counted
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, hits


def _torn(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} read {b.object} half of {b.other_process}'s write and half of "
        f"another"
        + (f", from byte {b.seen} on" if b.seen >= 0 else "")
        + f": {counted(group.count, 'torn read')}"
    )


_DESCRIBE = {"torn": _torn}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "torn-write", _DESCRIBE)


RULE = Rule(
    id="write-torn",
    title="A read saw parts of two writes",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=READS,
    check=check,
    remedy="Write a new file and rename it, or write and read under a lock.",
    references=(
        "write(2), atomicity",
        "CephFS: differences from POSIX",
    ),
    bad=(
        """
        workload torn
        0..1 A write f =1
        2..4 B write f =2
        3..4 C read f =1 other=2 torn_at=4096 torn
        """,
    ),
    good=(
        """
        workload torn
        0..1 A write f =1
        2..4 B write f =2
        3..4 C read f =2
        """,
    ),
    exercised_by=frozenset({"workload torn"}),
    follows_state=False,
    witness="client",
    promise="torn-write",
)
