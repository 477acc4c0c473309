"""What it checks: byte-range locks that their owner didn't give back and that the server no longer
honours: a reclaim that was refused, a RECLAIM_COMPLETE without a reclaim of the lock, a lock stateid that
is answered EXPIRED, BAD_STATEID or ADMIN_REVOKED, or a holder whose session is gone after another client
got the range.

Why it matters: the application goes on as if it had the lock. On Linux its write() still succeeds (into
the cache), fsync() gives EIO, the unlock succeeds locally and never reaches the wire; the kernel log says
"lost 1 locks". Somebody else may have changed the file meanwhile.

When it is wrong: a client that rebooted has no processes left that could mind; it is told by its boot
verifier and not reported. A test program may send reclaims for locks that it never had.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import NS, file_name, file_subject, range_words, seconds
from analyzer.analysis.locks import LockHold, LockLost
from analyzer.analysis.words import counted, duration
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

#: A lock that comes back so soon is more likely the kernel's recovery than a new call of the program.
_AT_ONCE = 2 * NS
_RECLAIM = frozenset({"NO_GRACE", "RECLAIM_BAD", "RECLAIM_CONFLICT"})


def check(case: Case) -> Iterator[Hit]:
    """One hit per client, file and cause."""
    labels = Labels.of(case)
    holds: dict[tuple[str, str, str], list[LockHold]] = {}
    for hold in case.rows(LockHold):
        holds.setdefault((hold.endpoint, hold.client, hold.object), []).append(hold)
    groups: dict[tuple[str, str, str, str], list[LockLost]] = {}
    for row in case.rows(LockLost):
        groups.setdefault((row.endpoint, row.client, row.object, row.cause), []).append(row)
    for rows in groups.values():
        first = rows[0]
        yield _hit(rows, labels, holds.get((first.endpoint, first.client, first.object), []))


def _regained(row: LockLost, holds: list[LockHold]) -> int | None:
    """How long after its loss the same owner got the same range again, None if not at once."""
    same = (row.owner, row.offset, row.length, row.lock_type)
    times = [
        hold.start_ns - row.lost_ns
        for hold in holds
        if (hold.owner, hold.offset, hold.length, hold.lock_type) == same
    ]
    return min((ns for ns in times if 0 <= ns <= _AT_ONCE), default=None)


def _hit(rows: list[LockLost], labels: Labels, holds: list[LockHold]) -> Hit:
    # one that another client got meanwhile is the worst
    row = max(rows, key=lambda r: (r.next_client is not None, -r.lost_ns))
    regained = _regained(row, holds)
    name = file_name(row.path, row.object)
    following = ""
    if row.next_client:
        before = ""
        if row.next_ns is not None and row.next_ns < row.lost_ns:
            before = f", {duration(row.lost_ns - row.next_ns)} before"
        following = f"; {labels.client(row.next_client)} got the range meanwhile{before}"
    more = f" and {counted(len(rows) - 1, 'more range')}" if len(rows) > 1 else ""
    held = ""
    if row.held_since_ns is not None and row.lost_ns > row.held_since_ns:
        held = f", {seconds(row.lost_ns - row.held_since_ns)} after the grant"
    return Hit(
        subject=file_subject(row.endpoint, row.object, row.path),
        message=(
            f"{labels.client(row.client)} lost its {row.lock_type} lock on {name} "
            f"({range_words(row.offset, row.length)}{more}){held}: {_cause(row.cause)}{following}"
        ),
        evidence=row.evidence,
        when=(min(row.held_since_ns or row.lost_ns, row.lost_ns), row.lost_ns),
        leans_on=(row.client,),
        explanation=_explanation(regained),
        facts={
            "client": row.client,
            "owner": row.owner or "",
            "cause": row.cause,
            "next_client": row.next_client or "",
            "both_held_ns": 0 if row.next_ns is None else max(0, row.lost_ns - row.next_ns),
            "regained": int(regained is not None),
            "locks": len(rows),
            "grant_seen": int(row.held_since_ns is not None),
        },
        severity=Severity.CRITICAL if row.next_client else None,
        complete=row.held_since_ns is not None,
    )


def _explanation(regained: int | None) -> str:
    if regained is None:
        return ""
    return (
        f"After {duration(regained)} it took the lock again: if its kernel did (nfs.recover_lost_locks), "
        "the program goes on without an error, over what others wrote meanwhile."
    )


def _cause(cause: str) -> str:
    if cause in _RECLAIM:
        return f"the server refused the reclaim with {cause}"
    if cause == "not reclaimed":
        return "the client ended its recovery without reclaiming it"
    return f"the server answered {cause}"


RULE = Rule(
    id="lock-lost",
    title="A client lost a lock that it never gave back",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(LockLost, LockHold, ClientRow),
    check=check,
    remedy=(
        "Check what the application wrote after that time, and restart it: its lock is gone though it "
        "doesn't know (client: `dmesg | grep 'lost .* locks'`). Find out why its lease ran out or why the "
        "grace period was too short (`nfs.conf`, `[nfsd] grace-time=`, `lease-time=`)."
    ),
    references=("RFC 8881 section 8.4.2", "RFC 8881 section 18.51", "RFC 8881 section 8.4.3"),
    bad=(
        "1..1.1 A lock f 0+10 write owner=a stateid=oa reclaim -> NO_GRACE",
        """
        0..0.1 A lock f 0+10 write owner=a stateid=oa new_stateid=sa
        5.2..5.3 A session - op=EXCHANGE_ID clientid=A2 value=boot1
        7..7.1 A session - op=RECLAIM_COMPLETE
        """,
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        40..40.1 B lock f 0+10 write owner=b new_stateid=sb
        41..41.1 A session - op=SEQUENCE -> BADSESSION
        """,
    ),
    good=(
        # reclaimed
        """
        0..0.1 A lock f 0+10 write owner=a stateid=oa new_stateid=sa
        5.2..5.3 A session - op=EXCHANGE_ID clientid=A2 value=boot1
        6..6.1 A lock f 0+10 write owner=a stateid=oa2 new_stateid=sa2 reclaim
        7..7.1 A session - op=RECLAIM_COMPLETE
        """,
        # given back before
        """
        0..0.1 A lock f 0+10 write owner=a stateid=oa new_stateid=sa
        5..5.1 A unlock f 0+10 stateid=sa
        5.2..5.3 A session - op=EXCHANGE_ID clientid=A2 value=boot1
        7..7.1 A session - op=RECLAIM_COMPLETE
        """,
        # the client rebooted
        """
        0..0.1 A session - op=EXCHANGE_ID clientid=A value=boot1
        1..1.1 A lock f 0+10 write owner=a stateid=oa new_stateid=sa
        5.2..5.3 A session - op=EXCHANGE_ID clientid=A2 value=boot2
        7..7.1 A session - op=RECLAIM_COMPLETE
        """,
        # a session error alone
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 A session - op=SEQUENCE -> BADSESSION
        2..2.1 A unlock f 0+10 stateid=sa
        """,
    ),
    exercised_by=frozenset({"lock"}),
)
