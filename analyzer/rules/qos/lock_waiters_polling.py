"""What it checks: whether long waits for locks (0.5 s and more) end near 1, 3, 7, 15, 31, 61 or 91 s after
they began: Linux's NFSv4 client asks again after 1, 2, 4, 8, 16 and then every 30 s, unless the server
tells it that the lock is free. Reported if at least `waits` waits were long, and `share` of them ended
there.

Why it matters: the lock lies free while its next owner sleeps; one that has waited long sleeps longest and
is overtaken by those that just came. Tails of 31 and 61 s come from nothing else.

When it is wrong: if the holders themselves keep the lock for such times. The workload's hold it for
milliseconds, unless others of its waits say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.lock_service import LockServiceRow
from analyzer.analysis.mounts import MountRow
from analyzer.analysis.words import counted, duration
from analyzer.core.errors import NotExercisedError
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per server (one for all where the mount isn't known)."""
    rows = list(case.rows(LockServiceRow))
    if not rows:
        raise NotExercisedError("no two workers waited for the same lock")
    long, marks = sum(row.long_waits for row in rows), sum(row.at_marks for row in rows)
    if long < case.options["waits"] or marks < case.options["share"] * long:
        return
    worst = max(rows, key=lambda row: row.wait_ns_max)
    servers = {mount.server for mount in case.rows(MountRow) if mount.server}
    name = ", ".join(sorted(servers)) or "the server"
    yield Hit(
        subject=Subject("server", name),
        message=(
            f"{name} tells nobody that a lock is free: {marks} of {counted(long, 'long wait')} ended when "
            f"a client asked again, the longest after {duration(worst.wait_ns_max)} ({worst.longest_owner})"
        ),
        evidence=worst.evidence,
        when=(worst.at_ns, worst.at_ns + worst.wait_ns_max),
        explanation=(
            f"By chance about one in ten would end there. Half of all waits on {worst.object} took up to "
            f"{duration(worst.wait_ns_p50)}, one in a thousand {duration(worst.wait_ns_p999)} and more."
        ),
        facts={
            "long_waits": long,
            "at_marks": marks,
            "wait_ns_p50": worst.wait_ns_p50,
            "wait_ns_p999": worst.wait_ns_p999,
            "wait_ns_max": worst.wait_ns_max,
        },
    )


RULE = Rule(
    id="lock-waiters-polling",
    title="Waits for locks end when clients poll",
    severity=Severity.MEDIUM,
    confidence=Confidence.MEDIUM,
    blame=Blame.SERVER,
    reads=(LockServiceRow, MountRow),
    check=check,
    remedy=(
        "Mount with `vers=4.1` or later from a server that sends CB_NOTIFY_LOCK (Linux knfsd does; "
        "nfs-ganesha from V6 on), or poll with F_SETLK at a pace of your own."
    ),
    references=("Linux fs/nfs/nfs4proc.c, NFS4_LOCK_MINTIMEOUT", "RFC 8881 section 20.11"),
    bad=(
        """
        workload locks
        0..1.02 A lock f 0+10 write blocking
        0..3.05 B lock f 0+10 write blocking
        0..7.03 C lock f 0+10 write blocking
        1..2.02 A lock f 0+10 write blocking
        2..5.01 A lock f 0+10 write blocking
        """,
    ),
    good=(
        """
        workload locks
        0..0.60 A lock f 0+10 write blocking
        0..1.70 B lock f 0+10 write blocking
        0..2.30 C lock f 0+10 write blocking
        1..2.55 A lock f 0+10 write blocking
        2..4.10 A lock f 0+10 write blocking
        """,
    ),
    exercised_by=frozenset({"workload locks", "workload counter"}),
    follows_state=False,
    options={"waits": 5, "share": 0.7},
    witness="client",
    promise="fairness",
)
