"""What it checks: OPEN calls that were answered SHARE_DENIED, and who had the file open in a way that
forbids it: with a deny mode against what was asked, or with an access that the caller wanted to deny.

Why it matters: the open fails (EACCES or EBUSY for the application) or is retried. NFSv4 has deny modes
for Windows programs; Linux clients never set one, so that somebody else did: a gateway to SMB, a
user-space client, or a program on the server.

When it is wrong: a refused OPEN tells the directory and the name, not the file. If the holder is found by
its name alone, a file of the same name in another directory may be meant; confidence is lower then. A
holder that opened the file before the capture began is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import file_name, file_subject, seconds
from analyzer.analysis.opens import ShareConflict
from analyzer.analysis.words import counted, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

_MODE = ("none", "read", "write", "both")


def check(case: Case) -> Iterator[Hit]:
    """One hit per asking client and holder; it tells of the file that was refused most often."""
    labels = Labels.of(case)
    groups: dict[tuple[str, str, str | None], list[ShareConflict]] = {}
    for row in case.rows(ShareConflict):
        groups.setdefault((row.endpoint, row.client, row.holder_client), []).append(row)
    for rows in groups.values():
        yield _hit(max(rows, key=lambda r: r.count), rows, labels)


def _hit(row: ShareConflict, rows: list[ShareConflict], labels: Labels) -> Hit:
    name = file_name(row.path or row.name, row.object or "?")
    more = f"; the same with {counted(len(rows) - 1, 'other file')}" if len(rows) > 1 else ""
    if row.holder_client is None:
        holder = "nobody who opened it in this capture stands in the way"
    else:
        ago = seconds(max(0, row.first_ns - (row.holder_since_ns or row.first_ns)))
        who = "it" if row.holder_client == row.client else labels.client(row.holder_client)
        holder = (
            f"{who} had opened it {ago} before (access {_MODE[row.holder_access]}, "
            f"deny {_MODE[row.holder_deny]})"
        )
    return Hit(
        subject=file_subject(row.endpoint, row.object or row.name or "?", row.path or row.name),
        message=(
            f"{labels.client(row.client)} was refused to open {name} {times(row.count)} (access "
            f"{_MODE[row.access]}, deny {_MODE[row.deny]}): {holder}{more}"
        ),
        evidence=row.evidence,
        when=(min(r.holder_since_ns or r.first_ns for r in rows), max(r.last_ns for r in rows)),
        leans_on=tuple(r.holder_client for r in rows if r.holder_client)[:1],
        facts={
            "client": row.client,
            "holder": row.holder_client or "",
            "access": row.access,
            "deny": row.deny,
            "holder_access": row.holder_access,
            "holder_deny": row.holder_deny,
            "holders": row.holders,
            "count": sum(r.count for r in rows),
            "files": len(rows),
        },
        complete=row.holder_client is not None and not row.by_name,
    )


RULE = Rule(
    id="share-denied",
    title="An open was refused because of another open's share mode",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(ShareConflict, ClientRow),
    check=check,
    remedy=(
        "Close the file on the holder, or let it open without a deny mode (SMB gateway: share modes of "
        "the program; samba `share modes`). On Linux knfsd `cat /proc/fs/nfsd/clients/*/states` lists who "
        "has what open."
    ),
    references=("RFC 8881 section 9.7", "RFC 8881 section 18.16.3"),
    bad=(
        """
        0..0.1 C open f owner=c new_stateid=sc share_access=3 share_deny=3
        1..1.1 B open f owner=b share_access=3 share_deny=0 -> SHARE_DENIED
        """,
        "1..1.1 B open f owner=b share_access=3 share_deny=0 -> SHARE_DENIED",
    ),
    good=(
        """
        0..0.1 C open f owner=c new_stateid=sc share_access=3 share_deny=3
        0.5..0.6 C close f stateid=sc
        1..1.1 B open f owner=b new_stateid=sb share_access=3 share_deny=0
        """,
    ),
    exercised_by=frozenset({"open"}),
    follows_state=False,
)
