"""A client was told DELAY for the same operation on the same file again and again.

**What it checks.** Refusals with DELAY per client, operation and file: how many, and how long from the
first call to the success (or to the last refusal).

**Why it matters.** DELAY means "ask again later", and the client does, with growing pauses (a Linux client
0.1 s, doubling up to 15 s). The process waits all that time and sees no error. Mostly the server is
recalling a delegation or a layout from somebody who doesn't answer, or it waits for its own storage.

**When it is wrong.** One or two refusals while a delegation is returned are normal and not reported. The
time includes the client's own pause after the server had become ready.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.delays import DelayRow
from analyzer.analysis.words import duration, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

_MOST = 20


def check(case: Case) -> Iterator[Hit]:
    """One hit per client, operation and file, the longest few."""
    labels, options = Labels.of(case), case.options
    found = [
        row
        for row in case.rows(DelayRow)
        if row.count >= options["count"] or (row.count > 1 and _lasted(row) >= options["lasting_ns"])
    ]
    found.sort(key=lambda row: (-_lasted(row), row.first_ns))
    for row in found[:_MOST]:
        lasted = _lasted(row)
        end = "until it got through" if row.through_ns else "and didn't get through in this input"
        target = row.path or row.object
        where = f" on {target}" if target else ""
        yield Hit(
            subject=labels.subject(row.client, row.endpoint),
            message=f"{labels.client(row.client)} was told DELAY {times(row.count)} for {row.op}{where} "
            f"by server {row.endpoint}, {duration(lasted)} {end}",
            evidence=row.evidence,
            when=(row.first_ns, row.through_ns or row.last_ns),
            severity=Severity.HIGH if lasted >= options["high_ns"] else None,
            complete=row.through_ns is not None,
            facts={"count": row.count, "lasted_ns": lasted, "op": row.op, "loops": len(found)},
        )


def _lasted(row: DelayRow) -> int:
    return (row.through_ns or row.last_ns) - row.first_ns


RULE = Rule(
    id="delay-loop",
    title="Put off again and again",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(ClientRow, DelayRow),
    check=check,
    remedy="Look for a recall of the same file that isn't answered, and cure its holder; without one look "
    "at the server's storage (`iostat -x 1`), and at its delegations (`/proc/fs/nfsd/clients/*/states`).",
    references=("RFC 8881, sections 10.2 and 15.1.1.3",),
    follows_state=False,
    options={"count": 5, "lasting_ns": 5_000_000_000, "high_ns": 30_000_000_000},
    bad=(
        """
        1 A open f -> DELAY
        1.1 A open f -> DELAY
        1.3 A open f -> DELAY
        1.7 A open f -> DELAY
        2.5 A open f -> DELAY
        4.1 A open f
        """,
        "1 A open f -> DELAY\n9 A open f -> DELAY\n10 A open f",
    ),
    good=(
        "1 A open f -> DELAY\n1.1 A open f",
        """
        1 A open f -> DELAY
        2 A open g -> DELAY
        3 A open h -> DELAY
        4 A open i -> DELAY
        5 A open j -> DELAY
        """,
    ),
)
