"""What it checks: LOCK calls that the server answered with NFS4ERR_DEADLOCK.

Why it matters: the server found that the wait would close a circle of lock owners who wait for each
other, and refused it; the application gets EDEADLK. Programs seldom handle that error: many take it for a
failed write or give up. The lock order of the programs involved is wrong, whether or not this call
failed.

When it is wrong: servers look at lock owners. If a client uses one owner for several threads, the server
may see a circle where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import file_name, file_subject, range_words
from analyzer.analysis.locks import LockRefusal
from analyzer.analysis.words import times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per client and file."""
    labels = Labels.of(case)
    groups: dict[tuple[str, str, str], list[LockRefusal]] = {}
    for row in case.rows(LockRefusal):
        if row.reason == "deadlock":
            groups.setdefault((row.endpoint, row.client, row.object), []).append(row)
    for (endpoint, client, handle), rows in groups.items():
        first, count = rows[0], sum(r.count for r in rows)
        yield Hit(
            subject=file_subject(endpoint, handle, first.path),
            message=(
                f"the server refused {labels.client(client)} a {first.lock_type} lock on "
                f"{file_name(first.path, handle)} ({range_words(first.offset, first.length)}) "
                f"{times(count)} because it would deadlock"
            ),
            evidence=first.evidence,
            when=(first.first_ns, max(r.last_ns for r in rows)),
            facts={"client": client, "count": count, "owner": first.owner or ""},
        )


RULE = Rule(
    id="lock-deadlock-status",
    title="The server refused a lock because of a deadlock",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(LockRefusal, ClientRow),
    check=check,
    remedy=(
        "Let all programs take their locks in one order (by path, then by offset), and on EDEADLK give "
        "back all locks before they try again."
    ),
    references=("RFC 8881 section 15.1.8", "fcntl(2), EDEADLK"),
    bad=("1..1.1 A lock f 0+10 write blocking owner=a -> DEADLOCK",),
    good=(
        """
        0..0.1 B lock f 0+10 write owner=b new_stateid=sb
        1..1.1 A lock f 0+10 write blocking owner=a -> DENIED holder_clientid=B holder_owner=b
        """,
    ),
    exercised_by=frozenset({"lock"}),
    follows_state=False,
)
