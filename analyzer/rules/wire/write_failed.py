"""What it checks: the server refused to store something: NOSPC (no space), DQUOT (quota), IO (its disk
failed), ROFS (read-only file system), FBIG (file too large), STALE (the file is gone). One finding per
client, status and directory. A stale handle is refused by PUTFH, before the operation that it was for, so
there the operation isn't known.

Why it matters: Linux writes in the background; the error of a refused WRITE reaches the application only
by fsync() or close(), and many programs don't look at their results. A training job then goes on with a
checkpoint that was never stored.

When it is wrong: it stands on the cited replies alone, so it is right about the refusal. STALE is normal
where another client removed the file, and is of low severity unless a WRITE or COMMIT met it. Tests of
quotas and full disks cause the others on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.words import counted
from analyzer.analysis.write_failures import WriteFailure
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import references

#: Status → severity if data was refused, severity otherwise, remedy.
_MEANING: dict[str, tuple[Severity, Severity, str]] = {
    "NOSPC": (
        Severity.HIGH,
        Severity.HIGH,
        "Free space or grow the file system on the server (`df -h` and `df -i` there), "
        "then write the files again.",
    ),
    "DQUOT": (
        Severity.HIGH,
        Severity.HIGH,
        "Raise the quota or clean up (`quota -s` as that user, `repquota -s` on the "
        "server), then write again.",
    ),
    "IO": (
        Severity.CRITICAL,
        Severity.HIGH,
        "Look at the server's disks and file system (`dmesg -T`, `smartctl -a`), then "
        "write the files again.",
    ),
    "ROFS": (
        Severity.MEDIUM,
        Severity.MEDIUM,
        "See why the server's file system is read-only (`dmesg -T` for an error remount, "
        "the export's `rw` option).",
    ),
    "FBIG": (
        Severity.MEDIUM,
        Severity.MEDIUM,
        "Write smaller files, or raise the largest file size of the server's file system or volume.",
    ),
    "STALE": (
        Severity.MEDIUM,
        Severity.LOW,
        "Find who removed or replaced the file or re-exported its file system; open the path again.",
    ),
}


def check(case: Case) -> Iterator[Hit]:
    """One hit per client, status and directory."""
    labels = Labels.of(case)
    for row in case.rows(WriteFailure):
        with_data, without, remedy = _MEANING[row.status]
        client = labels.bare(row.client)
        place = f"in {row.directory}" if row.directory else "on files of unknown path"
        path = f", first {row.op} of {row.path}" if row.path else f", first {row.op}"
        what = counted(row.count, "operation")
        data = f" ({counted(row.data, 'WRITE or COMMIT', 'WRITEs and COMMITs')})" if row.data else ""
        yield Hit(
            subject=labels.subject(row.client, row.endpoint),
            message=(
                f"server {row.endpoint} answered {row.status} to {what}{data} of client {client} "
                f"{place}{path}"
            ),
            evidence=references([row.at_call, row.at_first, row.at_last]),
            when=(row.first_ns, row.last_ns),
            facts={
                "client": row.client,
                "server": row.endpoint,
                "status": row.status,
                "op": row.op,
                "directory": row.directory or "",
                "refused": row.count,
                "refused_data": row.data,
                "files": row.files,
            },
            severity=with_data if row.data else without,
            remedy=remedy,
        )


RULE = Rule(
    id="write-failed",
    title="The server refused to store data",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(ClientRow, WriteFailure),
    check=check,
    remedy=(
        "Remove the cause that the status names, then write the files again and check the results of "
        "fsync() and close()."
    ),
    references=("RFC 8881 section 15.1", "RFC 7530 section 13.1"),
    bad=(
        "1.0..1.1 A write data/f 0+65536 unstable -> NOSPC",
        "1.0..1.1 A commit data/f 0+0 -> IO",
        "1.0..1.1 A open data/f create -> DQUOT",
        "1.0..1.1 A handle data/f op=PUTFH -> STALE",
    ),
    good=(
        "1.0..1.1 A write data/f 0+65536 unstable",
        "1.0..1.1 A open data/f -> NOENT",
        "1.0..1.1 A write data/f 0+65536 unstable -> DELAY",
        "1.0..1.1 A read data/f 0+65536 -> IO\n1.1..1.2 A write data/f 0+1 file_sync",
    ),
    exercised_by=frozenset({"write", "commit", "open", "create", "rename", "handle"}),
    follows_state=False,
)
