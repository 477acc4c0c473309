"""What it checks: calls that got no reply in this input, one finding per client and server. It tells
whether the server went on answering this client, only others, or nobody. Calls in the last `tail_ns`
before the input's end don't count: the input ends in the middle of them.

Why it matters: on a hard mount the caller waits in the kernel, unkillable, until the reply comes. If the
server answers others, the fault is on the path to this client or in the server's state for it; if it
answers nobody, the server is down or cut off.

When it is wrong: a capture that lost frames misses replies that the client got; where coverage tells so
the severity is low and so is the confidence. If the client got other replies later the call was probably
given up (a process was killed, a connection was closed), so that a few of those are of low severity. A
call that was sent again and answered then is not unanswered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.rpc import UnansweredCall
from analyzer.analysis.words import counted, duration
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import may_miss_frames, references

#: On an input that lost frames the reply may be among them.
_DOUBT: dict[str, Any] = {
    "severity": Severity.LOW,
    "complete": False,
    "explanation": "Frames are missing in this input; the replies may be among them.",
}


def check(case: Case) -> Iterator[Hit]:
    """One hit per client and server."""
    end_ns = max((row.input_last_ns for row in case.rows(UnansweredCall)), default=0)
    end_ns = max(end_ns, case.coverage.last_ns or 0)
    groups: dict[tuple[str, str], list[UnansweredCall]] = {}
    for row in case.rows(UnansweredCall):
        if end_ns - row.start_ns >= case.options["tail_ns"]:
            groups.setdefault((row.endpoint, row.client), []).append(row)
    labels = Labels.of(case)
    for rows in groups.values():
        hit = _hit(rows, end_ns, labels, int(case.options["few"]))
        yield replace(hit, **_DOUBT) if may_miss_frames(case.coverage) else hit


def _hit(rows: list[UnansweredCall], end_ns: int, labels: Labels, few: int) -> Hit:
    first = min(rows, key=lambda row: row.start_ns)
    client = labels.bare(first.client)
    replies = (first.client_reply_ns, first.server_reply_ns)
    client_lives, server_lives = (at is not None and at > first.start_ns for at in replies)
    if client_lives:
        who = f"though server {first.endpoint} answered later calls of this client"
        severity = Severity.MEDIUM if len(rows) > few else Severity.LOW
    elif server_lives:
        who = f"while server {first.endpoint} answered other clients"
        severity = Severity.HIGH
    else:
        who = f"and server {first.endpoint} answered nobody any more"
        severity = Severity.HIGH
    ops = Counter(row.op for row in rows).most_common(3)
    kinds = ", ".join(f"{count} {op}" for op, count in ops)
    name = f" on {first.path}" if first.path else ""
    again = sum(row.attempts - 1 for row in rows)
    resent = f", sent again {counted(again, 'time')}" if again else ""
    return Hit(
        subject=labels.subject(first.client, first.endpoint),
        message=(
            f"{counted(len(rows), 'call')} of client {client} ({kinds}) got no reply, the first{name} "
            f"within {duration(end_ns - first.start_ns)} until the input's end{resent}, {who}"
        ),
        evidence=references(row.at_call for row in rows[:5]),
        when=(first.start_ns, end_ns),
        leans_on=(first.client,),
        facts={
            "client": first.client,
            "server": first.endpoint,
            "calls": len(rows),
            "op": first.op,
            "waited_ns": end_ns - first.start_ns,
            "sent_again": again,
            "client_answered_later": int(client_lives),
            "server_answered_later": int(server_lives),
        },
        severity=severity,
        blame=None if client_lives or server_lives else Blame.SERVER,
    )


RULE = Rule(
    id="unanswered-call",
    title="Calls without a reply",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.NETWORK,
    reads=(ClientRow, UnansweredCall),
    check=check,
    remedy=(
        "See whether the server is up and reachable from that client (`rpcinfo -T tcp SERVER 100003 4`, "
        "`ss -tn` for unsent data), and whether a firewall dropped the connection's state; capture on "
        "the server to tell lost replies from calls that it never answered."
    ),
    references=("RFC 5531 section 4", "RFC 8881 section 2.9.2"),
    bad=(
        """
        1.0..1.1 A read f 0+4096
        2.0.. A write f 0+4096 unstable
        9.0..9.1 B read g 0+4096
        """,
        """
        1.0..1.1 A read f 0+4096
        2.0.. A write f 0+4096 unstable
        9.0..9.1 A read g 0+4096
        """,
    ),
    good=(
        """
        1.0..1.1 A read f 0+4096
        8.5.. A write f 0+4096 unstable
        9.0..9.1 B read g 0+4096
        """,
        """
        2.0..8.9 A write f 0+4096 unstable attempts=2
        3.0.. A recall f
        9.0..9.1 B read g 0+4096
        """,
    ),
    options={"tail_ns": 1_000_000_000, "few": 10},
)
