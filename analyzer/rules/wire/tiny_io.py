"""What it checks: READs or WRITEs far smaller than the server takes, each beginning where the client's
last one in the same file ended: they could have been one. Tiny means less than 1/16 of the server's limit
(attributes maxread and maxwrite; 64 KiB is assumed if they weren't seen). At least `calls` such calls,
and at least `share_percent` of that client's READs or WRITEs.

Why it matters: each call costs a round trip and a turn in the server's queue whatever its size.
Sequential I/O in pieces of 4 KiB gets a small part of the throughput that the same mount gives in pieces
of 1 MiB.

When it is wrong: a log that is synced after each line must be written in small pieces; small random
access is not counted, since nothing could have joined it. Whether calls adjoin is seen by the order of
replies, so less is found than there is, never more. Below ten times the least number of calls the
severity is low.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.small_io import IoSizes
from analyzer.analysis.words import counted, duration, size
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import percent, references

_ASSUMED_LIMIT_BYTES = 65_536
_PART = 16


def check(case: Case) -> Iterator[Hit]:
    """One hit per client, server and direction."""
    labels = Labels.of(case)
    for row in case.rows(IoSizes):
        tiny, total = _tiny(row), sum(row.sizes)
        enough = tiny.calls >= case.options["calls"]
        if enough and 100 * tiny.calls >= case.options["share_percent"] * total:
            yield _hit(row, tiny, labels, 10 * case.options["calls"])


@dataclass(frozen=True, slots=True)
class _Tiny:
    """The adjoining calls that are small for the limit."""

    calls: int
    bytes: int
    spent_ns: int
    limit_bytes: int


def _tiny(row: IoSizes) -> _Tiny:
    limit = row.limit_bytes or max(_ASSUMED_LIMIT_BYTES, row.largest_bytes)
    sizes = (limit // _PART).bit_length() - 1  # 2**k .. 2**(k+1)-1 are below the part for all k below this
    columns = (row.adjoining, row.adjoining_bytes, row.adjoining_ns)
    calls, moved, spent = (sum(column[: max(sizes, 0)]) for column in columns)
    return _Tiny(calls, moved, spent, limit)


def _hit(row: IoSizes, tiny: _Tiny, labels: Labels, many: float) -> Hit:
    client, op = labels.bare(row.client), row.kind.upper()
    told = "the server takes" if row.limit_bytes else "most servers take at least"
    fewer = max(tiny.bytes // tiny.limit_bytes, 1)
    name = f" (last on {row.path})" if row.path else ""
    return Hit(
        subject=labels.subject(row.client, row.endpoint),
        message=(
            f"client {client} sent {counted(tiny.calls, op)} of {size(tiny.bytes // tiny.calls)} on "
            f"average back to back{name} to server {row.endpoint}, "
            f"{percent(tiny.calls, sum(row.sizes))} of its {op}s, where {told} {size(tiny.limit_bytes)}: "
            f"{fewer:,} would have done; they took {duration(tiny.spent_ns)}"
        ),
        evidence=references([row.at_first, row.at_last]),
        when=(row.first_ns, row.last_ns),
        facts={
            "client": row.client,
            "server": row.endpoint,
            "op": op,
            "tiny_calls": tiny.calls,
            "calls": sum(row.sizes),
            "tiny_bytes": tiny.bytes,
            "tiny_ns": tiny.spent_ns,
            "limit_bytes": tiny.limit_bytes,
            "limit_seen": int(row.limit_bytes is not None),
        },
        severity=Severity.MEDIUM if tiny.calls >= many else Severity.LOW,
    )


def _example(calls: int, length: int, stride: int, kind: str = "write") -> str:
    """Calls of one length at offsets `stride` apart."""
    word = "unstable" if kind == "write" else f"bytes={length}"
    return "\n".join(
        f"{i / 1000:.4f}..{i / 1000 + 0.0005:.4f} A {kind} f {i * stride}+{length} {word}"
        for i in range(calls)
    )


RULE = Rule(
    id="tiny-io",
    title="Sequential I/O in tiny pieces",
    severity=Severity.LOW,
    confidence=Confidence.MEDIUM,
    blame=Blame.APPLICATION,
    reads=(ClientRow, IoSizes),
    check=check,
    remedy=(
        "Mount with `-o rsize=1048576,wsize=1048576` (see what is in force with `nfsstat -m`), don't use "
        "`sync`, `noac` or O_DIRECT with small buffers, and write through a buffer of 1 MiB or more."
    ),
    references=("nfs(5), options rsize and wsize", "RFC 8881 section 5.8.2.20"),
    bad=(_example(1200, 1024, 1024), _example(1200, 1000, 1000, "read")),
    good=(
        _example(1200, 1024, 8192),
        _example(1200, 32768, 32768),
        _example(300, 1024, 1024),
    ),
    exercised_by=frozenset({"read", "write"}),
    follows_state=False,
    options={"calls": 1000, "share_percent": 50},
)
