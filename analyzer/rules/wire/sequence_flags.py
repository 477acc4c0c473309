"""What servers told clients in the status flags of SEQUENCE.

**What it checks.** Every SEQUENCE reply with a status flag, per client and flag. Flags about the callback
path are judged by `callback-path-down`, revoked delegations and layouts by `delegation-revoked`.

**Why it matters.** The flags are how a server says that a lease expired, that state was revoked, that it
restarted and wants reclaims, or that a file system moved. A client has to act on each; a flag that stays
shows a client that doesn't.

**When it is wrong.** A flag is repeated in each reply until the client has acted, so that the count says
how much traffic there was meanwhile and not how often the thing happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels, server_subject
from analyzer.analysis.flags import FlagRow
from analyzer.analysis.words import duration, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule

_ELSEWHERE = frozenset(
    {"CB_PATH_DOWN", "CB_PATH_DOWN_SESSION", "BACKCHANNEL_FAULT", "RECALLABLE_STATE_REVOKED"}
)
_MOST_CLIENTS = 5

#: flag → severity, meaning, what a Linux client does about it
_FLAGS: dict[str, tuple[Severity, str, str]] = {
    "CB_GSS_CONTEXTS_EXPIRING": (
        Severity.LOW,
        "the security contexts for callbacks are about to expire",
        "A Linux client ignores it.",
    ),
    "CB_GSS_CONTEXTS_EXPIRED": (
        Severity.MEDIUM,
        "the security contexts for callbacks have expired, so that nothing can be recalled",
        "A Linux client ignores it.",
    ),
    "EXPIRED_ALL_STATE_REVOKED": (
        Severity.HIGH,
        "the lease expired and all its opens, locks and delegations were revoked",
        "A Linux client recovers all state without grace: locks that others took meanwhile are lost.",
    ),
    "EXPIRED_SOME_STATE_REVOKED": (
        Severity.HIGH,
        "the lease expired and some of its state was revoked",
        "A Linux client tests each stateid (TEST_STATEID) and recovers what it can.",
    ),
    "ADMIN_STATE_REVOKED": (
        Severity.HIGH,
        "an administrator revoked some of its state",
        "A Linux client tests each stateid (TEST_STATEID) and recovers what it can.",
    ),
    "LEASE_MOVED": (
        Severity.MEDIUM,
        "a file system it uses has moved to another server",
        "A Linux client asks for the new locations and goes there.",
    ),
    "RESTART_RECLAIM_NEEDED": (
        Severity.MEDIUM,
        "the server restarted and waits for its reclaims",
        "A Linux client reclaims its opens and locks as after a reboot of the server.",
    ),
    "DEVID_CHANGED": (Severity.INFO, "a pNFS device changed", "A Linux client ignores it."),
    "DEVID_DELETED": (Severity.INFO, "a pNFS device was removed", "A Linux client ignores it."),
}


def check(case: Case) -> Iterator[Hit]:
    """One hit per client and flag; one per server and flag where many clients were told."""
    labels = Labels.of(case)
    told: dict[tuple[str, str], list[FlagRow]] = defaultdict(list)
    for row in case.rows(FlagRow):
        if row.flag not in _ELSEWHERE:
            told[(row.endpoint, row.flag)].append(row)
    for (endpoint, _), rows in told.items():
        if len(rows) > _MOST_CLIENTS:
            rows.sort(key=lambda row: -row.count)
            yield _hit(
                rows,
                f"{len(rows)} clients (most often {labels.bare(rows[0].client or '')})",
                server_subject(endpoint),
            )
            continue
        for row in rows:
            yield _hit([row], labels.client(row.client), labels.subject(row.client, endpoint))


def _hit(rows: list[FlagRow], who: str, subject: Subject) -> Hit:
    severity, meaning, action = _FLAGS.get(
        rows[0].flag, (Severity.LOW, "a flag that RFC 8881 doesn't define", "")
    )
    count = sum(row.count for row in rows)
    first, last = min(row.first_ns for row in rows), max(row.last_ns for row in rows)
    return Hit(
        subject=subject,
        message=f"server {rows[0].endpoint} told {who} {rows[0].flag} {times(count)} over "
        f"{duration(last - first)}: {meaning}",
        evidence=tuple(ref for row in rows for ref in row.evidence)[:8],
        when=(first, last),
        explanation=action,
        severity=severity,
        facts={"count": count, "clients": len(rows), "lasted_ns": last - first, "flag": rows[0].flag},
    )


RULE = Rule(
    id="sequence-flags",
    title="Server raised a status flag",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, FlagRow),
    check=check,
    remedy="Follow the flag's meaning: for a restart or an expired lease look at the findings on those; a "
    "flag that stays up for minutes means that the client doesn't act on it (`dmesg | grep -i nfs` there).",
    references=("RFC 8881, section 18.46.3",),
    exercised_by=frozenset({"session"}),
    follows_state=False,
    bad=("1 A session - flags=0x100\n2 A session - flags=0x100", "1 A session - flags=0x8"),
    good=("1 A session - flags=0\n2 A session - op=EXCHANGE_ID flags=0x20000",),
)
