"""What it checks: a client wrote data UNSTABLE and closed the file, and no COMMIT came before the CLOSE
or after it. Files that are still open when the input ends are only mentioned, and only after two minutes
without a write: a client may commit late.

Why it matters: a server may keep UNSTABLE data in memory for as long as it likes. Until COMMIT a server
crash loses it silently. Linux clients commit on close(), so this points to a user-space client or a
gateway that skips COMMIT, or to a process that was killed.

When it is wrong: a client that holds a write delegation may commit after CLOSE, by default within 35 s;
an input that ends sooner, or that lost frames, gives a finding of low severity. Data of a file that was
removed afterwards needs no COMMIT. pNFS clients may send COMMIT to another server than WRITE. Conformance
suites leave small writes uncommitted on purpose; less than `at_risk_bytes` in all is of low severity.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.uncommitted import UncommittedData
from analyzer.analysis.words import counted, duration, size
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import file_name, may_miss_frames, references


def check(case: Case) -> Iterator[Hit]:
    """One hit per client and way of leaving data behind."""
    groups: dict[tuple[str, str, str], list[UncommittedData]] = {}
    last_ns = case.coverage.last_ns or 0
    for row in case.rows(UncommittedData):
        last_ns = max(last_ns, row.input_last_ns)
        if row.ended in ("close", "end") and row.exact:
            groups.setdefault((row.endpoint, row.client, row.ended), []).append(row)
    labels = Labels.of(case)
    for (_, _, ended), rows in groups.items():
        if ended == "close":
            yield _closed(rows, last_ns, labels, case)
        else:
            quiet = [row for row in rows if last_ns - row.last_ns >= case.options["quiet_ns"]]
            if quiet:
                yield _open(quiet, last_ns, labels)


def _closed(rows: list[UncommittedData], last_ns: int, labels: Labels, case: Case) -> Hit:
    main = max(rows, key=lambda row: row.bytes)
    total = sum(row.bytes for row in rows)
    left_ns = max(last_ns - (main.ended_ns or 0), 0)
    waited = left_ns >= case.options["commit_ns"]
    waited = waited and not may_miss_frames(case.coverage)
    grave = waited and total >= case.options["at_risk_bytes"]
    return _hit(
        rows,
        labels,
        f"and closed, with no COMMIT before the CLOSE or in the {duration(left_ns)} after it",
        Severity.MEDIUM if grave else Severity.LOW,
        waited,
    )


def _open(rows: list[UncommittedData], last_ns: int, labels: Labels) -> Hit:
    quiet_ns = last_ns - max(row.last_ns for row in rows)
    outcome = f"had seen no COMMIT {duration(quiet_ns)} after the last write, when the input ended"
    return _hit(rows, labels, outcome, Severity.INFO, False)


def _hit(
    rows: list[UncommittedData], labels: Labels, outcome: str, severity: Severity, complete: bool
) -> Hit:
    main = max(rows, key=lambda row: row.bytes)
    total = sum(row.bytes for row in rows)
    name = file_name(main.path, main.object)
    more = f" and {counted(len(rows) - 1, 'other file')}" if len(rows) > 1 else ""
    client = labels.bare(main.client)
    return Hit(
        subject=Subject("file", f"{main.endpoint} {main.object}", name),
        message=f"{size(total)} that client {client} wrote UNSTABLE to {name}{more} {outcome}",
        evidence=references([main.at_first, main.at_last, main.at_end]),
        when=(min(row.first_ns for row in rows), max(row.ended_ns or row.last_ns for row in rows)),
        leans_on=(main.client,),
        facts={
            "client": main.client,
            "server": main.endpoint,
            "files": len(rows),
            "writes": sum(row.writes for row in rows),
            "unstable_bytes": total,
        },
        severity=severity,
        complete=complete,
    )


RULE = Rule(
    id="unstable-never-committed",
    title="Unstable data left without COMMIT",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(ClientRow, UncommittedData),
    check=check,
    remedy=(
        "Let the writer call fsync() before it closes the file, and update the client if it is a "
        "user-space one that skips COMMIT; where that can't be changed, export with `sync` and mount "
        "with `-o sync`."
    ),
    references=("RFC 8881 section 18.32.3", "RFC 8881 section 18.3.3"),
    bad=(
        """
        1.0..1.1 A write f 0+2097152 unstable value=cf250e6b00000000
        1.2..1.3 A close f
        60.0..60.1 A write g 0+4096 file_sync value=cf250e6b00000000
        """,
        """
        1.0..1.1 A write f 0+4096 unstable value=cf250e6b00000000
        200.0..200.1 A write g 0+4096 file_sync value=cf250e6b00000000
        """,
    ),
    good=(
        """
        1.0..1.1 A write f 0+2097152 unstable value=cf250e6b00000000
        1.1..1.2 A commit f 0+0 value=cf250e6b00000000
        1.2..1.3 A close f
        60.0..60.1 A write g 0+4096 file_sync value=cf250e6b00000000
        """,
        # committed in two parts; committed after CLOSE; a reader's CLOSE isn't the writer's
        """
        1.0..1.1 A write f 0+2097152 unstable value=cf250e6b00000000
        1.1..1.2 A commit f 0+1048576 value=cf250e6b00000000
        1.1..1.2 A commit f 1048576+1048576 value=cf250e6b00000000
        1.2..1.3 A close f
        2.0..2.1 A write g 0+2097152 unstable value=cf250e6b00000000
        2.2..2.3 A close g
        9.0..9.1 A commit g 0+0 value=cf250e6b00000000
        30.0..30.1 A write h 0+2097152 unstable value=cf250e6b00000000 stateid=11
        30.2..30.3 A close h stateid=22
        60.0..60.1 A write g 0+4096 file_sync value=cf250e6b00000000
        """,
    ),
    exercised_by=frozenset({"write"}),
    options={"commit_ns": 35_000_000_000, "quiet_ns": 120_000_000_000, "at_risk_bytes": 1 << 20},
)
