"""The server can't reach a client with callbacks.

**What it checks.** SEQUENCE replies with CB_PATH_DOWN, CB_PATH_DOWN_SESSION or BACKCHANNEL_FAULT, and
operations refused with CB_PATH_DOWN (NFSv4.0, RENEW).

**Why it matters.** Without a callback path the server can recall no delegation or layout and can't tell a
waiting client that a lock is free. It stops granting delegations, and others that want the file wait
until the lease of the unreachable client has run out.

**When it is wrong.** For a moment after a connection broke the flag is normal: the client binds a new
connection (BIND_CONN_TO_SESSION) or makes a new session. Less than a second is therefore low.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.failures import FailureRow, failing_of
from analyzer.analysis.flags import FlagRow
from analyzer.analysis.words import duration, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.failing import failing_hit

_FLAGS = {
    "CB_PATH_DOWN": "no callback path to the client",
    "CB_PATH_DOWN_SESSION": "no connection of this session carries callbacks",
    "BACKCHANNEL_FAULT": "the session's back channel failed for good and needs a new session",
}


def check(case: Case) -> Iterator[Hit]:
    """One hit per client and flag, one per server for the status."""
    labels = Labels.of(case)
    for row in case.rows(FlagRow):
        if row.flag not in _FLAGS:
            continue
        lasted = row.last_ns - row.first_ns
        yield Hit(
            subject=labels.subject(row.client, row.endpoint),
            message=f"server {row.endpoint} told {labels.client(row.client)} {row.flag} "
            f"{times(row.count)} over {duration(lasted)}: {_FLAGS[row.flag]}",
            evidence=row.evidence,
            when=(row.first_ns, row.last_ns),
            severity=Severity.LOW if lasted < case.options["lasting_ns"] else None,
            facts={"count": row.count, "lasted_ns": lasted, "flag": row.flag},
        )
    for group in failing_of(case, "callback"):
        yield failing_hit(group, labels, "the server can't call the client back")


RULE = Rule(
    id="callback-path-down",
    title="No callback path to a client",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.NETWORK,
    reads=(ClientRow, FailureRow, FlagRow),
    check=check,
    remedy="For NFSv4.0 open the client's callback port in firewalls and NAT "
    "(`nfs.callback_tcpport=PORT`), or mount with `vers=4.1` or later, where callbacks use the client's "
    "own connection.",
    references=("RFC 8881, sections 2.10.3.1 and 18.46.3", "RFC 7530, section 13.1.7.1"),
    exercised_by=frozenset({"session"}),
    follows_state=False,
    options={"lasting_ns": 1_000_000_000},
    bad=(
        "1 A session - flags=0x1\n9 A session - flags=0x1",
        "1 A session - op=RENEW protocol=nfs4.0 -> CB_PATH_DOWN",
    ),
    good=("1 A session - flags=0\n9 A session - flags=0x100",),
)
