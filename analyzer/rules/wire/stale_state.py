"""Clients used state that the server doesn't know (STALE_STATEID, BAD_STATEID, OLD_STATEID, ...).

**What it checks.** Refusals with STALE_STATEID, BAD_STATEID, OLD_STATEID, STALE_CLIENTID and, in
NFSv4.0, BAD_SEQID, counted per server and status.

**Why it matters.** After a restart, a lease expiry or a revocation these start recovery: a few are
normal. Many mean that clients work with state that is gone, and every one costs a retry.

**When it is wrong.** OLD_STATEID is a race between operations on one file, retried at once.
FREE_STATEID and TEST_STATEID ask just this question, so that their answers are no fault (info). Few
refusals are reported as low; the same state failing again and again is the rule `recovery-loop`.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.failures import Failing, FailureRow, failing_of
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.failing import failing_hit

_MEANING = {
    "STALE_STATEID": "the stateid is from an earlier server instance",
    "BAD_STATEID": "the server doesn't know the stateid",
    "OLD_STATEID": "a newer version of the stateid exists",
    "STALE_CLIENTID": "the server doesn't know the client id",
    "BAD_SEQID": "the owner's sequence number is out of order",
}
_ASKING = frozenset({"FREE_STATEID", "TEST_STATEID"})


def check(case: Case) -> Iterator[Hit]:
    """One hit per server and status."""
    labels = Labels.of(case)
    for group in failing_of(case, "stale"):
        for status in group.by("status"):
            part = group.where(status=status)
            yield failing_hit(
                part, labels, _MEANING[status], severity=_severity(part, case.options["many"])
            )


def _severity(group: Failing, many: float) -> Severity:
    counted = Failing(group.endpoint, tuple(row for row in group.rows if row.op not in _ASKING))
    if not counted.rows:
        return Severity.INFO
    return Severity.MEDIUM if max(counted.by("client").values()) >= many else Severity.LOW


RULE = Rule(
    id="stale-state",
    title="State that the server doesn't know",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, FailureRow),
    check=check,
    remedy="Look for a restart, a lease expiry or a revocation just before; without one, compare the "
    "client's kernel with its stable updates, and keep the capture for the client's vendor.",
    references=("RFC 8881, section 15.1.5", "RFC 7530, sections 9.1.3 and 13.1"),
    follows_state=False,
    options={"many": 10},
    bad=("1 A write f 0+10 stateid=01 -> STALE_STATEID", "1 A read f 0+10 stateid=01 -> BAD_STATEID"),
    good=("1 A write f 0+10 stateid=01\n2 A write f 0+10 -> NOSPC",),
)
