"""What it checks: two locks that surely stood at the same time though one of them excludes the other:
ranges that overlap, different owners, at least one write lock. Surely means that the later grant was
answered before either owner called to give its lock back, and that the first lock's state was still good
when its owner did.

Why it matters: two clients believe that the range is theirs alone. Whatever they do under the lock is a
race, and data are damaged without any error. Known causes are servers in active-active clusters that
don't share lock state, failover without grace period, and exports of one file system by two servers.

When it is wrong: if the capture lost the LOCKU of the first owner and shows a later one. A hold that
ended by lease expiry, restart or revocation is no conflict and is left to the rules lock-lost and
lock-holder-gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import file_name, file_subject, range_words, seconds
from analyzer.analysis.locks import LockConflict
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per file and pair of clients; it tells of the longest time."""
    labels = Labels.of(case)
    pairs: dict[tuple[str, str, str, str], list[LockConflict]] = {}
    for row in case.rows(LockConflict):
        key = (row.endpoint, row.object, row.first_client, row.second_client)
        kept = pairs.setdefault(key, [row, row])
        kept[0] = max(kept[0], row, key=lambda r: r.until_ns - r.from_ns)
    for (endpoint, handle, *_), (row, _) in pairs.items():
        lasted = row.until_ns - row.from_ns
        both = f"{labels.client(row.first_client)} and {labels.client(row.second_client)}"
        yield Hit(
            subject=file_subject(endpoint, handle, row.path),
            message=(
                f"{both} both held {range_words(row.offset, row.length)} of "
                f"{file_name(row.path, handle)} for {seconds(lasted)}: the server granted a "
                f"{row.second_type} lock while another owner's {row.first_type} lock stood"
            ),
            evidence=row.evidence,
            when=(min(row.since_ns or row.from_ns, row.from_ns), row.until_ns),
            leans_on=(row.first_client, row.second_client),
            facts={
                "first": row.first_client,
                "second": row.second_client,
                "first_owner": row.first_owner or "",
                "second_owner": row.second_owner or "",
                "overlap_ns": lasted,
                "offset": row.offset,
                "length": row.length,
            },
        )


RULE = Rule(
    id="lock-conflicting-grants",
    title="The server granted conflicting locks at the same time",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(LockConflict, ClientRow),
    check=check,
    remedy=(
        "Don't trust data that was written under these locks; check the file. See that all servers that "
        "export this file system share their lock state (one active server, or a cluster file system with "
        "posix lock support), and report the frames to the server's vendor."
    ),
    references=("RFC 8881 section 18.10.3", "RFC 8881 section 9.1.2"),
    bad=(
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 5+10 write owner=b new_stateid=sb
        3..3.1 A unlock f 0+10 stateid=sa
        4..4.1 B unlock f 5+10 stateid=sb
        """,
    ),
    good=(
        # the unlock was called before the second grant was answered
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 5+10 write owner=b new_stateid=sb
        1.05..1.3 A unlock f 0+10 stateid=sa
        """,
        # neighbours
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 10+10 write owner=b new_stateid=sb
        3..3.1 A unlock f 0+10 stateid=sa
        """,
        # the lease ran out in between
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        99..99.1 B lock f 5+10 write owner=b new_stateid=sb
        100..100.1 A unlock f 0+10 stateid=sa -> EXPIRED
        """,
    ),
    exercised_by=frozenset({"lock"}),
)
