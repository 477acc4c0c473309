"""A client opens or locks files without ever having said RECLAIM_COMPLETE.

**What it checks.** Clients whose session was made in this input, that then asked for an OPEN or LOCK that
is no reclaim, and sent no RECLAIM_COMPLETE (for all file systems) up to the end.

**Why it matters.** A client must say RECLAIM_COMPLETE before its first such operation, even with nothing
to reclaim. Until it does, the server may refuse it with GRACE for ever, and after a restart may keep
everybody in grace for the full time.

**When it is wrong.** If the RECLAIM_COMPLETE was lost from the capture. A client that sends it late is not
reported here. NFSv4.0 has no such operation.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.grace import ClientStartRow
from analyzer.analysis.server import ServerRow
from analyzer.analysis.words import duration, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

_MOST = 5


def check(case: Case) -> Iterator[Hit]:
    """One hit per client, of many clients the first few."""
    labels = Labels.of(case)
    last = {row.endpoint: row.last_ns for row in case.rows(ServerRow)}
    missing = [
        r for r in case.rows(ClientStartRow) if r.first_open_ns is not None and r.complete_ns is None
    ]
    missing.sort(key=lambda row: (-row.refused, row.created_ns))
    for index, row in enumerate(missing[:_MOST]):
        watched = last[row.endpoint] - (row.first_open_ns or 0)
        others = (
            f"; so did {len(missing) - _MOST} other clients" if index == 0 and len(missing) > _MOST else ""
        )
        refused = f" and was refused with GRACE {times(row.refused)}" if row.refused else ""
        yield Hit(
            subject=labels.subject(row.client, row.endpoint),
            message=f"{labels.client(row.client)} opened or locked files at server {row.endpoint} without "
            f"RECLAIM_COMPLETE{refused}; none came in the {duration(watched)} after{others}",
            evidence=row.evidence,
            when=(row.created_ns, last[row.endpoint]),
            leans_on=(row.client,),
            severity=Severity.HIGH if row.refused else None,
            complete=watched >= case.options["settle_ns"],
            facts={"refused": row.refused, "watched_ns": watched, "clients": len(missing)},
        )


RULE = Rule(
    id="reclaim-complete-missing",
    title="RECLAIM_COMPLETE missing",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, ClientStartRow, ServerRow),
    check=check,
    remedy="Update that client: RECLAIM_COMPLETE is required after EXCHANGE_ID and CREATE_SESSION even if "
    "there is nothing to reclaim; meanwhile mount it with `vers=4.0` if it is refused for ever.",
    references=("RFC 8881, section 18.51.3",),
    exercised_by=frozenset({"session"}),
    options={"settle_ns": 5_000_000_000},
    bad=(
        """
        1 A session - op=CREATE_SESSION
        2 A open f -> GRACE
        3 A open f -> GRACE
        """,
    ),
    good=(
        """
        1 A session - op=CREATE_SESSION
        2 A session - op=RECLAIM_COMPLETE
        3 A open f
        """,
        """
        1 A session - op=CREATE_SESSION
        2 A open f claim=previous reclaim
        3 A getattr f
        """,
    ),
)
