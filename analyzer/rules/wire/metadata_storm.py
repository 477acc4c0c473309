"""What it checks: for at least `seconds` seconds on end a server answered at least `calls_per_second`
metadata calls (OPEN, CLOSE, LOOKUP, GETATTR, ACCESS, READDIR, SETATTR, CREATE, REMOVE, RENAME), and these
were at least `share_percent` of all calls. It names the client and the operation with most of them.

Why it matters: metadata calls move no data, yet each is a round trip, and on many servers they end in one
thread or one metadata server that all clients share. Listing or stat()ing a data set of millions of files
at the start of every epoch, on every rank, is the usual cause.

When it is wrong: the threshold of 1,000 a second is what one client can send without concurrency over a
network of 1 ms round trip; a fast server takes many times more. It is of low severity below ten times the
threshold unless it lasts for a minute. A directory walk, a build or a backup looks the same and may be
wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analyzer.analysis.clients import ClientRow, Labels, server_subject
from analyzer.analysis.metadata import MetadataSecond
from analyzer.analysis.windows import WIDTH_NS
from analyzer.analysis.words import counted, duration
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import percent, references


def check(case: Case) -> Iterator[Hit]:
    """One hit per server and run of seconds."""
    labels, options = Labels.of(case), case.options
    runs: dict[str, list[list[MetadataSecond]]] = {}
    for row in case.rows(MetadataSecond):
        if row.metadata < options["calls_per_second"]:
            continue
        if 100 * row.metadata < options["share_percent"] * row.calls:
            continue
        mine = runs.setdefault(row.endpoint, [])
        if mine and row.start_ns - mine[-1][-1].start_ns <= WIDTH_NS:
            mine[-1].append(row)
        else:
            mine.append([row])
    for endpoint, found in sorted(runs.items()):
        for rows in found:
            lasted = rows[-1].start_ns - rows[0].start_ns + WIDTH_NS
            if lasted >= options["seconds"] * WIDTH_NS:
                yield _hit(endpoint, rows, lasted, labels, options)


def _hit(
    endpoint: str,
    rows: list[MetadataSecond],
    lasted: int,
    labels: Labels,
    options: Mapping[str, int | float],
) -> Hit:
    metadata, calls = sum(r.metadata for r in rows), sum(r.calls for r in rows)
    top = max(rows, key=lambda r: r.metadata)
    rate = metadata * WIDTH_NS // lasted
    client = labels.bare(top.top_client)
    grave = rate >= 10 * options["calls_per_second"] or lasted >= 60 * WIDTH_NS
    return Hit(
        subject=server_subject(endpoint),
        message=(
            f"server {endpoint} answered {metadata:,} metadata calls in {duration(lasted)} ({rate:,} a "
            f"second, {percent(metadata, calls)} of all calls) from "
            f"{counted(max(r.clients for r in rows), 'client')}; in the busiest second "
            f"{top.top_client_calls:,} were client {client}'s and {top.top_op_calls:,} were {top.top_op}"
        ),
        evidence=references([rows[0].at_first, top.at_first, rows[-1].at_last]),
        when=(rows[0].start_ns, rows[0].start_ns + lasted),
        facts={
            "server": endpoint,
            "metadata_calls": metadata,
            "calls": calls,
            "calls_per_second": rate,
            "duration_ns": lasted,
            "top_client": top.top_client,
            "top_op": top.top_op,
        },
        severity=Severity.MEDIUM if grave else Severity.LOW,
    )


def _example(seconds: int, per_second: int, data_per_second: int = 0) -> str:
    """`seconds` seconds with GETATTRs and READs spread evenly."""
    lines = []
    for second in range(seconds):
        for i in range(per_second + data_per_second):
            at = second + i / (per_second + data_per_second)
            kind = "getattr" if i < per_second else "read"
            lines.append(f"{at:.6f}..{at + 0.0001:.6f} A {kind} f{i}")
    return "\n".join(lines)


RULE = Rule(
    id="metadata-storm",
    title="Metadata calls crowd out everything else",
    severity=Severity.MEDIUM,
    confidence=Confidence.MEDIUM,
    blame=Blame.APPLICATION,
    reads=(ClientRow, MetadataSecond),
    check=check,
    remedy=(
        "List or stat the data set once and keep the list; pack small files into shards (tar, TFRecord, "
        "Parquet); mount read-only data sets with `-o actimeo=600,nocto`; keep home directories and "
        "environments of all ranks off the shared mount."
    ),
    references=("nfs(5), options actimeo and nocto", "RFC 8881 section 10.8"),
    bad=(_example(6, 1000),),
    good=(_example(3, 1000), _example(6, 700), _example(6, 1000, 400)),
    follows_state=False,
    options={"calls_per_second": 1000, "share_percent": 80, "seconds": 5},
)
