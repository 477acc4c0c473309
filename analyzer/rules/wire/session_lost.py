"""A client lost its session, and how long it took to come back.

**What it checks.** BADSESSION and DEADSESSION for a session that the client had used, and the way back in
phases: client id (EXCHANGE_ID), session (CREATE_SESSION), reclaim, RECLAIM_COMPLETE, first ordinary
operation. A session that the client was never seen to use is reported as low.

**Why it matters.** From the loss to the first ordinary operation every process on that mount stands
still. The phases tell whom to blame: a long way to EXCHANGE_ID is the client or the network, a long
reclaim is the amount of state or the server, a long time after it is the grace period.

**When it is wrong.** If the capture begins after the session was made and before its first use here, the
session isn't known to be the client's. An unmount that races with a restart may leave one refusal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels, server_subject
from analyzer.analysis.recovery import RecoveryRow, phases
from analyzer.analysis.words import duration, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

_MOST = 5


def check(case: Case) -> Iterator[Hit]:
    """One hit per loss; one per server where many clients lost theirs."""
    labels = Labels.of(case)
    lost: dict[tuple[str, bool], list[RecoveryRow]] = defaultdict(list)
    for row in case.rows(RecoveryRow):
        if row.status in ("BADSESSION", "DEADSESSION"):
            lost[(row.endpoint, row.known)].append(row)
    for (endpoint, known), rows in lost.items():
        rows.sort(key=lambda row: (-_lasted(row), row.detected_ns or 0))
        if not known:
            yield _strange(rows, endpoint, labels)
        elif len(rows) > _MOST:
            yield _many(rows, endpoint, case, labels)
        else:
            for row in rows:
                yield _one(row, case, labels)


def _marks(row: RecoveryRow) -> list[int]:
    marks = (row.detected_ns, row.exchange_ns, row.created_ns, row.complete_ns, row.normal_ns)
    return [when for when in marks if when is not None]


def _lasted(row: RecoveryRow) -> int:
    """From the first sign to the first ordinary operation, or to the last step that was seen."""
    end = row.normal_ns if row.normal_ns is not None else max(_marks(row))
    return max(end - min(_marks(row)), 0)


def _severity(row: RecoveryRow, case: Case) -> Severity | None:
    bad = row.reclaims_refused or row.normal_ns is None or _lasted(row) >= case.options["long_ns"]
    return Severity.HIGH if bad else None


def _one(row: RecoveryRow, case: Case, labels: Labels) -> Hit:
    lasted = _lasted(row)
    if row.normal_ns is None:
        end = "and did no ordinary operation after it in this input"
    else:
        end = f"and took {duration(lasted)} to its first ordinary operation"
    steps = "; ".join(f"{name} {duration(ns)}" for name, ns in phases(row))
    steps = f" ({steps})" if steps else ""
    reclaims = f"; {row.reclaims} reclaims" if row.reclaims else ""
    refused = f", {row.reclaims_refused} refused" if row.reclaims_refused else ""
    restarted = "; the client itself had restarted" if row.client_restarted else ""
    return Hit(
        subject=labels.subject(row.client, row.endpoint),
        message=f"{labels.client(row.client)} lost its session at server {row.endpoint} ({row.status} "
        f"{times(row.losses)}) {end}{steps}{reclaims}{refused}{restarted}",
        evidence=row.evidence,
        when=(min(_marks(row)), max(_marks(row))),
        leans_on=(row.client,),
        severity=_severity(row, case),
        complete=row.normal_ns is not None,
        facts={
            "lasted_ns": lasted,
            "losses": row.losses,
            "reclaims": row.reclaims,
            "reclaims_refused": row.reclaims_refused,
            **{f"{name.replace(' ', '_').lower()}_ns": ns for name, ns in phases(row)},
        },
    )


def _many(rows: list[RecoveryRow], endpoint: str, case: Case, labels: Labels) -> Hit:
    slowest = rows[0]
    back = sum(row.normal_ns is not None for row in rows)
    clients = len({row.client for row in rows})
    return Hit(
        subject=server_subject(endpoint),
        message=f"{clients} clients lost their session at server {endpoint}, {len(rows)} losses, {back} "
        f"of them recovered in this input; {labels.client(slowest.client)} took longest, "
        f"{duration(_lasted(slowest))}",
        evidence=slowest.evidence,
        when=(min(min(_marks(row)) for row in rows), max(max(_marks(row)) for row in rows)),
        leans_on=tuple(dict.fromkeys(row.client for row in rows)),
        severity=max(_severity(row, case) or Severity.MEDIUM for row in rows),
        complete=back == len(rows),
        facts={
            "lasted_ns": _lasted(slowest),
            "losses": sum(row.losses for row in rows),
            "clients": clients,
            "recovered": back,
        },
    )


def _strange(rows: list[RecoveryRow], endpoint: str, labels: Labels) -> Hit:
    losses = sum(row.losses for row in rows)
    who = labels.client(rows[0].client) if len(rows) == 1 else f"{len(rows)} clients"
    return Hit(
        subject=labels.subject(rows[0].client, endpoint) if len(rows) == 1 else server_subject(endpoint),
        message=f"{who} asked server {endpoint} {times(losses)} for a session that it doesn't know "
        f"({rows[0].status}) and that was never seen to work here",
        evidence=tuple(ref for row in rows for ref in row.evidence)[:8],
        when=(min(min(_marks(row)) for row in rows), max(max(_marks(row)) for row in rows)),
        leans_on=tuple(dict.fromkeys(row.client for row in rows)),
        severity=Severity.LOW,
        facts={"losses": losses, "clients": len(rows)},
    )


RULE = Rule(
    id="session-lost",
    title="Session lost",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(ClientRow, RecoveryRow),
    check=check,
    remedy="Find why the server dropped the session (restart, failover, expired lease: see the findings on "
    "those), and for a slow recovery look at the longest phase, on the client with `dmesg | grep -i nfs`.",
    references=("RFC 8881, sections 2.10.13, 8.4.2 and 15.1.11.3",),
    exercised_by=frozenset({"session"}),
    options={"long_ns": 30_000_000_000},
    bad=(
        """
        1 A read f 0+10 session=s1
        9 A session - session=s1 -> BADSESSION
        9.1 A session - op=EXCHANGE_ID clientid=c2
        9.2 A session - op=CREATE_SESSION session=s2 clientid=c2
        9.3 A open f claim=previous reclaim session=s2
        9.4 A session - op=RECLAIM_COMPLETE session=s2
        9.5 A read f 0+10 session=s2
        """,
        "1 A session - session=zz -> BADSESSION",
    ),
    good=(
        # the client itself rebooted: nobody lost anything
        """
        1 A read f 0+10 session=s1
        9.1 A session - op=EXCHANGE_ID clientid=c2 value=v2
        9.2 A session - op=CREATE_SESSION session=s2 clientid=c2
        9.5 A read f 0+10 session=s2
        """,
        "1 A read f 0+10 session=s1\n9 A session - session=s1 -> DELAY",
    ),
)
