"""What it checks: a client wrote data UNSTABLE, and before a COMMIT confirmed it the server answered with
another write verifier. That is how a server says that it may have lost what it had not yet stored: it was
restarted, failed over, or dropped dirty data after a write-back error. The client must then send all of
it again. The finding tells the file, the bytes, both verifiers, and whether the client did so.

Why it matters: data that isn't sent again is gone, though every write() of the application returned
success. A checkpoint that was being written at that moment may be torn.

When it is wrong: the data counts as sent again when as many bytes as were lost were written to the range
of the lost writes, so a client that rewrites one part twice and another part never is believed. Linux may
take up to 35 s to send again what nobody called fsync for (30 s dirty expiry and 5 s write-back
interval), so an input that ends sooner gives no more than severity high, and one that lost frames no more
than medium. Servers behind one address that don't share a verifier (a cluster behind a load balancer)
look the same, and are as dangerous.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.uncommitted import UncommittedData
from analyzer.analysis.words import counted, duration, size
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import file_name, may_miss_frames, references


def check(case: Case) -> Iterator[Hit]:
    """One hit per client, pair of verifiers, and whether the data was sent again."""
    groups: dict[tuple[str, str, str | None, str | None, bool], list[UncommittedData]] = {}
    last_ns = case.coverage.last_ns or 0
    for row in case.rows(UncommittedData):
        last_ns = max(last_ns, row.input_last_ns)
        if row.ended == "verifier":
            key = (row.endpoint, row.client, row.verifier, row.new_verifier, row.resent)
            groups.setdefault(key, []).append(row)
    labels, lossy = Labels.of(case), may_miss_frames(case.coverage)
    for rows in groups.values():
        hit = _hit(rows, last_ns, labels, int(case.options["resend_ns"]))
        yield replace(hit, **_doubt(hit)) if lossy else hit


def _doubt(hit: Hit) -> dict[str, Any]:
    """On an input that lost frames a COMMIT, or the WRITEs that were sent again, may be among them."""
    severity = min(hit.severity or Severity.MEDIUM, Severity.MEDIUM)
    explanation = (
        f"{hit.explanation} Frames are missing in this input: a COMMIT or WRITE may be among them."
    )
    return {"severity": severity, "complete": False, "explanation": explanation}


def _hit(rows: list[UncommittedData], last_ns: int, labels: Labels, resend_ns: int) -> Hit:
    main = max(rows, key=lambda row: row.bytes)
    lost, sent = sum(row.bytes for row in rows), sum(min(row.resent_bytes, row.bytes) for row in rows)
    changed_ns = min(row.ended_ns or 0 for row in rows)
    left_ns = max(last_ns - max(row.ended_ns or 0 for row in rows), 0)
    client = labels.bare(main.client)
    name = file_name(main.path, main.object)
    more = f" and {counted(len(rows) - 1, 'other file')}" if len(rows) > 1 else ""
    if main.resent:
        outcome = "the client sent all of it again"
        severity, complete = Severity.LOW, True
    else:
        part = f"only {size(sent)} of it" if sent else "none of it"
        outcome = f"the client sent {part} again in the {duration(left_ns)} until the input's end"
        complete = left_ns >= resend_ns and all(row.exact for row in rows)
        severity = Severity.CRITICAL if complete else Severity.HIGH
    return Hit(
        subject=Subject("file", f"{main.endpoint} {main.object}", name),
        message=(
            f"{size(lost)} that client {client} wrote UNSTABLE to {name}{more} under write verifier "
            f"{main.verifier} were not committed when server {main.endpoint} answered {main.ended_op} with "
            f"verifier {main.new_verifier}: {outcome}"
        ),
        evidence=references([main.at_first, main.at_last, main.at_end, main.at_resent]),
        when=(min(row.first_ns for row in rows), changed_ns),
        leans_on=(main.client,),
        explanation=(
            f"Last UNSTABLE write {duration(max(changed_ns - main.last_ns, 0))} before the "
            f"{main.ended_op} that showed the new verifier. Look for the restart, failover or write-back "
            "error in between."
        ),
        facts={
            "client": main.client,
            "server": main.endpoint,
            "files": len(rows),
            "writes": sum(row.writes for row in rows),
            "unstable_bytes": lost,
            "resent_bytes": sent,
            "old_verifier": main.verifier or "",
            "new_verifier": main.new_verifier or "",
            "left_ns": left_ns,
        },
        severity=severity,
        complete=complete,
    )


RULE = Rule(
    id="write-verifier-changed",
    title="Unstable writes lost by a server restart",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(ClientRow, UncommittedData),
    check=check,
    remedy=(
        "Treat the file as damaged: write it again from its source or go back to the last checkpoint "
        "that was synced before this time. Make the writer call fsync() and check its result before it "
        "renames or reports success, and find why the server lost its memory (`journalctl -k`, failover "
        "log)."
    ),
    references=("RFC 8881 section 18.3.3", "RFC 8881 section 18.32.3", "RFC 7530 section 16.36.4"),
    bad=(
        """
        1.0..1.1 A write f 0+65536 unstable value=cf250e6b00000000
        9.0..9.1 A commit f 0+0 value=dc250e6b00000000
        60.0..60.1 A write g 0+4096 file_sync value=dc250e6b00000000
        """,
        # seen by a later write, of which only a part lies in the lost range; the input ends early
        """
        1.0..1.1 A write f 0+65536 unstable value=cf250e6b00000000
        1.1..1.2 A write f 65536+65536 unstable value=cf250e6b00000000
        9.0..9.1 A write f 65536+65536 unstable value=dc250e6b00000000
        9.2..9.3 A commit f 0+0 value=dc250e6b00000000
        """,
    ),
    good=(
        """
        1.0..1.1 A write f 0+65536 unstable value=cf250e6b00000000
        2.0..2.1 A commit f 0+0 value=cf250e6b00000000
        9.0..9.1 A commit f 0+0 value=dc250e6b00000000
        60.0..60.1 A write g 0+4096 file_sync value=dc250e6b00000000
        """,
        # what the server stored at once can't be lost; another server has verifiers of its own
        """
        1.0..1.1 A write f 0+65536 file_sync value=cf250e6b00000000
        1.1..1.2 A write f 65536+4096 stable=unstable committed=file_sync value=cf250e6b00000000
        1.2..1.3 A write f 0+65536 unstable value=aa00000000000000 endpoint=other:2049
        9.0..9.1 A commit f 0+0 value=dc250e6b00000000
        9.2..9.3 A commit f 0+0 value=aa00000000000000 endpoint=other:2049
        60.0..60.1 A write g 0+4096 file_sync value=dc250e6b00000000
        """,
    ),
    exercised_by=frozenset({"write"}),
    options={"resend_ns": 35_000_000_000},
)
