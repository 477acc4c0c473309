"""A client sent an operation that the minor version it speaks doesn't have.

**What it checks.** OPEN_CONFIRM, SETCLIENTID, SETCLIENTID_CONFIRM, RENEW and RELEASE_LOCKOWNER in
NFSv4.1 or later, and operations of NFSv4.1 (SEQUENCE, EXCHANGE_ID, ...) in NFSv4.0.

**Why it matters.** A server must refuse them (NOTSUPP, or OP_ILLEGAL in 4.0), so that whatever the client
wanted didn't happen. No client of a kernel sends them: look for a user-space client, a proxy, or a test
suite. OPEN_CONFIRM in particular is no measure of latency in 4.1: it isn't there.

**When it is wrong.** In NFSv4.0 OPEN_CONFIRM and the others are ordinary and never reported. The minor
version is read from the call itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels, server_subject
from analyzer.analysis.conformance import ForbiddenRow
from analyzer.analysis.words import listed, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per server, minor version and operation."""
    labels = Labels.of(case)
    found: dict[tuple[str, str, str], list[ForbiddenRow]] = defaultdict(list)
    for row in case.rows(ForbiddenRow):
        found[(row.endpoint, row.protocol, row.op)].append(row)
    for (endpoint, protocol, op), rows in found.items():
        rows.sort(key=lambda row: (-row.count, row.first_ns))
        count = sum(row.count for row in rows)
        single = len(rows) == 1
        who = labels.client(rows[0].client) if single else f"{len(rows)} clients"
        answers = listed(sorted({answer.split(" ")[0] for row in rows for answer in row.answers}))
        yield Hit(
            subject=labels.subject(rows[0].client, endpoint) if single else server_subject(endpoint),
            message=f"{who} sent {op} {times(count)} to server {endpoint} in {_version(protocol)}, which "
            f"doesn't have it (answered {answers})",
            evidence=tuple(ref for row in rows for ref in row.evidence)[:8],
            when=(min(row.first_ns for row in rows), max(row.last_ns for row in rows)),
            facts={"count": count, "clients": len(rows), "op": op},
        )


def _version(protocol: str) -> str:
    return protocol.replace("nfs", "NFSv")


RULE = Rule(
    id="forbidden-operation",
    title="Operation that the minor version doesn't have",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, ForbiddenRow),
    check=check,
    remedy="Find the program behind that client (`ss -tnp` on its host) and update it; drop OPEN_CONFIRM "
    "from dashboards and filters for NFSv4.1 and later.",
    references=("RFC 8881, sections 17 and 18.20", "RFC 7530, section 16.18"),
    follows_state=False,
    bad=(
        "1 A open f op=OPEN_CONFIRM -> NOTSUPP",
        "1 A session - op=SEQUENCE protocol=nfs4.0 -> OP_ILLEGAL",
    ),
    good=(
        "1 A open f op=OPEN_CONFIRM protocol=nfs4.0\n2 B open f\n3 A session - op=RENEW protocol=nfs4.0",
    ),
)
