"""What it checks: RPC calls that a client sent more than once (the same transaction id), one finding per
client and server, next to how many TCP segments were sent again in the capture.

Why it matters: over TCP an NFSv4 client must not send a call again on the same connection; it does so
after the connection broke, or when its timer (`timeo`, 60 s by default) ran out. Many of these with few
TCP retransmissions mean that the server is slow or drops connections; with many TCP retransmissions the
network loses packets. Each costs the time until the timer or the new connection.

When it is wrong: after a server restart every outstanding call is sent again once: that is right, and of
low severity below `many` calls. A capture that holds the same packets twice (two interfaces, a mirror
port) must be cleaned first, for example with `editcap -d`.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.rpc import ResentCalls
from analyzer.analysis.words import counted, duration
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import percent, references

_TCP = "tcp retransmissions"


def check(case: Case) -> Iterator[Hit]:
    """One hit per client and server."""
    labels = Labels.of(case)
    for row in case.rows(ResentCalls):
        label = labels.bare(row.client)
        tcp = case.coverage.seen.get(_TCP)
        network = "" if tcp is None else f"; the capture shows {counted(tcp, 'TCP retransmission')}"
        many = row.resent >= case.options["many"] and 100 * row.resent >= row.calls
        long = row.longest_ns >= case.options["long_ns"]
        slowest = f", a {row.op} was answered {duration(row.longest_ns)} after it was first sent"
        yield Hit(
            subject=labels.subject(row.client, row.endpoint),
            message=(
                f"client {label} sent {counted(row.resent, 'call')} to server {row.endpoint} again "
                f"({percent(row.resent, row.calls)} of {row.calls:,}; {row.unanswered} of them never "
                f"answered){slowest if row.longest_ns else ''}{network}"
            ),
            evidence=references([row.at_call, row.at_return]),
            when=(row.first_ns, row.last_ns),
            facts={
                "client": row.client,
                "server": row.endpoint,
                "calls": row.calls,
                "resent": row.resent,
                "sends": row.sends,
                "unanswered": row.unanswered,
                "longest_ns": row.longest_ns,
                "op": row.op,
                "tcp_retransmissions": -1 if tcp is None else tcp,
            },
            severity=Severity.MEDIUM if many or long else Severity.LOW,
            blame=Blame.SERVER if tcp == 0 else None,  # nothing was lost on the way
        )


RULE = Rule(
    id="rpc-retransmission",
    title="RPC calls sent again",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.NETWORK,
    reads=(ClientRow, ResentCalls),
    check=check,
    remedy=(
        "With TCP retransmissions: look for loss on the path (`ss -ti`, `nstat -az TcpRetransSegs`, "
        "switch port errors, MTU). Without: see why the server is slow or closes connections (`nfsstat "
        "-s`, its log), and don't mount with a `timeo` below 600."
    ),
    references=("RFC 8881 section 2.9.2", "RFC 7530 section 3.1.1", "nfs(5), options timeo and retrans"),
    bad=(
        "1.0..62.0 A write f 0+4096 unstable attempts=2",
        "1.0..1.2 A write f 0+4096 unstable attempts=2\n1.3..1.4 A write f 0+4096 unstable",
    ),
    good=("1.0..62.0 A write f 0+4096 unstable\n63.0..63.1 A write f 0+4096 unstable",),
    follows_state=False,
    options={"many": 10, "long_ns": 30_000_000_000},
)
