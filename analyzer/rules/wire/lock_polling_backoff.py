"""What it checks: clients that wait for locks at a server which never tells them that a lock is free:
they ask again and again, after 1, 2, 4, ... seconds, and the lock lies free meanwhile. Reported if these
pauses after the release add up to `backoff_ns`, and no CB_NOTIFY_LOCK was seen from that server.

Why it matters: each hand-over of the lock costs up to half of the time waited so far (30 s at most on
Linux), although nobody uses the lock. With a server that notifies it costs a round trip.

A server that notifies may still forget a waiter: Linux knfsd does after one lease.

When it is wrong: if callbacks go over a connection that was not captured (NFSv4.0 has no CB_NOTIFY_LOCK
at all). Only waits with blocking lock types count: a program that polls with F_SETLK makes its own
pauses.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import server_subject
from analyzer.analysis.lock_words import NS, seconds
from analyzer.analysis.locks import LockServer, LockWait
from analyzer.analysis.server import ServerRow
from analyzer.analysis.words import counted
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

#: A client that waits without being told pauses at least that long (Linux: 1 s at first).
_PAUSE = 9 * NS // 10


def check(case: Case) -> Iterator[Hit]:
    """One hit per server."""
    servers = {s.endpoint: s for s in case.rows(LockServer) if not s.notifications}
    leases = {row.endpoint: row.lease_seconds for row in case.rows(ServerRow)}
    found: dict[str, list[LockWait]] = {}
    for wait in case.rows(LockWait):
        polled = wait.blocking and any(gap >= _PAUSE for gap in wait.gaps_ns)
        known = wait.granted_ns is not None and wait.released_ns is not None
        if wait.endpoint in servers and polled and known and not wait.notified and wait.backoff_ns:
            found.setdefault(wait.endpoint, []).append(wait)
    for endpoint, waits in found.items():
        if sum(w.backoff_ns for w in waits) >= case.options["backoff_ns"]:
            yield _hit(servers[endpoint], waits, leases.get(endpoint))


def _hit(server: LockServer, waits: list[LockWait], lease_s: int | None) -> Hit:
    worst = max(waits, key=lambda w: w.backoff_ns)
    idle = sum(w.backoff_ns for w in waits)
    share = 100 * idle // max(sum(w.wait_ns for w in waits), 1)
    gaps = ", ".join(seconds(g) for g in worst.gaps_ns[:6])
    return Hit(
        subject=server_subject(server.endpoint),
        message=(
            f"server {server.endpoint} tells nobody that a lock is free: in {counted(len(waits), 'wait')} "
            f"clients slept {seconds(idle)} ({share} % of their waiting) after the lock had been given back"
        ),
        evidence=worst.evidence,
        when=(min(w.asked_ns for w in waits), max(w.granted_ns or 0 for w in waits)),
        leans_on=tuple(dict.fromkeys(c for w in waits for c in (w.client, w.holder_client) if c)),
        explanation=(
            f"The worst: {seconds(worst.backoff_ns)} after calls {gaps} apart. "
            f"{_why(server, worst, lease_s)}"
        ),
        facts={
            "waits": len(waits),
            "backoff_ns": idle,
            "worst_backoff_ns": worst.backoff_ns,
            "share_percent": share,
            "may_notify": int(server.may_notify),
            "protocol": server.protocol,
        },
        severity=Severity.MEDIUM if idle >= 10 * NS else Severity.LOW,
    )


def _why(server: LockServer, worst: LockWait, lease_s: int | None) -> str:
    if server.protocol == "nfs4.0":
        return "NFSv4.0 has no callback for that."
    if server.may_notify and lease_s and worst.hold_ns > lease_s * NS:
        return (
            f"The server offers it (OPEN4_RESULT_MAY_NOTIFY_LOCK is set), but the lock was held for longer "
            f"than its lease of {lease_s} s: Linux knfsd forgets a waiter after one lease."
        )
    if server.may_notify:
        return "The server offers it (OPEN4_RESULT_MAY_NOTIFY_LOCK is set): look at the callback path."
    return "The server doesn't offer it (OPEN4_RESULT_MAY_NOTIFY_LOCK is not set)."


RULE = Rule(
    id="lock-polling-backoff",
    title="Lock waiters poll because the server doesn't notify them",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(LockWait, LockServer, ServerRow),
    check=check,
    remedy=(
        "Mount with `vers=4.1` or later from a server that sends CB_NOTIFY_LOCK (Linux knfsd does, "
        "nfs-ganesha 4 doesn't); else let the application poll with F_SETLK at a pace of its own."
    ),
    references=("RFC 8881 section 20.11", "RFC 8881 section 18.16.3", "RFC 8881 section 9.6"),
    bad=(
        """
        0.023..0.024 A lock f 0+10 write owner=a new_stateid=sa
        0.025..0.026 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        1.029..1.030 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        3.031..3.032 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        5.526..5.527 A unlock f 0+10 stateid=sa
        7.033..7.034 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
    ),
    good=(
        # notified
        """
        0.023..0.024 A lock f 0+10 write owner=a new_stateid=sa
        0.025..0.026 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        5.526..5.527 A unlock f 0+10 stateid=sa
        5.528..5.529 B notify_lock f
        5.530..5.531 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
        # a program that polls by itself
        """
        0.023..0.024 A lock f 0+10 write owner=a new_stateid=sa
        0.025..0.026 B lock f 0+10 write owner=b -> DENIED holder_clientid=A holder_owner=a
        1.029..1.030 B lock f 0+10 write owner=b -> DENIED holder_clientid=A holder_owner=a
        1.526..1.527 A unlock f 0+10 stateid=sa
        3.033..3.034 B lock f 0+10 write owner=b new_stateid=sb
        """,
        # asked again at once
        """
        0.023..0.024 A lock f 0+10 write owner=a new_stateid=sa
        0.025..0.026 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        1.029..1.030 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        3.030..3.031 A unlock f 0+10 stateid=sa
        3.032..3.033 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
    ),
    exercised_by=frozenset({"lock"}),
    options={"backoff_ns": NS // 2},
)
