"""Requests that the server refused for their shape (OP_NOT_IN_SESSION, BADXDR, TOO_MANY_OPS, ...).

**What it checks.** COMPOUNDs refused because SEQUENCE was missing or misplaced, an operation must stand
alone, the arguments couldn't be decoded, the operation isn't known, or the session's limits on size and
number of operations were exceeded.

**Why it matters.** None of these depends on load or luck: client and server disagree on the protocol or
on the limits of the session, and the same request fails every time.

**When it is wrong.** OP_ILLEGAL may be a client that probes for a newer operation; it asks once and
remembers. Conformance suites provoke all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.failures import FailureRow, failing_of
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.failing import failing_hit

_MEANING = {
    "OP_NOT_IN_SESSION": "the COMPOUND began without SEQUENCE",
    "SEQUENCE_POS": "SEQUENCE stood elsewhere than at the beginning",
    "NOT_ONLY_OP": "an operation that must stand alone had company",
    "BADXDR": "the server couldn't decode the arguments",
    "OP_ILLEGAL": "the server doesn't know the operation",
    "UNSAFE_COMPOUND": "the server can't execute this sequence of operations safely",
    "TOO_MANY_OPS": "the session allows fewer operations in a COMPOUND",
    "REQ_TOO_BIG": "the session allows smaller requests only",
    "REP_TOO_BIG": "the reply would have been larger than the session allows",
    "REP_TOO_BIG_TO_CACHE": "the reply would have been too large to cache",
}
_LIMITS = frozenset({"TOO_MANY_OPS", "REQ_TOO_BIG", "REP_TOO_BIG", "REP_TOO_BIG_TO_CACHE"})


def check(case: Case) -> Iterator[Hit]:
    """One hit per server and status."""
    labels = Labels.of(case)
    for group in failing_of(case, "malformed"):
        for status in group.by("status"):
            remedy = _LIMITS_REMEDY if status in _LIMITS else None
            yield failing_hit(group.where(status=status), labels, _MEANING[status], remedy=remedy)


_LIMITS_REMEDY = (
    "Compare the limits in the CREATE_SESSION reply (ca_maxrequestsize, ca_maxresponsesize, "
    "ca_maxoperations) with the mount's `rsize` and `wsize`, and raise the server's or lower the client's."
)

RULE = Rule(
    id="malformed-compound",
    title="Request refused for its shape",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, FailureRow),
    check=check,
    remedy="Update the client or the server that breaks the protocol; give its vendor the cited frames.",
    references=("RFC 8881, sections 15.1.1, 15.1.3, 15.1.11 and 16.2",),
    follows_state=False,
    bad=("1 A getattr f -> OP_NOT_IN_SESSION", "1 A read f 0+10 -> TOO_MANY_OPS"),
    good=("1 A getattr f -> STALE\n2 A session -",),
)
