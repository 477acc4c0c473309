"""What it checks: workers add one to a counter in a file, each time under an exclusive lock. Two of them
wrote the same number, so that one update is lost; or the counter ends below what had been acknowledged.

Why it matters: this is what locks are for. Either they didn't exclude each other (see `lock-not-
exclusive`), or the reader got old data though it held the lock.

When it is wrong: never for the workload, whose workers write under the lock alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import counted
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, hits


def _overwritten(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} and {b.other_process} on {b.other_client} both wrote {b.seen} "
        f"to the "
        f"counter {b.object} under its lock: {counted(group.count, 'update')} lost"
    )


def _end(group: Group) -> str:
    b = group.worst
    return (
        f"the counter {b.object} ended at {b.seen} although {b.expected} had been acknowledged: "
        f"{b.expected - b.seen} lost"
    )


_DESCRIBE = {"overwritten": _overwritten, "lost-at-end": _end}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "lost-update", _DESCRIBE)


RULE = Rule(
    id="update-lost-under-lock",
    title="An update under a lock was lost",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=READS,
    check=check,
    remedy=(
        "Check `local_lock` and `nolock` first; then whether locks exclude each other here, and "
        "whether data is flushed before the lock is given back."
    ),
    references=(
        "nfs(5): a lock makes the client revalidate its cache",
        "RFC 8881 section 10.3.2",
    ),
    bad=(
        """
        workload counter
        0..1 A read c v0
        1..2 A write c v1
        2..3 B read c v0
        3..4 B write c v1
        """,
    ),
    good=(
        """
        workload counter
        0..1 A read c v0
        1..2 A write c v1
        2..3 B read c v1
        3..4 B write c v2
        5..6 A read c v2 phase=audit
        """,
    ),
    exercised_by=frozenset({"workload counter"}),
    follows_state=False,
    witness="client",
    promise="lost-update",
)
