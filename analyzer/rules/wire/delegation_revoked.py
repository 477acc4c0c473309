"""The server took state away from a client (DELEG_REVOKED, ADMIN_REVOKED, RECALLABLE_STATE_REVOKED).

**What it checks.** Operations refused with DELEG_REVOKED or ADMIN_REVOKED, and SEQUENCE replies with the
flag RECALLABLE_STATE_REVOKED.

**Why it matters.** A delegation lets a client keep writes in its cache. When the client doesn't answer a
recall in time the server revokes the delegation, and what was cached under it may not be written any
more. ADMIN_REVOKED means that an administrator took the state.

**When it is wrong.** The refusals can't be misread. The flag may stand for a layout as well as for a
delegation.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.failures import FailureRow, failing_of
from analyzer.analysis.flags import FlagRow
from analyzer.analysis.words import times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.failing import failing_hit


def check(case: Case) -> Iterator[Hit]:
    """One hit per server for the statuses, one per client for the flag."""
    labels = Labels.of(case)
    for group in failing_of(case, "revoked"):
        yield failing_hit(group, labels, "the server had revoked the state")
    for row in case.rows(FlagRow):
        if row.flag == "RECALLABLE_STATE_REVOKED":
            yield Hit(
                subject=labels.subject(row.client, row.endpoint),
                message=f"server {row.endpoint} told {labels.client(row.client)} {times(row.count)} that "
                "it had revoked delegations or layouts (RECALLABLE_STATE_REVOKED)",
                evidence=row.evidence,
                when=(row.first_ns, row.last_ns),
                facts={"count": row.count},
            )


RULE = Rule(
    id="delegation-revoked",
    title="State revoked by the server",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, FailureRow, FlagRow),
    check=check,
    remedy="Find why the client didn't answer the recall (callback path, overload, frozen client); if it "
    "can't be helped, turn delegations off on the server (`echo 0 > /proc/sys/fs/leases-enable`, "
    "`Delegations = false;` in ganesha).",
    references=("RFC 8881, sections 10.2.1, 15.1.5 and 18.46.3",),
    follows_state=False,
    bad=("1 A write f 0+10 stateid=01 -> DELEG_REVOKED", "1 A session - flags=0x40"),
    good=("1 A write f 0+10 stateid=01\n2 A session - flags=0",),
)
