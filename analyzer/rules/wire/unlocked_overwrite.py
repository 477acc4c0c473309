"""What it checks: several clients that have one file open at the same time and write the same bytes of it
in turns, less than 10 s apart, at least `turns` times, while nobody locks the file.

Why it matters: whoever writes last wins, and no error is ever returned. NFS has no append: each client
writes at the end of the file as it knows it, and a Linux client sends all that is dirty in a page, with
bytes of others as they were before. Appending to one log from two clients loses records; so do two
writers of different bytes in one page.

When it is wrong: programs may agree by messages of their own on who writes next, or not mind that the last
one wins (a file that says who is alive). A file that is closed between the turns is left out, and so is
one on which a LOCK or LOCKU was seen; locks taken before the capture began and held to its end are not
known. How many bytes were lost can't be told from the wire: payload is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import file_name, file_subject
from analyzer.analysis.overwrites import OverwriteRow
from analyzer.analysis.words import duration, listed, size
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per file."""
    labels = Labels.of(case)
    rows = [row for row in case.rows(OverwriteRow) if row.turns >= case.options["turns"]]
    for row in sorted(rows, key=lambda r: (-r.turns, r.first_ns)):
        yield _hit(row, labels)


def _hit(row: OverwriteRow, labels: Labels) -> Hit:
    name = file_name(row.path, row.object)
    appends = 4 * row.growing >= row.turns
    how = "each reached further in its turn, as appending does" if appends else "the last one wins"
    writers = listed([labels.bare(c) for c in row.clients])
    return Hit(
        subject=file_subject(row.endpoint, row.object, row.path),
        message=(
            f"clients {writers} wrote the same bytes of {name} in turns, {row.turns} times "
            f"within {duration(row.last_ns - row.first_ns)}, without a lock: {how}"
        ),
        evidence=row.evidence,
        when=(row.first_ns, row.last_ns),
        explanation=f"The WRITEs had {size(row.overlap_bytes)} in common with the other client's before.",
        facts={
            "clients": len(row.clients),
            "turns": row.turns,
            "growing": row.growing,
            "overlap_bytes": row.overlap_bytes,
        },
        severity=Severity.HIGH if appends else None,
    )


RULE = Rule(
    id="unlocked-overwrite",
    title="Clients write the same bytes in turns without a lock",
    severity=Severity.MEDIUM,
    confidence=Confidence.MEDIUM,
    blame=Blame.APPLICATION,
    reads=(OverwriteRow, ClientRow),
    check=check,
    remedy=(
        "Give each client a file of its own, or let one process write for all. If they must share a file: "
        "lock it (fcntl F_SETLKW) before finding its end and until after fsync(2), which also makes the "
        "client forget what it had cached."
    ),
    references=(
        "RFC 8881 section 10.3.1",
        "open(2), O_APPEND on NFS",
        "nfs(5), data and metadata coherence",
    ),
    bad=(
        # two clients append to one file
        """
        0..0.01 A write log 0+32 bytes=32
        0.02..0.03 B write log 0+64 bytes=64
        0.04..0.05 A write log 0+96 bytes=96
        0.06..0.07 B write log 32+96 bytes=96
        0.08..0.09 A write log 96+96 bytes=96
        """,
        # two clients write one record again and again
        """
        0..0.01 A write state 0+8 bytes=8
        1..1.01 B write state 0+8 bytes=8
        2..2.01 A write state 0+8 bytes=8
        3..3.01 B write state 0+8 bytes=8
        4..4.01 A write state 0+8 bytes=8
        """,
    ),
    good=(
        # ranges of their own
        """
        0..0.01 A write data 0+4096 bytes=4096
        0.02..0.03 B write data 4096+4096 bytes=4096
        0.04..0.05 A write data 8192+4096 bytes=4096
        0.06..0.07 B write data 12288+4096 bytes=4096
        0.08..0.09 A write data 0+4096 bytes=4096
        0.10..0.11 B write data 4096+4096 bytes=4096
        """,
        # closed between the turns
        """
        0..0.01 A write log 0+32 bytes=32
        0.011..0.012 A close log
        1..1.01 B write log 0+64 bytes=64
        1.011..1.012 B close log
        2..2.01 A write log 0+96 bytes=96
        2.011..2.012 A close log
        3..3.01 B write log 0+128 bytes=128
        3.011..3.012 B close log
        4..4.01 A write log 0+160 bytes=160
        """,
        # under a lock
        """
        0..0.001 A lock log 0+1000 write owner=a new_stateid=sa
        0.01..0.02 A write log 0+32 bytes=32
        0.03..0.031 A unlock log 0+1000 stateid=sa
        0.04..0.05 B write log 0+64 bytes=64
        0.06..0.07 A write log 0+96 bytes=96
        0.08..0.09 B write log 0+128 bytes=128
        0.10..0.11 A write log 0+160 bytes=160
        """,
        # far apart
        """
        0..0.01 A write log 0+32 bytes=32
        20..20.01 B write log 0+64 bytes=64
        40..40.01 A write log 0+96 bytes=96
        60..60.01 B write log 0+128 bytes=128
        80..80.01 A write log 0+160 bytes=160
        """,
    ),
    exercised_by=frozenset({"write"}),
    options={"turns": 4},
)
