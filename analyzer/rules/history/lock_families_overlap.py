"""What it checks: one worker held a file with flock and another with fcntl, both exclusive or one of
them, at the same time.

Why it matters: on NFS, Linux sends flock to the server as a lock on the whole file, so that both families
exclude each other there; on a local file system and on CephFS they don't. Programs that mix them (a shell
script with flock(1) beside a program with fcntl) work on one and fail on the other.

When it is wrong: where the mount doesn't promise it (local, CephFS, `local_lock`), the finding only says
how it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, hits, late


def _across(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} and {b.other_process} on {b.other_client} held {b.object} "
        f"with flock and "
        f"with fcntl at the same time for {late(group)}: {times(group.count)}"
    )


_DESCRIBE = {"across": _across}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "lock-families", _DESCRIBE, unpromised=Severity.INFO)


RULE = Rule(
    id="lock-families-overlap",
    title="flock and fcntl locks don't see each other",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=READS,
    check=check,
    remedy=("Use one family of locks for a file, fcntl for files that are shared between hosts."),
    references=(
        "flock(2), NFS details",
        "nfs(5), local_lock",
    ),
    bad=(
        """
        workload locks
        0 A mount / value=nfs4 protocol=nfs4.1 options=rw,vers=4.1
        0..1 A lock f write family=flock
        2..3 A.2 lock f 0+eof write family=posix
        4..5 A unlock f family=flock
        6..7 A.2 unlock f 0+eof family=posix
        """,
    ),
    good=(
        """
        workload locks
        0..1 A lock f write family=flock
        2..4.5 A.2 lock f 0+eof write family=posix
        4..5 A unlock f family=flock
        6..7 A.2 unlock f 0+eof family=posix
        """,
    ),
    exercised_by=frozenset({"workload locks"}),
    follows_state=False,
    witness="client",
    promise="lock-families",
)
