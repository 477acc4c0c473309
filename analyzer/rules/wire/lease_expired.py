"""A client was told that its lease had expired (EXPIRED).

**What it checks.** Operations refused with EXPIRED, with the client's longest silence before its last
refusal where it was longer than a second.

**Why it matters.** When a lease runs out the server may give the client's opens and locks to others. An
application that still believes in its lock can then write into data that somebody else holds. Recovery
takes the state back only if nobody took it meanwhile.

**When it is wrong.** The refusal itself can't be misread. The silence is only as long as it looks if the
capture saw all connections of the client.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.failures import FailureRow, failing_of
from analyzer.analysis.silence import SilenceRow
from analyzer.analysis.words import duration
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.failing import failing_hit


def check(case: Case) -> Iterator[Hit]:
    """One hit per server; the silence is that of the client that was refused most often."""
    labels = Labels.of(case)
    for group in failing_of(case, "expired"):
        client = next(iter(group.by("client")))
        silent_ns = _silence_before(case, group.endpoint, client, group.where(client=client).when[1])
        meaning = "its lease had run out"
        if silent_ns:
            meaning += f", its longest silence before was {duration(silent_ns)}"
        yield failing_hit(group, labels, meaning, facts={"silent_ns": silent_ns})


def _silence_before(case: Case, endpoint: str, client: str | None, when_ns: int) -> int:
    silences = (
        row.end_ns - row.start_ns
        for row in case.rows(SilenceRow)
        if (row.endpoint, row.client) == (endpoint, client) and row.end_ns <= when_ns
    )
    return max(silences, default=0)


RULE = Rule(
    id="lease-expired",
    title="Lease expired",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, FailureRow, SilenceRow),
    check=check,
    remedy="Find what kept the client silent (frozen guest, network cut, overload) and restart "
    "applications that held locks at that time; if pauses are normal there, raise the server's lease "
    "(`echo 90 > /proc/fs/nfsd/nfsv4leasetime` before nfsd starts, `Lease_Lifetime` in ganesha).",
    references=("RFC 8881, sections 8.3 and 15.1.5.3", "RFC 7530, section 9.5"),
    follows_state=False,
    bad=("1 A read f 0+10 stateid=01\n40 A read f 0+10 stateid=01 -> EXPIRED",),
    good=("1 A read f 0+10 stateid=01\n40 A read f 0+10 stateid=01",),
)
