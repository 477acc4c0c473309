"""What it checks: a client opened and closed many small files of one directory one after the other: at
least `files` different ones, at least `opens_per_second` a second on average, with less than
`small_bytes` read or written per open.

Why it matters: OPEN, CLOSE and the lookups around them cost round trips that don't depend on the file's
size. For small files they take longer than the data. The finding tells how much of the calls' time went
into OPEN and CLOSE. A data loader that opens a sample per file spends its time so.

When it is wrong: a client that holds delegations or layouts answers opens from its cache: then less is
seen than was done, never more. Data that came from the client's page cache is not seen either, so a
second epoch over large cached files looks like small ones. The threshold of 50 a second is far above what
people and daemons do; below ten times the least number of files the severity is low.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.metadata import DirectoryUse
from analyzer.analysis.words import duration, size
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import percent, references


def check(case: Case) -> Iterator[Hit]:
    """One hit per client and directory."""
    labels = Labels.of(case)
    for row in case.rows(DirectoryUse):
        if _matches(row, case.options):
            yield _hit(row, labels, case.options)


def _matches(row: DirectoryUse, options: Mapping[str, int | float]) -> bool:
    lasted_ns = max(row.last_ns - row.first_ns, 1_000_000_000)
    return (
        row.files >= options["files"]
        and 2 * row.closes >= row.opens
        and row.opens * 1_000_000_000 >= options["opens_per_second"] * lasted_ns
        and row.bytes < options["small_bytes"] * row.opens
    )


def _hit(row: DirectoryUse, labels: Labels, options: Mapping[str, int | float]) -> Hit:
    client = labels.bare(row.client)
    place = f"in {row.directory}" if row.directory else "in directories of unknown path"
    spent = row.open_close_ns + row.data_ns
    return Hit(
        subject=labels.subject(row.client, row.endpoint),
        message=(
            f"client {client} opened {row.files:,} files {place} on server {row.endpoint} {row.opens:,} "
            f"times in {duration(row.last_ns - row.first_ns)} for {size(row.bytes // row.opens)} each on "
            f"average; OPEN and CLOSE took {percent(row.open_close_ns, spent)} of the time of its calls "
            "there"
        ),
        evidence=references([row.at_first, row.at_last]),
        when=(row.first_ns, row.last_ns),
        facts={
            "client": row.client,
            "server": row.endpoint,
            "directory": row.directory or "",
            "opens": row.opens,
            "files": row.files,
            "data_bytes": row.bytes,
            "open_close_ns": row.open_close_ns,
            "data_ns": row.data_ns,
        },
        severity=Severity.MEDIUM if row.files >= 10 * options["files"] else Severity.LOW,
    )


def _example(files: int, step: float, length: int, distinct: int = 1_000_000) -> str:
    """Files that are opened, read once and closed, one every `step` seconds."""
    lines = []
    for i in range(files):
        at, name = i * step, f"data/{i % distinct}"
        lines.append(f"{at:.4f}..{at + 0.0004:.4f} A open {name}")
        lines.append(f"{at + 0.0005:.4f}..{at + 0.0009:.4f} A read {name} 0+{length} bytes={length}")
        lines.append(f"{at + 0.001:.4f}..{at + 0.0014:.4f} A close {name}")
    return "\n".join(lines)


RULE = Rule(
    id="small-file-loop",
    title="Small files opened and closed one after the other",
    severity=Severity.LOW,
    confidence=Confidence.MEDIUM,
    blame=Blame.APPLICATION,
    reads=(ClientRow, DirectoryUse),
    check=check,
    remedy=(
        "Pack the files into shards of 100 MiB and more (tar or WebDataset, TFRecord, Parquet, LMDB) and "
        "read them in order; or copy them to node-local disk once before training."
    ),
    references=("RFC 8881 section 18.16", "RFC 8881 section 18.2"),
    bad=(_example(250, 0.005, 12_000),),
    good=(
        _example(250, 0.005, 200_000),
        _example(250, 0.05, 12_000),
        _example(250, 0.005, 12_000, distinct=5),
        _example(60, 0.005, 12_000),
    ),
    exercised_by=frozenset({"open"}),
    follows_state=False,
    options={"files": 200, "opens_per_second": 50, "small_bytes": 131_072},
)
