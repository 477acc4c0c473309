"""What it checks: workers ask for the same lock over and over, blocking. Reported is a file where one of
them got less than `least_share` of an equal share of the grants, or where a wait was overtaken by more than
`bypassed` grants that were asked for later.

Why it matters: a rank that never gets its turn stops all others at the next barrier. Polling clients are
served newest first, since those that have waited long sleep longest.

When it is wrong: where the workers ask at different rates. The workload's ask as fast as they can.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.lock_service import LockServiceRow
from analyzer.analysis.words import counted, duration
from analyzer.core.errors import NotExercisedError
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per file."""
    rows = list(case.rows(LockServiceRow))
    if not rows:
        raise NotExercisedError("no two workers waited for the same lock")
    for row in rows:
        equal = row.grants / row.owners
        starved = equal >= 5 and row.least_grants < case.options["least_share"] * equal
        if starved or row.bypassed_max > case.options["bypassed"]:
            yield _hit(row, starved, equal)


def _hit(row: LockServiceRow, starved: bool, equal: float) -> Hit:
    if starved:
        message = (
            f"{row.least_owner} got the lock on {row.object} {row.least_grants} times while "
            f"{row.most_owner} got it {row.most_grants} times; an equal share is {equal:.0f}"
        )
    else:
        message = (
            f"{row.longest_owner} waited {duration(row.wait_ns_max)} for the lock on {row.object}; "
            f"up to {row.bypassed_max} later requests came first"
        )
    return Hit(
        subject=Subject("file", row.object),
        message=message,
        evidence=row.evidence,
        when=(row.at_ns, row.at_ns + row.wait_ns_max),
        explanation=(
            f"Jain's index of {counted(row.owners, 'worker')} is {row.jain:.2f} (1 is fair). Waits: half "
            f"up to {duration(row.wait_ns_p50)}, 99 % up to {duration(row.wait_ns_p99)}, the longest "
            f"{duration(row.wait_ns_max)}; {counted(row.pending, 'call')} never returned."
        ),
        facts={
            "jain_permille": round(row.jain * 1000),
            "least_grants": row.least_grants,
            "most_grants": row.most_grants,
            "bypassed_max": row.bypassed_max,
            "wait_ns_p99": row.wait_ns_p99,
            "wait_ns_max": row.wait_ns_max,
        },
    )


RULE = Rule(
    id="lock-served-unfairly",
    title="Some workers hardly get a lock",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(LockServiceRow,),
    check=check,
    remedy=(
        "Use a server that notifies waiters (`lock-waiters-polling` tells), hold the lock for longer and "
        "ask less often, or let one worker hand out the work."
    ),
    references=("Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC TR-301, 1984",),
    bad=(
        """
        workload locks  # B gets nothing
        0..1 A lock f 0+10 write blocking
        1.. B lock f 0+10 write blocking
        2..2.5 A lock f 0+10 write blocking
        3..3.5 A lock f 0+10 write blocking
        4..4.5 A lock f 0+10 write blocking
        5..5.5 A lock f 0+10 write blocking
        6..6.5 A lock f 0+10 write blocking
        7..7.5 A lock f 0+10 write blocking
        8..8.5 A lock f 0+10 write blocking
        9..9.5 A lock f 0+10 write blocking
        10..10.5 A lock f 0+10 write blocking
        11..11.5 A lock f 0+10 write blocking
        12..12.5 A lock f 0+10 write blocking
        13..13.5 A lock f 0+10 write blocking
        """,
    ),
    good=(
        """
        workload locks
        0..1 A lock f 0+10 write blocking
        2..2.5 A lock f 0+10 write blocking
        3..3.5 B lock f 0+10 write blocking
        4..4.5 A lock f 0+10 write blocking
        5..5.5 B lock f 0+10 write blocking
        6..6.5 A lock f 0+10 write blocking
        7..7.5 B lock f 0+10 write blocking
        8..8.5 A lock f 0+10 write blocking
        9..9.5 B lock f 0+10 write blocking
        10..10.5 A lock f 0+10 write blocking
        11..11.5 B lock f 0+10 write blocking
        12..12.5 A lock f 0+10 write blocking
        13..13.5 B lock f 0+10 write blocking
        """,
    ),
    exercised_by=frozenset({"workload locks", "workload counter"}),
    follows_state=False,
    options={"least_share": 0.1, "bypassed": 100},
    witness="client",
    promise="fairness",
)
