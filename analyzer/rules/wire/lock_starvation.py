"""What it checks: a client that waited for a lock while others, who asked later, got a conflicting lock
on the range `bypasses` times or more.

Why it matters: NFS promises no order. Who asks at the right moment gets the lock; a client that sleeps up
to 30 s between its calls loses against one that takes the lock in a loop, and may wait without end.

When it is wrong: a single long wait behind one holder is no starvation (see lock-long-wait); only grants
to owners that asked after the waiter's first DENIED count.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import NS, file_name, file_subject, longest_by, seconds
from analyzer.analysis.locks import LockWait
from analyzer.analysis.words import counted, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per file and waiter (and first holder)."""
    labels = Labels.of(case)
    starved = (
        wait
        for wait in case.rows(LockWait)
        if wait.bypassed >= case.options["bypasses"] and wait.wait_ns >= case.options["wait_ns"]
    )
    for wait, count, _ in longest_by(starved):
        name = file_name(wait.path, wait.object)
        end = "" if wait.granted_ns is not None else ", and never got it in this capture"
        more = f" ({counted(count, 'such wait')})" if count > 1 else ""
        yield Hit(
            subject=file_subject(wait.endpoint, wait.object, wait.path),
            message=(
                f"{labels.client(wait.client)} was passed over {times(wait.bypassed)} in "
                f"{seconds(wait.wait_ns)} of waiting for a lock on {name} by owners that asked later"
                f"{end}{more}"
            ),
            evidence=wait.evidence,
            when=(wait.asked_ns, wait.last_ns if wait.granted_ns is None else wait.granted_ns),
            facts={
                "client": wait.client,
                "bypasses": wait.bypassed,
                "wait_ns": wait.wait_ns,
                "notified": int(wait.notified),
                "waits": count,
            },
            severity=Severity.HIGH if wait.wait_ns >= 30 * NS else None,
        )


RULE = Rule(
    id="lock-starvation",
    title="A client waits for a lock while others are served before it",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(LockWait, ClientRow),
    check=check,
    remedy=(
        "Let those who take the lock in a loop pause between an unlock and the next lock; use a server "
        "that notifies waiters (CB_NOTIFY_LOCK, `vers=4.1`), or a queue outside the file system."
    ),
    references=("RFC 8881 section 9.6", "RFC 8881 section 20.11"),
    bad=(
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        1.2..1.21 A unlock f 0+10 stateid=sa
        1.3..1.31 A lock f 0+10 write stateid=sa new_stateid=sa
        1.4..1.41 A unlock f 0+10 stateid=sa
        1.5..1.51 C lock f 0+10 write owner=c new_stateid=sc
        1.6..1.61 C unlock f 0+10 stateid=sc
        1.7..1.71 A lock f 0+10 write stateid=sa new_stateid=sa
        2..2.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        3..3.1 A unlock f 0+10 stateid=sa
        4..4.1 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
    ),
    good=(
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        3..3.1 A unlock f 0+10 stateid=sa
        4..4.1 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
        # the others lock another range
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        1.5..1.51 C lock f 20+10 write owner=c new_stateid=sc
        1.6..1.61 C unlock f 20+10 stateid=sc
        1.7..1.71 C lock f 20+10 write stateid=sc new_stateid=sc
        1.8..1.81 C unlock f 20+10 stateid=sc
        1.9..1.91 C lock f 20+10 write stateid=sc new_stateid=sc
        3..3.1 A unlock f 0+10 stateid=sa
        4..4.1 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
    ),
    exercised_by=frozenset({"lock"}),
    options={"bypasses": 3, "wait_ns": NS},
)
