"""A client's reclaim of opens or locks was refused (NO_GRACE, RECLAIM_BAD, RECLAIM_CONFLICT).

**What it checks.** Refusals of OPEN and LOCK that try to take back state after a server restart or a
lease expiry.

**Why it matters.** The state is gone. NO_GRACE: the reclaim came after the grace period, or the server
has no record of the client. RECLAIM_BAD: the server doesn't believe that the client had the state.
RECLAIM_CONFLICT: the server gave it to somebody else. A Linux client marks the lock as lost, and the
application is told only by EIO on later I/O, if at all: its unlock then succeeds locally and never
reaches the server.

**When it is wrong.** It isn't, for the state named; whether an application relied on it, the capture
can't tell. Conformance suites provoke it.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.failures import FailureRow, failing_of
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.failing import failing_hit

_MEANING = {
    "NO_GRACE": "the reclaim came outside the grace period, its state is lost",
    "RECLAIM_BAD": "the server has no record of that state, it is lost",
    "RECLAIM_CONFLICT": "the state has been given to somebody else",
}


def check(case: Case) -> Iterator[Hit]:
    """One hit per server and status."""
    labels = Labels.of(case)
    for group in failing_of(case, "reclaim"):
        for status in group.by("status"):
            yield failing_hit(group.where(status=status), labels, _MEANING[status])


RULE = Rule(
    id="reclaim-refused",
    title="Reclaim refused, state lost",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(ClientRow, FailureRow),
    check=check,
    remedy="Restart the applications that held these files or locks and check the data they wrote since; "
    "make sure that the server keeps its client records over a restart (`systemctl status nfsdcld`, "
    "`RecoveryBackend` in ganesha).",
    references=("RFC 8881, sections 8.4.2 and 15.1.9", "RFC 7530, section 9.6.3"),
    follows_state=False,
    bad=(
        "1 A open f claim=previous reclaim -> NO_GRACE",
        "1 A lock f 0+10 write reclaim -> RECLAIM_CONFLICT",
    ),
    good=("1 A open f claim=previous reclaim\n2 A lock f 0+10 write reclaim",),
)
