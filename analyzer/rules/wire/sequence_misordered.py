"""Slot sequence numbers went wrong (SEQ_MISORDERED, SEQ_FALSE_RETRY, RETRY_UNCACHED_REP).

**What it checks.** Requests whose sequence number in their slot was neither the next one nor a true
repetition, or whose repetition the server couldn't answer from its cache.

**Why it matters.** The sequence numbers give exactly-once execution. SEQ_MISORDERED after an
interrupted request costs a probe and a retry. SEQ_FALSE_RETRY means that another request came under a
number already used: a client bug, or two clients that share one identity. After RETRY_UNCACHED_REP the
client can't know the outcome of its request.

**When it is wrong.** Signals that interrupt a waiting process make Linux clients leave a slot in doubt;
one or two of these in a long capture are harmless, so that few are reported as low.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.failures import FailureRow, failing_of
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.failing import failing_hit

_MEANING = {
    "SEQ_MISORDERED": "the slot's sequence number jumped",
    "SEQ_FALSE_RETRY": "another request came under a sequence number already used",
    "RETRY_UNCACHED_REP": "the outcome of a repeated request is unknown, since its reply wasn't cached",
}


def check(case: Case) -> Iterator[Hit]:
    """One hit per server and status."""
    labels, few = Labels.of(case), case.options["few"]
    for group in failing_of(case, "sequence"):
        for status in group.by("status"):
            part = group.where(status=status)
            severity = Severity.LOW if part.count <= few and status == "SEQ_MISORDERED" else None
            yield failing_hit(part, labels, _MEANING[status], severity=severity)


RULE = Rule(
    id="sequence-misordered",
    title="Slot sequence numbers out of order",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, FailureRow),
    check=check,
    remedy="Look for interrupted processes and lost connections at these times; for SEQ_FALSE_RETRY check "
    "that no two hosts share an identity (`cat /sys/fs/nfs/net/nfs_client/identifier`).",
    references=("RFC 8881, sections 2.10.6.1 and 15.1.11",),
    exercised_by=frozenset({"session"}),
    follows_state=False,
    options={"few": 2},
    bad=(
        "1 A session - slot=0 slot_seq=9 -> SEQ_MISORDERED",
        "1 A session - slot=0 slot_seq=2 -> SEQ_FALSE_RETRY",
    ),
    good=("1 A session - slot=0 slot_seq=1\n2 A session - slot=0 slot_seq=2",),
)
