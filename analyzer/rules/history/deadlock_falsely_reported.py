"""What it checks: a blocking lock call failed with EDEADLK, and no circle of waiting owners was possible
while it lasted: nobody who may have been in its way was waiting, directly or by others, for what the
caller held.

Why it matters: programs treat EDEADLK as a defect of their own and abort.

When it is wrong: if owners outside the run take part. Deadlocks that nobody reports break no promise, and
are not reported here.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, files, hits


def _false(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} got EDEADLK on {b.object} although nobody waited for it: "
        f"{times(group.count)}, {files(group)}"
    )


_DESCRIBE = {"false": _false}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "deadlock", _DESCRIBE)


RULE = Rule(
    id="deadlock-falsely-reported",
    title="EDEADLK without a deadlock",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=READS,
    check=check,
    remedy="Treat EDEADLK like EAGAIN: give back all locks, wait a moment, and begin again.",
    references=("fcntl(2), F_SETLKW and EDEADLK",),
    bad=(
        """
        workload locks
        0..1 A lock f 0+10 write
        2..3 B lock f 0+10 write blocking -> EDEADLK
        """,
    ),
    good=(
        """
        workload locks
        0..1 A lock f 0+10 write
        0..1 B lock f 10+10 write
        2..9 A lock f 10+10 write blocking
        3..4 B lock f 0+10 write blocking -> EDEADLK
        5..6 B unlock f 10+10
        """,
    ),
    exercised_by=frozenset({"workload locks"}),
    follows_state=False,
    witness="client",
    promise="deadlock",
)
