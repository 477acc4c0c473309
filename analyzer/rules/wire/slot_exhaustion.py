"""A session had all its slots in use: further requests waited inside the client.

**What it checks.** How many requests of a session were in flight at once, against the slots that
CREATE_SESSION and the SEQUENCE replies allow; for how long all were taken, and how often a freed slot was
taken again within 1 ms.

**Why it matters.** A client whose slots are all in use queues requests inside itself. That wait is in no
latency that a capture shows, yet applications feel it. A freed slot that is taken at once means that
others were waiting for it.

**When it is wrong.** A burst that fills the table for some milliseconds is a client that uses what it was
given; the rule needs a second in all. With few refills the table was full, but nobody may have waited.
Sessions of one slot are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.sessions import SessionRow
from analyzer.analysis.words import counted, duration
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule

_MOST = 10


def check(case: Case) -> Iterator[Hit]:
    """One hit per session, the worst few."""
    labels = Labels.of(case)
    full = [row for row in case.rows(SessionRow) if row.full_ns >= case.options["full_ns"]]
    full.sort(key=lambda row: (-row.full_ns, row.first_ns))
    for row in full[:_MOST]:
        share = row.full_ns / max(row.last_ns - row.first_ns, 1)
        queued = row.refills * 2 >= row.full_periods > 1
        if queued:
            queue = (
                f"; {row.refills} of them began within 1 ms of the one before, so that requests were queued"
            )
        else:
            queue = ""
        longest = (row.longest_end_ns or 0) - (row.longest_start_ns or 0)
        yield Hit(
            subject=Subject(
                "session", row.session, f"{labels.client(row.client)} at server {row.endpoint}"
            ),
            message=f"{labels.client(row.client)} had all {row.slots} slots of its session at server "
            f"{row.endpoint} in use for {duration(row.full_ns)} ({share:.0%} of the time) in "
            f"{counted(row.full_periods, 'period')}, the longest {duration(longest)}{queue}",
            evidence=row.evidence,
            when=(row.longest_start_ns or row.first_ns, row.longest_end_ns or row.last_ns),
            leans_on=(row.client,) if row.client else None,
            severity=Severity.MEDIUM if queued or row.full_periods == 1 else Severity.LOW,
            facts={
                "slots": row.slots or 0,
                "full_ns": row.full_ns,
                "full_share": round(share, 4),
                "periods": row.full_periods,
                "refills": row.refills,
                "longest_ns": longest,
                "sessions": len(full),
            },
        )


RULE = Rule(
    id="slot-exhaustion",
    title="All session slots in use",
    severity=Severity.MEDIUM,
    confidence=Confidence.MEDIUM,
    blame=Blame.CONFIGURATION,
    reads=(ClientRow, SessionRow),
    check=check,
    remedy="Raise the smaller limit: `options nfs max_session_slots=180` on the client, on the server more "
    "threads (`nfsdctl threads N` or `threads=` in /etc/nfs.conf) and memory; "
    "if replies are slow, cure that first.",
    references=("RFC 8881, sections 2.10.6.1 and 18.46.3",),
    exercised_by=frozenset({"session"}),
    follows_state=False,
    options={"full_ns": 1_000_000_000},
    bad=(
        """
        0 A session - op=CREATE_SESSION session=s max_slots=2
        1.0..3.0 A session - session=s slot=0
        1.1..3.1 A session - session=s slot=1
        """,
    ),
    good=(
        """
        0 A session - op=CREATE_SESSION session=s max_slots=3
        1.0..3.0 A session - session=s slot=0
        1.1..3.1 A session - session=s slot=1
        """,
        # one slot's requests never run at once
        """
        0 A session - op=CREATE_SESSION session=s max_slots=2
        1.0..3.0 A session - session=s slot=0
        3.0..5.0 A session - session=s slot=1
        """,
    ),
)
