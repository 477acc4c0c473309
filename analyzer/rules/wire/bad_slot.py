"""A client used a slot that its session doesn't have (BADSLOT, BAD_HIGH_SLOT).

**What it checks.** Requests that the server refused because the slot, or the highest slot named in the
call, lies above the session's slot table.

**Why it matters.** The request wasn't executed. Clients keep within the table that CREATE_SESSION and
the SEQUENCE replies grant, so this shows a server that shrank the table under a client that hasn't
noticed, two ends that disagree after a failover, or a client bug.

**When it is wrong.** One refusal just after the server shrank its table is a harmless race; a single one
is therefore low. Conformance suites provoke it on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.failures import FailureRow, failing_of
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.failing import failing_hit


def check(case: Case) -> Iterator[Hit]:
    """One hit per server."""
    labels = Labels.of(case)
    for group in failing_of(case, "bad-slot"):
        yield failing_hit(
            group,
            labels,
            "the slot lies above the session's slot table",
            severity=Severity.LOW if group.count == 1 else None,
        )


RULE = Rule(
    id="bad-slot",
    title="Slot above the session's table",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, FailureRow),
    check=check,
    remedy="Compare the slots of the CREATE_SESSION reply with the client's `max_session_slots` "
    "(/sys/module/nfs/parameters) and update the side that ignores the other's limit.",
    references=("RFC 8881, sections 15.1.11.2, 15.1.11.1 and 18.46.3",),
    exercised_by=frozenset({"session"}),
    follows_state=False,
    bad=("1 A session - slot=9 -> BADSLOT\n2 A session - slot=9 -> BADSLOT",),
    good=("1 A session - slot=0\n2 A session - slot=1 -> DELAY",),
)
