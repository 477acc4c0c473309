"""What it checks: WRITEs that the server accepted from a client that had lost its lock on the range,
while another client surely held a write lock there.

Why it matters: this is how a node that was cut off damages a file after it comes back. It believes that
it still has the lock, and its cached data overwrite what the new owner of the lock has written. Locks of
NFS are advisory: the server doesn't refuse the write.

When it is wrong: if the capture missed the unlock of the first client, or its new lock. The WRITE may put
bytes there that the new holder has not changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import file_name, file_subject, range_words, seconds
from analyzer.analysis.locks import LockTrespass
from analyzer.analysis.words import counted, size
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per file, writer and holder."""
    labels = Labels.of(case)
    groups: dict[tuple[str, str, str, str], list[LockTrespass]] = {}
    for row in case.rows(LockTrespass):
        if row.lost:
            groups.setdefault((row.endpoint, row.object, row.client, row.holder_client), []).append(row)
    for rows in groups.values():
        first = rows[0]
        since = first.lost_ns
        late = f", {seconds(first.first_ns - since)} after it lost its lock" if since else ""
        written = sum(r.bytes for r in rows)
        yield Hit(
            subject=file_subject(first.endpoint, first.object, first.path),
            message=(
                f"{labels.client(first.client)} wrote {size(written)} into "
                f"{file_name(first.path, first.object)} ({range_words(first.offset, first.length)}){late}, "
                f"while {labels.client(first.holder_client)} held the write lock"
            ),
            evidence=first.evidence,
            when=(min(r.since_ns or r.first_ns for r in rows), rows[-1].last_ns),
            leans_on=(first.client, first.holder_client),
            explanation=f"{counted(sum(r.writes for r in rows), 'WRITE')} were accepted by the server.",
            facts={
                "client": first.client,
                "holder": first.holder_client,
                "writes": sum(r.writes for r in rows),
                "bytes": written,
                "offset": first.offset,
                "length": first.length,
            },
            complete=all(r.released for r in rows),
        )


RULE = Rule(
    id="lock-zombie-write",
    title="A client wrote under a lock that it had lost",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(LockTrespass, ClientRow),
    check=check,
    remedy=(
        "Treat the range as damaged and restore it. Let the application check its lock or a fencing token "
        "before it writes after a pause; stop cut-off nodes before others take over (fencing)."
    ),
    references=("RFC 8881 section 8.4.3", "RFC 8881 section 9.1.2"),
    bad=(
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        40..40.1 B lock f 0+10 write owner=b new_stateid=sb
        41..41.1 A session - op=SEQUENCE -> BADSESSION
        42..42.1 A write f 0+10
        45..45.1 B unlock f 0+10 stateid=sb
        """,
    ),
    good=(
        # it wrote before the other got the lock
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        39..39.1 A write f 0+10
        40..40.1 B lock f 0+10 write owner=b new_stateid=sb
        41..41.1 A session - op=SEQUENCE -> BADSESSION
        45..45.1 B unlock f 0+10 stateid=sb
        """,
        # it wrote after the other gave it back
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        40..40.1 B lock f 0+10 write owner=b new_stateid=sb
        41..41.1 A session - op=SEQUENCE -> BADSESSION
        45..45.1 B unlock f 0+10 stateid=sb
        46..46.1 A write f 0+10
        """,
        # elsewhere
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        40..40.1 B lock f 0+10 write owner=b new_stateid=sb
        41..41.1 A session - op=SEQUENCE -> BADSESSION
        42..42.1 A write f 10+10
        45..45.1 B unlock f 0+10 stateid=sb
        """,
    ),
    exercised_by=frozenset({"lock"}),
)
