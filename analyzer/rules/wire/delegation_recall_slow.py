"""A client returned a recalled delegation late or never, and whom that delayed.

**What it checks.** Every CB_RECALL, from its first call to the reply of the DELEGRETURN, and the operations
of other clients that were told DELAY on that file meanwhile. A recall that is sent again (same delegation,
on a new connection too) is one recall.

**Why it matters.** Until the delegation is back, nobody else gets the file: they are told DELAY, or wait.
A client that doesn't answer holds them up for its whole lease, and then loses the delegation together
with what it had cached under it.

**When it is wrong.** A client with much dirty data has to write it first; the time is then that of the
storage. If the DELEGRETURN was lost from the capture it looks missing. A client that answers that it has
no such delegation returned it already and isn't blamed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.delays import DelayRow
from analyzer.analysis.delegations import RecallRow
from analyzer.analysis.server import ServerRow
from analyzer.analysis.words import counted, duration, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

_MOST = 20
_BEFORE_NS = 1_000_000_000  # the DELAY that caused a recall may be answered before the recall goes out
_HAS_NONE = frozenset({"BAD_STATEID", "BADHANDLE", "STALE"})


def check(case: Case) -> Iterator[Hit]:
    """One hit per recall, the slowest few."""
    labels = Labels.of(case)
    last = {row.endpoint: row.last_ns for row in case.rows(ServerRow)}
    slow: list[tuple[int, RecallRow]] = []
    for row in case.rows(RecallRow):
        if row.returned_ns is None and row.answer in _HAS_NONE:
            continue
        end = row.returned_ns if row.returned_ns is not None else last.get(row.endpoint, row.last_ns)
        if end - row.recalled_ns >= case.options["slow_ns"]:
            slow.append((end - row.recalled_ns, row))
    slow.sort(key=lambda item: (-item[0], item[1].recalled_ns))
    delays = _delays_by_file(case) if slow else {}
    for took, row in slow[:_MOST]:
        yield _hit(row, took, _delayed(row, took, delays), case.options["high_ns"], labels)


def _delays_by_file(case: Case) -> dict[tuple[str, str], list[DelayRow]]:
    found: dict[tuple[str, str], list[DelayRow]] = defaultdict(list)
    for row in case.rows(DelayRow):
        for name in {row.object, row.path} - {None}:
            found[(row.endpoint, str(name))].append(row)
    return found


def _delayed(row: RecallRow, took: int, delays: dict[tuple[str, str], list[DelayRow]]) -> list[DelayRow]:
    """What others were refused on that file while the recall was open."""
    begin, end = row.recalled_ns - _BEFORE_NS, row.recalled_ns + took
    names = {name for name in (row.object, row.path) if name is not None}
    found = {delay: None for name in sorted(names) for delay in delays.get((row.endpoint, name), [])}
    return [d for d in found if d.client != row.client and d.first_ns <= end and d.last_ns >= begin]


def _hit(row: RecallRow, took: int, delayed: list[DelayRow], high_ns: float, labels: Labels) -> Hit:
    target = row.path or row.object or "a file"
    kind = f"{row.delegation} delegation" if row.delegation else "delegation"
    missing = row.returned_ns is None
    if missing:
        deed = f"had not returned its {kind} on {target} {duration(took)} after the recall"
    else:
        deed = f"took {duration(took)} to return its {kind} on {target} after the recall"
    if row.answered_ns is None:
        deed += f", which it never answered (sent {times(row.sent)})"
    cost = ""
    refusals = sum(delay.count for delay in delayed)
    longest = max(((d.through_ns or d.last_ns) - d.first_ns for d in delayed), default=0)
    if delayed:
        clients = len({delay.client for delay in delayed})
        others = counted(clients, "other client")
        cost = f"; {others} got DELAY {times(refusals)} meanwhile, for {duration(longest)}"
    return Hit(
        subject=labels.subject(row.client, row.endpoint),
        message=f"{labels.client(row.client)} {deed} by server {row.endpoint}{cost}",
        evidence=(*row.evidence, *[ref for delay in delayed for ref in delay.evidence][:8]),
        when=(row.recalled_ns, row.recalled_ns + took),
        leans_on=(row.client,) if row.client else None,
        severity=Severity.HIGH if missing or took >= high_ns else None,
        complete=not missing,
        facts={
            "took_ns": took,
            "returned": "no" if missing else "yes",
            "sent": row.sent,
            "delayed": refusals,
            "delayed_ns": longest,
        },
    )


RULE = Rule(
    id="delegation-recall-slow",
    title="Delegation returned late",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, DelayRow, RecallRow, ServerRow),
    check=check,
    remedy="Look at that client (frozen, overloaded, callback port closed, much dirty data); where files "
    "are shared between hosts, turn delegations off on the server (`echo 0 > /proc/sys/fs/leases-enable`).",
    references=("RFC 8881, sections 10.2, 10.4.6 and 20.2",),
    exercised_by=frozenset({"recall"}),
    options={"slow_ns": 1_000_000_000, "high_ns": 10_000_000_000},
    bad=(
        """
        1 A open f delegation=write delegation_stateid=d1
        2 B open f -> DELAY
        2.0..2.1 A recall f stateid=d1
        4 A delegation f stateid=d1
        4.5 B open f
        """,
        """
        1 A open f delegation=read delegation_stateid=d1
        2.. A recall f stateid=d1
        12 B open f -> DELAY
        """,
    ),
    good=(
        """
        1 A open f delegation=write delegation_stateid=d1
        2 B open f -> DELAY
        2.0..2.001 A recall f stateid=d1
        2.002 A delegation f stateid=d1
        2.1 B open f
        """,
        # it has no such delegation any more
        """
        1 A delegation f stateid=d1
        2 A recall f stateid=d1 -> BAD_STATEID
        9 B open f
        """,
    ),
)
