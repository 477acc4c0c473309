"""A client fails again and again on the same state: its recovery doesn't help.

**What it checks.** BADSESSION, DEADSESSION and STALE_CLIENTID per client, and BAD_STATEID, STALE_STATEID,
OLD_STATEID, EXPIRED, ADMIN_REVOKED and DELEG_REVOKED per client and file, also where the status sits
inside the result of a TEST_STATEID that was itself ok. It counts rounds: requests in flight together fail
together, and that is one round; the next needs a call that was sent knowing of the failure and at least
0.1 s later.

**Why it matters.** Recovery takes one round. A client that needs five is stuck: its processes hang on that
file, or on the whole mount, and it loads the server with nothing but recovery.

**When it is wrong.** An application that goes on using a file whose lock was lost may cause repeated
failures that are its own. Conformance suites fail on purpose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.loops import LoopRow
from analyzer.analysis.words import counted, duration, listed
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per client and status: the worst file, and how many there are."""
    labels = Labels.of(case)
    found: dict[tuple[str, str, str], list[LoopRow]] = defaultdict(list)
    for row in case.rows(LoopRow):
        if row.rounds >= case.options["rounds"]:
            found[(row.endpoint, row.client, row.status)].append(row)
    for (endpoint, client, status), rows in found.items():
        worst = max(rows, key=lambda row: (row.rounds, row.count))
        lasted = worst.last_ns - worst.first_ns
        rate = worst.count / (lasted / 1e9)
        where = f" on {worst.path or worst.target}" if worst.target else ""
        more = f" ({counted(len(rows), 'file')} in all)" if len(rows) > 1 else ""
        inside = ", inside results that were ok themselves" if worst.inside == worst.count else ""
        yield Hit(
            subject=labels.subject(client, endpoint),
            message=f"{labels.client(client)} failed {worst.count} times with {status}{where} at server "
            f"{endpoint} in {worst.rounds} rounds over {duration(lasted)} ({rate:.1f} a second, "
            f"{listed(worst.ops)}{inside}){more}",
            evidence=worst.evidence,
            when=(worst.first_ns, worst.last_ns),
            leans_on=(client,),
            facts={
                "count": worst.count,
                "rounds": worst.rounds,
                "lasted_ns": lasted,
                "rate_per_s": round(rate, 3),
                "inside": worst.inside,
                "targets": len(rows),
                "status": status,
            },
        )


RULE = Rule(
    id="recovery-loop",
    title="Recovery that goes round in circles",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(ClientRow, LoopRow),
    check=check,
    remedy="Stop the processes on that mount and mount it again (`umount -f`, then `mount`); update the "
    "client's kernel, and keep the capture for its vendor.",
    references=("RFC 8881, sections 8.4 and 18.48", "RFC 7530, section 9.6"),
    options={"rounds": 5},
    bad=(
        """
        1 A stateid - stateid=01 results=BAD_STATEID
        2 A stateid - stateid=01 results=BAD_STATEID
        3 A stateid - stateid=01 results=BAD_STATEID
        4 A stateid - stateid=01 results=BAD_STATEID
        5 A stateid - stateid=01 results=BAD_STATEID
        """,
        """
        1 A write f 0+10 -> BAD_STATEID
        2 A write f 0+10 -> BAD_STATEID
        3 A write f 0+10 -> BAD_STATEID
        4 A write f 0+10 -> BAD_STATEID
        5 A write f 0+10 -> BAD_STATEID
        """,
    ),
    good=(
        # one round: all were in flight when the state was lost
        """
        1.00..1.10 A write f 0+10 -> BAD_STATEID
        1.01..1.11 A write f 10+10 -> BAD_STATEID
        1.02..1.12 A write f 20+10 -> BAD_STATEID
        1.03..1.13 A write f 30+10 -> BAD_STATEID
        1.04..1.14 A write f 40+10 -> BAD_STATEID
        2 A write f 0+10
        """,
        # different files, one round each
        """
        1 A stateid - stateid=01 results=BAD_STATEID,ok
        2 A stateid - stateid=02 results=BAD_STATEID
        3 A stateid - stateid=03 results=BAD_STATEID
        4 A stateid - stateid=04 results=BAD_STATEID
        5 A stateid - stateid=05 results=BAD_STATEID
        """,
    ),
)
