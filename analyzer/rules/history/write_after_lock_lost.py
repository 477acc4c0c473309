"""What it checks: a holder of an exclusive lock is frozen until its lease has run out, another worker
gets the lock, then the first is thawed and writes. Its write began after the other grant had returned,
and was seen by a reader.

Why it matters: the new holder believes to be alone. NFS fences such a write by its stateid, CephFS at the
OSDs; where nothing fences, a paused virtual machine corrupts data.

When it is wrong: if the first holder had got the lock again in a call that isn't in the history.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, hits, late


def _landed(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} wrote to {b.object} {late(group)} after its lock had been "
        f"granted to "
        f"{b.other_process} on {b.other_client}, and the write landed: {times(group.count)}"
    )


_DESCRIBE = {"landed": _landed}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "zombie-write", _DESCRIBE)


RULE = Rule(
    id="write-after-lock-lost",
    title="A frozen lock holder wrote after the lock had gone to another",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=READS,
    check=check,
    remedy=(
        "Guard writes by a fencing token (a number that grows with each grant and that the reader"
        " checks), not by the lock alone."
    ),
    references=(
        "RFC 8881 section 9.1.4",
        "fcntl_locking(2), lost locks",
    ),
    bad=(
        """
        workload zombie
        0..1 A lock f 0+10 write
        2..3 A write f =1
        10..11 B lock f 0+10 write
        12..13 A write f =2
        14..15 B read f =2
        """,
    ),
    good=(
        """
        workload zombie
        0..1 A lock f 0+10 write
        2..3 A write f =1
        10..11 B lock f 0+10 write
        12..13 A write f =2 -> EIO
        14..15 B read f =1
        """,
        """
        workload zombie  # given back meanwhile
        0..1 A lock f 0+10 write
        10..11 B lock f 0+10 write
        11..11.5 B unlock f 0+10
        12..13 A write f =2
        14..15 B read f =2
        """,
    ),
    exercised_by=frozenset({"workload zombie"}),
    follows_state=False,
    witness="client",
    promise="zombie-write",
)
