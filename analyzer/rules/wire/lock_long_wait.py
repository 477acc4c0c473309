"""What it checks: how long a client waited for a byte-range lock, from its first LOCK that was DENIED to
the grant, and what the wait was made of: the hold of the client that the DENIED named, the holds of
others that got the lock meanwhile, and the waiter's own back-off (the lock was free, and the client had
not asked again).

Why it matters: the application stands still all that time, and the remedy differs. A long hold is the
holder's doing. A long back-off is the client polling (Linux: 1 s, doubling to 30 s) at a server that
doesn't tell waiters when a lock is free.

When it is wrong: if the capture lacks the holder's unlock, everything up to the grant counts as hold, and
the message says so. An application that tries with F_SETLK instead of waiting with F_SETLKW asks when it
likes; tries less than 10 s apart count as one wait. Waiting may be what the application wants.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import (
    NS,
    file_name,
    file_subject,
    holder_words,
    longest_by,
    range_words,
    seconds,
)
from analyzer.analysis.locks import LockWait
from analyzer.analysis.words import counted, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

#: A shorter back-off is the network's, and not worth a word.
_TOLD_NS = NS // 200


def check(case: Case) -> Iterator[Hit]:
    """One hit per file, waiter and holder; it tells of the longest wait."""
    labels = Labels.of(case)
    least = case.options["wait_ns"]
    for wait, count, total in longest_by(w for w in case.rows(LockWait) if _lasted(w) >= least):
        yield _hit(wait, count, total, labels)


def _lasted(wait: LockWait) -> int:
    """How long it waited; where it gave up, at most."""
    return wait.wait_ns if wait.gave_up_by_ns is None else wait.gave_up_by_ns - wait.asked_ns


def _hit(wait: LockWait, count: int, total: int, labels: Labels) -> Hit:
    waiter = labels.client(wait.client)
    name = file_name(wait.path, wait.object)
    lock = f"a {wait.lock_type} lock on {name} ({range_words(wait.offset, wait.length)})"
    end = "" if wait.granted_ns is not None else " and never got it in this capture"
    waited = f"waited {seconds(wait.wait_ns)} for"
    if wait.gave_up_by_ns is not None:
        waited, end = "gave up waiting for", f" within {seconds(_lasted(wait))}"
    more = f"; it waited {times(count)}, {seconds(total)} in all" if count > 1 else ""
    holder = holder_words(wait, labels.client(wait.holder_client))
    return Hit(
        subject=file_subject(wait.endpoint, wait.object, wait.path),
        message=f"{waiter} {waited} {lock}{end}: {_parts(wait, holder)}{more}",
        evidence=wait.evidence,
        when=(wait.asked_ns, wait.last_ns if wait.granted_ns is None else wait.granted_ns),
        leans_on=tuple(c for c in (wait.client, wait.holder_client) if c),
        explanation=_explanation(wait),
        facts={
            "waiter": wait.client,
            "holder": wait.holder_client or "",
            "holder_clientid": wait.holder_clientid or "",
            "wait_ns": _lasted(wait),
            "hold_ns": wait.hold_ns,
            "queue_ns": wait.queue_ns,
            "backoff_ns": wait.backoff_ns,
            "denials": wait.denials,
            "notified": int(wait.notified),
            "granted": int(wait.granted_ns is not None),
            "gave_up": int(wait.gave_up_by_ns is not None),
            "waits": count,
            "total_wait_ns": total,
        },
        severity=_severity(_lasted(wait)),
        remedy=None if wait.backoff_ns <= wait.hold_ns + wait.queue_ns else POLL_REMEDY,
        complete=wait.granted_ns is not None and wait.released_ns is not None,
    )


def _parts(wait: LockWait, holder: str) -> str:
    if wait.gave_up_by_ns is not None:
        return f"behind {holder}"
    parts = [f"{seconds(wait.hold_ns)} behind {holder}"]
    if wait.queue_ns:
        parts.append(f"{seconds(wait.queue_ns)} behind others that got the lock meanwhile")
    if wait.released_ns is None:
        parts[0] += " (its release was not seen)"
        return ", ".join(parts)
    if wait.granted_ns is not None and wait.backoff_ns >= _TOLD_NS:
        parts.append(f"{seconds(wait.backoff_ns)} of its own back-off after the release")
    return ", ".join(parts)


def _explanation(wait: LockWait) -> str:
    told = "was told by CB_NOTIFY_LOCK" if wait.notified else "was not told that the lock was free"
    gaps = ", ".join(seconds(g) for g in wait.gaps_ns[:8])
    asked = f" It asked again after {gaps}." if gaps else ""
    if not wait.blocking:
        asked += " It tried without waiting (F_SETLK)."
    if wait.gave_up_by_ns is not None:
        asked += (
            " It was told that the lock was free and did not ask: a signal or a time-out ended its wait."
        )
    return f"{counted(wait.denials, 'LOCK call was', 'LOCK calls were')} DENIED; the waiter {told}.{asked}"


def _severity(wait_ns: int) -> Severity:
    if wait_ns >= 30 * NS:
        return Severity.HIGH
    return Severity.MEDIUM if wait_ns >= 3 * NS else Severity.LOW


POLL_REMEDY = (
    "Most of the wait is the client's own polling: use a server that notifies waiters (CB_NOTIFY_LOCK; "
    "Linux knfsd does with `vers=4.1` or later), or let the application retry with F_SETLK at its own "
    "pace."
)
RULE = Rule(
    id="lock-long-wait",
    title="A client waited long for a byte-range lock",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(LockWait, ClientRow),
    check=check,
    remedy=(
        "Look at what the holder does while it holds the lock (on it: `cat /proc/locks`, `lslocks`): hold "
        "it for less time, or lock smaller ranges. `--set lock-long-wait.wait_ns=...` changes the "
        "threshold."
    ),
    references=("RFC 8881 section 18.10.4", "RFC 8881 section 20.11", "fcntl(2), F_SETLKW"),
    bad=(
        """
        0.023..0.024 A lock f 0+10 write owner=a new_stateid=sa
        0.025..0.026 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        1.029..1.030 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        5.526..5.527 A unlock f 0+10 stateid=sa
        7.033..7.034 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
        # never granted
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        9..9.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        """,
    ),
    good=(
        """
        0.023..0.024 A lock f 0+10 write owner=a new_stateid=sa
        0.025..0.026 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        0.5..0.6 A unlock f 0+10 stateid=sa
        0.61..0.62 B notify_lock f
        0.63..0.64 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
        # a try that was not repeated until much later
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write owner=b -> DENIED holder_clientid=A holder_owner=a
        2..2.1 A unlock f 0+10 stateid=sa
        99..99.1 B lock f 0+10 write owner=b new_stateid=sb
        """,
    ),
    exercised_by=frozenset({"lock"}),
    options={"wait_ns": NS},
)
