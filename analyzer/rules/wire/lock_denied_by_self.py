"""What it checks: a LOCK that was DENIED because of a lock of the asking client itself: of the very lock
owner that asks, or of another owner (process) of the same client.

Why it matters: an owner never conflicts with itself, so that a DENIED by the same owner means that server
and client disagree on who the owner is or what was unlocked. A conflict between two owners of a Linux
client is settled inside its kernel; if one reaches the server, the two came by different ways: flock(2)
against fcntl(2) on one file, two mounts of one export, or an unlock that the server never saw.

A DENIED within 10 ms of the other owner's LOCKU, or of the grant of its LOCK, is left out: a kernel lets
the next process ask before the unlock of the one before is out.

When it is wrong: user-space clients, gateways and re-exports use many owners under one client id and
leave all conflicts to the server: that is plain contention between two of their users.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import file_name, file_subject, range_words
from analyzer.analysis.locks import LockRefusal
from analyzer.analysis.words import times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

_SEVERITY = {"same owner": Severity.MEDIUM, "own client": Severity.LOW}


def check(case: Case) -> Iterator[Hit]:
    """One hit per client and reason; it tells of the file with the most refusals."""
    labels = Labels.of(case)
    groups: dict[tuple[str, str, str], list[LockRefusal]] = {}
    for row in case.rows(LockRefusal):
        if row.reason in _SEVERITY:
            groups.setdefault((row.endpoint, row.client, row.reason), []).append(row)
    for (endpoint, client, reason), rows in groups.items():
        most = max(rows, key=lambda r: r.count)
        count = sum(r.count for r in rows)
        files = len({r.object for r in rows})
        more = f"; {times(count)} on {files} files" if files > 1 else ""
        whose = "the same lock owner" if reason == "same owner" else "another lock owner of the same client"
        name = file_name(most.path, most.object)
        yield Hit(
            subject=file_subject(endpoint, most.object, most.path),
            message=(
                f"{labels.client(client)} was denied a {most.lock_type} lock on {name} "
                f"({range_words(most.offset, most.length)}) {times(most.count)} by {whose}{more}"
            ),
            evidence=most.evidence,
            when=(min(r.first_ns for r in rows), max(r.last_ns for r in rows)),
            leans_on=(client,) if reason == "own client" else None,
            explanation=f"Asking owner {most.owner}, holding owner {most.holder_owner}.",
            facts={
                "client": client,
                "reason": reason,
                "owner": most.owner or "",
                "holder_owner": most.holder_owner or "",
                "count": count,
                "files": files,
            },
            severity=_SEVERITY[reason],
        )


RULE = Rule(
    id="lock-denied-by-self",
    title="A lock was denied because of the client's own lock",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(LockRefusal, ClientRow),
    check=check,
    remedy=(
        "Don't mix flock(2) and fcntl(2) locks on one file, and don't lock one file through two mounts "
        "(`findmnt -t nfs4`); `lslocks` on the client shows who has it. If nobody has, the server kept a "
        "lock that was given back: look for a LOCKU that failed."
    ),
    references=("RFC 8881 section 18.10.4", "RFC 8881 section 9.1.2", "flock(2), NFS details"),
    bad=(
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 A lock f 5+10 write owner=a -> DENIED holder_clientid=A holder_owner=a
        """,
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 A lock f 5+10 write owner=a2 -> DENIED holder_clientid=A holder_owner=a
        """,
    ),
    good=(
        # the holder's LOCKU was on its way: the kernel had let the next process ask
        """
        0..0.1 A lock f 0+10 read owner=a new_stateid=sa
        1..1.02 A lock f 5+10 write owner=a2 -> DENIED holder_clientid=A holder_owner=a
        1.01..1.03 A unlock f 0+10 stateid=sa
        1.04..1.05 A lock f 5+10 write owner=a2 new_stateid=sa2
        """,
        # both asked at once
        """
        0..0.01 A lock f 0+10 read owner=a new_stateid=sa
        0.005..0.02 A lock f 5+10 write owner=a2 -> DENIED holder_clientid=A holder_owner=a
        """,
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 5+10 write owner=a -> DENIED holder_clientid=A holder_owner=a
        """,
        # NFSv4.0: a replay of an old answer
        """
        0..0.1 B lock f 0+10 write owner=b new_stateid=sb
        1 A lock f 5+10 write stateid=o owner=a owner_seq=7 protocol=nfs4.0 -> DENIED holder_clientid=B
        2 A lock f 5+10 write stateid=o owner=a owner_seq=7 protocol=nfs4.0 -> DENIED holder_clientid=A \
holder_owner=a2
        """,
    ),
    exercised_by=frozenset({"lock"}),
    follows_state=True,  # an unlock nearby that went unseen makes a race look like a conflict
)
