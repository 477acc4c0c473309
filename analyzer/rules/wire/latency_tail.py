"""What it checks: the slowest 1 % of an operation's calls at one server take at least `p99_ns` and at least
`factor` times as long as the median. LOCK and LOCKT are left out (waits for locks have their own rules), so
are server-side copies, callbacks, and calls answered DELAY (the server tells the client to come back).
A call's time counts for the operation that its COMPOUND was about.

Why it matters: a training step or a checkpoint waits for its slowest call. A median of a millisecond says
nothing if one call in a hundred takes a tenth of a second: with 64 calls a step nearly every second step
meets one.

When it is wrong: times are measured where the capture was made, so on a client they hold the network too.
An operation that mixes small and large transfers, or cached and uncached reads, has such a tail without
a fault. The threshold of 100 ms is ten times a disk access and well above any network round trip within
a site; fewer than `calls` calls give no percentile worth a finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels, server_subject
from analyzer.analysis.latency import LatencyRow
from analyzer.analysis.words import duration
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import references

#: Operations that may take long for a good reason.
_EXCLUDED = frozenset({"LOCK", "LOCKT", "COPY", "CLONE", "ALLOCATE", "DEALLOCATE", "OFFLOAD_STATUS"})


def check(case: Case) -> Iterator[Hit]:
    """One hit per server and operation; it names the client with the worst tail."""
    slow: list[LatencyRow] = []
    clients: dict[tuple[str, str], LatencyRow] = {}
    for row in case.rows(LatencyRow):
        if row.op in _EXCLUDED or row.op.startswith("CB_"):
            continue
        if row.client:
            known = clients.get((row.endpoint, row.op))
            if known is None or row.p99_ns > known.p99_ns:
                clients[row.endpoint, row.op] = row
        elif row.count >= case.options["calls"] and row.p99_ns >= max(
            case.options["p99_ns"], case.options["factor"] * row.p50_ns
        ):
            slow.append(row)
    labels = Labels.of(case)
    for row in slow:
        worst = clients.get((row.endpoint, row.op), row)
        yield Hit(
            subject=server_subject(row.endpoint),
            message=(
                f"one in a hundred of {row.count:,} {row.op} calls to server {row.endpoint} took "
                f"{duration(row.p99_ns)} or longer, the median {duration(row.p50_ns)}; slowest "
                f"{duration(row.max_ns)}; worst off is {labels.client(worst.client)} "
                f"with {duration(worst.p99_ns)}"
            ),
            evidence=references([row.slowest, worst.slowest]),
            facts={
                "server": row.endpoint,
                "op": row.op,
                "calls": row.count,
                "p50_ns": row.p50_ns,
                "p99_ns": row.p99_ns,
                "max_ns": row.max_ns,
                "worst_client": worst.client,
                "worst_client_p99_ns": worst.p99_ns,
            },
        )


def _example(slow: int, longest: float, kind: str = "read", status: str = "ok") -> str:
    """1000 calls of 1 ms, `slow` of them longer."""
    lines = []
    for i in range(1000):
        lasts, answer = (longest, status) if i < slow else (0.001, "ok")
        rest = f"0+4096 write -> {answer}" if kind == "lock" else f"0+4096 -> {answer} bytes=4096"
        lines.append(f"{i}.0..{i + lasts:.3f} A {kind} f {rest}")
    return "\n".join(lines)


RULE = Rule(
    id="latency-tail",
    title="The slowest calls take far longer than usual",
    severity=Severity.MEDIUM,
    confidence=Confidence.MEDIUM,
    blame=Blame.SERVER,
    reads=(ClientRow, LatencyRow),
    check=check,
    remedy=(
        "Open the cited frames and see what the server did at that time (other clients' load, "
        "write-back, garbage collection, a failing disk: `iostat -x 1` and `nfsstat -s` there); compare "
        "with a capture on the server to rule the network out."
    ),
    references=("Dean and Barroso, The Tail at Scale, CACM 56(2), 2013",),
    bad=(_example(15, 0.25),),
    good=(
        _example(5, 0.25),
        _example(15, 0.05),
        _example(15, 0.25, "lock"),
        _example(15, 0.25, "read", "DELAY"),
    ),
    follows_state=False,
    options={"p99_ns": 100_000_000, "factor": 20, "calls": 500},
)
