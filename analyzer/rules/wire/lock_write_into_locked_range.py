"""What it checks: WRITEs that the server accepted from a client without any lock on the range, while
another client surely held a write lock there: granted before the WRITE was sent, given back after it was
answered.

Why it matters: locks of NFS are advisory, and protect only if everybody takes them. A program that writes
without the lock (another version, a shell redirection, a backup or log writer) undoes the care of the
others.

When it is wrong: the bytes may be meant for it (a program that only ever appends, direct I/O of one job
that splits the file by other means). Data that a client wrote under a lock reach the server before its
unlock, so that late write-back is no explanation; a page of a memory-mapped file is.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import file_name, file_subject, range_words
from analyzer.analysis.locks import LockTrespass
from analyzer.analysis.silence import SilenceRow
from analyzer.analysis.words import counted, size
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per file, writer and holder."""
    labels = Labels.of(case)
    silences: dict[tuple[str, str], list[SilenceRow]] = {}
    for silence in case.rows(SilenceRow):
        if silence.end_ns - silence.start_ns >= case.options["silent_ns"]:
            silences.setdefault((silence.endpoint, silence.client), []).append(silence)
    groups: dict[tuple[str, str, str, str], list[LockTrespass]] = {}
    for row in case.rows(LockTrespass):
        quiet = silences.get((row.endpoint, row.holder_client), ())
        # The lock of a holder that was never heard again may have been taken away.
        gone = not row.released and any(s.start_ns < row.last_ns for s in quiet if not s.ended)
        if not row.lost and not gone:
            groups.setdefault((row.endpoint, row.object, row.client, row.holder_client), []).append(row)
    for rows in groups.values():
        yield _hit(rows, labels)


def _hit(rows: list[LockTrespass], labels: Labels) -> Hit:
    first = rows[0]
    writes, written = sum(r.writes for r in rows), sum(r.bytes for r in rows)
    return Hit(
        subject=file_subject(first.endpoint, first.object, first.path),
        message=(
            f"{labels.client(first.client)} wrote {size(written)} in {counted(writes, 'WRITE')} into "
            f"{file_name(first.path, first.object)} ({range_words(first.offset, first.length)}) without a "
            f"lock while {labels.client(first.holder_client)} held the write lock"
        ),
        evidence=first.evidence,
        when=(min(r.since_ns or r.first_ns for r in rows), rows[-1].last_ns),
        leans_on=(first.client, first.holder_client),
        facts={
            "client": first.client,
            "holder": first.holder_client,
            "writes": writes,
            "bytes": written,
            "holds": len(rows),
            "offset": first.offset,
            "length": first.length,
        },
        complete=all(r.released for r in rows),
    )


RULE = Rule(
    id="lock-write-into-locked-range",
    title="A client wrote into a range that another client had locked",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(LockTrespass, SilenceRow, ClientRow),
    check=check,
    remedy=(
        "Find the program on the writing client that opens this file without locking it (`lsof FILE`, "
        "`strace -f -e trace=fcntl,flock,pwrite64 -p PID`), and let it take the same lock."
    ),
    references=("RFC 8881 section 9.1.2", "fcntl(2), advisory record locking"),
    bad=(
        """
        0..0.1 A lock f 0+100 write owner=a new_stateid=sa
        1..1.1 B write f 50+10
        3..3.1 A unlock f 0+100 stateid=sa
        """,
    ),
    good=(
        # the lock's own client
        """
        0..0.1 A lock f 0+100 write owner=a new_stateid=sa
        1..1.1 A write f 50+10
        3..3.1 A unlock f 0+100 stateid=sa
        """,
        # the unlock was on its way
        """
        0..0.1 A lock f 0+100 write owner=a new_stateid=sa
        2.9..3.05 B write f 50+10
        3..3.1 A unlock f 0+100 stateid=sa
        """,
        # a lock of its own on another range
        """
        0..0.1 A lock f 0+100 write owner=a new_stateid=sa
        0.2..0.3 B lock f 100+100 write owner=b new_stateid=sb
        1..1.1 B write f 150+10
        3..3.1 A unlock f 0+100 stateid=sa
        """,
        # a read lock
        """
        0..0.1 A lock f 0+100 read owner=a new_stateid=sa
        1..1.1 B write f 50+10
        3..3.1 A unlock f 0+100 stateid=sa
        """,
    ),
    exercised_by=frozenset({"lock"}),
    options={"silent_ns": 5_000_000_000},
)
