"""Clients were refused because the server was in its grace period.

**What it checks.** Every refusal with GRACE: from the first to the last at each server, who was refused
how often, and how long each client took from its first refused call to its first success.

**Why it matters.** After a restart or a failover a server lets clients reclaim what they held and refuses
new opens and locks. Whoever needs one stands still for as long. A grace period much longer than the
lease is a setting that costs time at every failover.

**When it is wrong.** The window is at least what is said: it began before the first refusal, and ended
before the first success by up to the client's own back-off (a Linux client asks again after 0.1 s, up
to 15 s).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels, server_subject
from analyzer.analysis.grace import GraceRow
from analyzer.analysis.server import ServerRow
from analyzer.analysis.words import counted, duration, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

_WINDOW_GAP_NS = 60_000_000_000


def check(case: Case) -> Iterator[Hit]:
    """One hit per server and grace period."""
    labels = Labels.of(case)
    leases = {row.endpoint: row.lease_seconds for row in case.rows(ServerRow)}
    for rows in _windows(case.rows(GraceRow)):
        endpoint = rows[0].endpoint
        first, last = min(row.first_ns for row in rows), max(row.last_ns for row in rows)
        refused = sum(row.refused for row in rows)
        worst = max(rows, key=lambda row: (_waited(row), -row.first_ns))
        waited, lease = _waited(worst), leases.get(endpoint)
        end = (
            "until it got through"
            if worst.through_ns is not None
            else "and hadn't got through when the input ended"
        )
        known = f" (lease {lease} s)" if lease else ""
        yield Hit(
            subject=server_subject(endpoint),
            message=f"server {endpoint} refused {counted(len(rows), 'client')} {times(refused)} with "
            f"GRACE during {duration(last - first)}{known}; {labels.client(worst.client)} waited longest, "
            f"{duration(waited)} {end}",
            evidence=worst.evidence,
            when=(first, last),
            explanation=_explanation(worst),
            severity=_severity(max(waited, last - first), lease, case),
            complete=worst.through_ns is not None,
            facts={
                "window_ns": last - first,
                "refused": refused,
                "clients": len(rows),
                "longest_wait_ns": waited,
                "backoff_ns": _after(worst),
                "lease_s": lease or 0,
            },
        )


def _windows(rows: Iterator[GraceRow]) -> Iterator[list[GraceRow]]:
    at: dict[str, list[GraceRow]] = defaultdict(list)
    for row in rows:
        at[row.endpoint].append(row)
    for found in at.values():
        found.sort(key=lambda row: row.first_ns)
        window: list[GraceRow] = []
        for row in found:
            if window and row.first_ns > max(r.last_ns for r in window) + _WINDOW_GAP_NS:
                yield window
                window = []
            window.append(row)
        yield window


def _waited(row: GraceRow) -> int:
    return (row.through_ns or row.last_ns) - row.first_ns


def _after(row: GraceRow) -> int:
    """From the last refusal to the success: mostly the client's own back-off."""
    return 0 if row.through_ns is None else row.through_ns - row.last_ns


def _explanation(row: GraceRow) -> str:
    if not _after(row):
        return ""
    return f"Of its wait {duration(_after(row))} came after its last refusal: a client doubles its pauses."


def _severity(lasted_ns: int, lease_seconds: int | None, case: Case) -> Severity:
    if lasted_ns >= case.options["high_ns"]:
        return Severity.HIGH
    if lease_seconds and lasted_ns > 2 * lease_seconds * 1_000_000_000:
        return Severity.HIGH
    return Severity.MEDIUM if lasted_ns >= case.options["medium_ns"] else Severity.LOW


RULE = Rule(
    id="grace-period",
    title="Refused during the grace period",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(ClientRow, GraceRow, ServerRow),
    check=check,
    remedy="Shorten grace and lease together if failovers must be fast (`grace-time` and `lease-time` in "
    "/etc/nfs.conf [nfsd], `Grace_Period` and `Lease_Lifetime` in ganesha), and see that every client says "
    "RECLAIM_COMPLETE, so that the server can end grace early.",
    references=("RFC 8881, sections 8.4.2.1 and 15.1.9.2", "RFC 7530, section 9.6.2"),
    follows_state=False,
    options={"medium_ns": 10_000_000_000, "high_ns": 90_000_000_000},
    bad=("1 A open f -> GRACE\n2 A open f -> GRACE\n14 A open f", "1 A lock f 0+1 write -> GRACE"),
    good=("1 A open f -> DELAY\n2 A open f",),
)
