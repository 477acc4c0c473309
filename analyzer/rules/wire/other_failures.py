"""Failures that no other rule explains, by status and operation.

**What it checks.** Every status that isn't the matter of a rule of its own, leaving out what is everyday:
a name that doesn't exist, a file that exists already, a permission that is missing, an operation that the
server doesn't offer and the client asks for once.

**Why it matters.** Nothing that the server refused should go unseen. Most of these are an application's own
affair; a large number of one kind is worth a look.

**When it is wrong.** It makes no claim about a cause. Conformance suites fail on purpose, so that they fill
this list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.failures import TOPICS, Failing, FailureRow
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.failing import failing_hit

_EXPLAINED = frozenset().union(*TOPICS.values())
#: Ordinary answers whatever the operation.
_ORDINARY = frozenset(
    {
        *("NOENT", "EXIST", "ACCESS", "PERM", "NOTEMPTY", "NOTDIR", "ISDIR", "SYMLINK", "XDEV", "NOXATTR"),
        *("NOTSUPP", "WRONGSEC", "MINOR_VERS_MISMATCH", "COMPLETE_ALREADY", "BACK_CHAN_BUSY"),
        *("UNKNOWN_LAYOUTTYPE", "LAYOUTUNAVAILABLE", "LAYOUTTRYLATER", "DIRDELEG_UNAVAIL"),
        *("CONN_NOT_BOUND_TO_SESSION", "RECALLCONFLICT"),
    }
)
#: Ordinary answers of one operation.
_ORDINARY_OF = frozenset(
    {("VERIFY", "NOT_SAME"), ("NVERIFY", "SAME"), ("FREE_STATEID", "LOCKS_HELD"), ("READLINK", "INVAL")}
)


def check(case: Case) -> Iterator[Hit]:
    """One hit per server and status."""
    labels = Labels.of(case)
    found: dict[tuple[str, str, bool], list[FailureRow]] = defaultdict(list)
    for row in case.rows(FailureRow):
        ordinary = row.status in _ORDINARY or (row.op, row.status) in _ORDINARY_OF
        # what a client answers to a callback is its own matter, whatever the status
        if not ordinary and (row.callback or row.status not in _EXPLAINED):
            found[(row.endpoint, row.status, row.callback)].append(row)
    for (endpoint, _, callback), rows in found.items():
        group = Failing(endpoint, tuple(sorted(rows, key=lambda row: (-row.count, row.first_ns, row.op))))
        many = group.count >= case.options["many"]
        meaning = "a callback that the client refused" if callback else "no other rule explains it"
        yield failing_hit(group, labels, meaning, severity=Severity.LOW if many else None)


RULE = Rule(
    id="other-failures",
    title="Other failures",
    severity=Severity.INFO,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(ClientRow, FailureRow),
    check=check,
    remedy="Look the status up in the RFC's table of errors for that operation, and at the cited frames "
    "for what was asked.",
    references=("RFC 8881, section 15", "RFC 7530, section 13"),
    follows_state=False,
    options={"many": 100},
    bad=("1 A open f -> INVAL", "1 A unlock f 0+10 -> LOCKS_HELD"),
    good=("1 A lookup f -> NOENT\n2 A create f -> EXIST\n3 A lock f 0+10 write -> DENIED\n4 A open f",),
)
