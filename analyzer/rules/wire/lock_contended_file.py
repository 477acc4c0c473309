"""What it checks: files on which LOCK calls were DENIED again and again, or whose waits add up to more
than `total_ns`: how many clients fight over them, how long they waited together, and who held the lock
most.

Why it matters: one file that everybody locks puts the whole job in single file, however fast the storage
is. It is often a counter, an index, a log or a lock file that each rank or worker opens for itself.

When it is wrong: contention may be short and harmless: the severity follows the waiting time, not the
number of DENIED. Conflicts between processes of one client are settled inside that client and are never
seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import NS, file_name, file_subject, seconds
from analyzer.analysis.locks import LockFile
from analyzer.analysis.words import counted
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per file."""
    labels = Labels.of(case)
    for file in case.rows(LockFile):
        many = file.waits >= case.options["waits"] and file.clients > 1
        if many or file.wait_ns >= case.options["total_ns"]:
            yield _hit(file, labels)


def _hit(file: LockFile, labels: Labels) -> Hit:
    top = ""
    if file.top_client:
        top = f"; {labels.client(file.top_client)} held it most, {seconds(file.top_held_ns)}"
    span = max(file.last_ns - file.first_ns, 1)
    return Hit(
        subject=file_subject(file.endpoint, file.object, file.path),
        message=(
            f"{counted(file.clients, 'client')} fought over locks on {file_name(file.path, file.object)}: "
            f"{counted(file.waits, 'wait')} took {seconds(file.wait_ns)} together, "
            f"the longest {seconds(file.longest_wait_ns)}{top}"
        ),
        evidence=file.evidence,
        when=(file.first_ns, file.last_ns),
        explanation=(
            f"{counted(file.grants, 'LOCK call was', 'LOCK calls were')} granted and {file.denials} "
            f"denied; of the waiting time {seconds(file.backoff_ns)} was client back-off. On average "
            f"{file.wait_ns / span:.1f} lock owners waited at once from the first DENIED to the last LOCK."
        ),
        facts={
            "clients": file.clients,
            "waits": file.waits,
            "denials": file.denials,
            "grants": file.grants,
            "total_wait_ns": file.wait_ns,
            "longest_wait_ns": file.longest_wait_ns,
            "backoff_ns": file.backoff_ns,
            "top_client": file.top_client or "",
            "top_held_ns": file.top_held_ns,
        },
        severity=_severity(file),
    )


def _severity(file: LockFile) -> Severity:
    if file.wait_ns >= 60 * NS:
        return Severity.MEDIUM
    return Severity.LOW if file.wait_ns >= NS else Severity.INFO


RULE = Rule(
    id="lock-contended-file",
    title="Clients fight over locks on one file",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(LockFile, ClientRow),
    check=check,
    remedy=(
        "Give each worker a file or a byte range of its own, or let one worker lock for all; keep the lock "
        "only for the write itself (holders: `lslocks`, and the lock timeline of this report)."
    ),
    references=("RFC 8881 section 18.10", "fcntl(2), advisory record locking"),
    bad=(
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        9..9.1 A unlock f 0+10 stateid=sa
        9.2..9.3 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
    ),
    good=(
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock g 0+10 write blocking owner=b new_stateid=sb
        9..9.1 A unlock f 0+10 stateid=sa
        """,
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        1.2..1.3 A unlock f 0+10 stateid=sa
        1.31..1.32 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
    ),
    exercised_by=frozenset({"lock"}),
    options={"waits": 20, "total_ns": NS},
)
