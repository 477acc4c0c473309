"""What it checks: for at least `stall_ns` calls were outstanding at a server, and it answered nobody. Only
calls that were answered later count, so a reply that the capture lost can't make a stall.

Why it matters: all clients hang at once. Causes are a file system that is frozen (snapshot, log recovery,
failover), a server without free threads, memory or journal space, or a network that is gone; a single slow
operation with nothing else outstanding looks the same and is of low severity below `long_ns`.

When it is wrong: a capture on one client shows only that client's calls: its own network may have been
gone. If several clients are in the capture, or it was made on the server, it is the server. RPCs that were
sent again (rule rpc-retransmission) at the same time point to the network or a restart.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels, server_subject
from analyzer.analysis.stalls import Stall
from analyzer.analysis.words import counted, duration
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import references


def check(case: Case) -> Iterator[Hit]:
    """One hit per server; it names the longest stall."""
    servers: dict[str, list[Stall]] = {}
    for row in case.rows(Stall):
        if row.end_ns - row.start_ns >= case.options["stall_ns"]:
            servers.setdefault(row.endpoint, []).append(row)
    labels = Labels.of(case)
    for endpoint, stalls in sorted(servers.items()):
        yield _hit(endpoint, stalls, labels, int(case.options["long_ns"]))


def _hit(endpoint: str, stalls: list[Stall], labels: Labels, long_ns: int) -> Hit:
    longest = max(stalls, key=lambda s: s.end_ns - s.start_ns)
    lasted = longest.end_ns - longest.start_ns
    total = sum(s.end_ns - s.start_ns for s in stalls)
    more = f"; {len(stalls)} such stalls took {duration(total)} in all" if len(stalls) > 1 else ""
    severity = Severity.HIGH if lasted >= long_ns else Severity.MEDIUM
    if max(s.outstanding for s in stalls) == 1 and lasted < long_ns:
        severity = Severity.LOW
    client = labels.bare(longest.client)
    return Hit(
        subject=server_subject(endpoint),
        message=(
            f"server {endpoint} answered nobody for {duration(lasted)} while "
            f"{counted(longest.outstanding, 'call')} waited, the longest a {longest.op} of client "
            f"{client}{more}"
        ),
        evidence=references([longest.at_call, longest.at_before, longest.at_after]),
        when=(longest.start_ns, longest.end_ns),
        leans_on=(longest.client,) if longest.client else (),
        facts={
            "server": endpoint,
            "stall_ns": lasted,
            "outstanding": longest.outstanding,
            "stalls": len(stalls),
            "total_ns": total,
            "client": longest.client,
            "op": longest.op,
        },
        severity=severity,
    )


RULE = Rule(
    id="server-stall",
    title="The server answered nobody for a while",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(ClientRow, Stall),
    check=check,
    remedy=(
        "Look at the server at that time: blocked threads (`dmesg -T | grep blocked`, `echo w > "
        "/proc/sysrq-trigger`), snapshots, failover, full journal; raise the number of threads "
        "(`nfs.conf`, `[nfsd] threads=`) if all were busy."
    ),
    references=("RFC 5531 section 4", "nfs.conf(5), section nfsd"),
    bad=(
        """
        1.0..1.1 A read f 0+4096
        1.2..4.0 A read f 0+4096
        1.3..4.1 B write g 0+4096 unstable
        """,
    ),
    good=(
        # nothing outstanding in the pause; one slow call while others are answered
        """
        1.0..1.1 A read f 0+4096
        4.0..4.1 A read f 0+4096
        4.2..7.0 B write g 0+4096 unstable
        4.9..5.0 A read f 0+4096
        5.8..5.9 A read f 0+4096
        6.7..6.8 A read f 0+4096
        """,
        # a reply that is missing; the callback is the client's to answer
        """
        1.0..1.1 A read f 0+4096
        1.2.. A read f 0+4096
        1.3..4.5 A recall f
        5.0..5.1 A read f 0+4096
        """,
    ),
    follows_state=False,
    options={"stall_ns": 1_000_000_000, "long_ns": 10_000_000_000},
)
