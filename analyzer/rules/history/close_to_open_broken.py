"""What it checks: a worker wrote a file and closed it; another opened the file after that close had
returned, and read older data. Where the reader had been told of the close by a message before it opened,
no clock is involved at all.

Why it matters: close-to-open is the one promise that every NFS mount makes, and what hand-over of files
between hosts rests on: data sets, checkpoints, results of a job step.

When it is wrong: with `nocto` the mount doesn't promise it; the finding then is of low severity.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import times
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, files, hits, late

#: What helps, by family of file systems.
_REMEDIES = {
    "nfs": (
        "Remove `nocto` from the mount's options; if it isn't there, compare change "
        "attribute and mtime on both clients (`stat`), and look for a server whose clock "
        "or change attribute is too coarse."
    ),
    "cephfs": "CephFS promises more than that: report it with the operations that prove it.",
}


def _stale(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} opened {b.object} {late(group)} after {b.other_process} on "
        f"{b.other_client} had closed it and read older data: {times(group.count)}, {files(group)}"
    )


def _told(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} opened {b.object} after it had been told that "
        f"{b.other_process} on "
        f"{b.other_client} closed it, and read version {b.seen} in place of {b.expected}: "
        f"{times(group.count)}, {files(group)}"
    )


def _phantom(group: Group) -> str:
    b = group.worst
    return (
        f"{b.process} on {b.client} read what nobody had written yet {files(group)}: {times(group.count)}"
    )


_DESCRIBE = {"stale": _stale, "stale-by-message": _told, "phantom": _phantom}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "close-to-open", _DESCRIBE, remedies=_REMEDIES)


RULE = Rule(
    id="close-to-open-broken",
    title="An open after a close didn't see the data",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=READS,
    check=check,
    remedy=(
        "Look at the mount's options (`nocto`, `actimeo`) with `findmnt`, and at proxies or "
        "caches between client and server."
    ),
    references=(
        "nfs(5): close-to-open cache consistency",
        "RFC 8881 section 10.3.1",
    ),
    bad=(
        """
        workload baton
        0..1 A open f
        1..2 A write f =1 v1 handle=0
        2..3 A close f handle=0
        4..5 B open f after=2
        5..6 B read f =0 v0 handle=3
        """,
        """
        workload register
        0..1 A open f
        1..2 A write f =1 handle=0
        2..3 A close f handle=0
        4..5 B open f
        5..6 B read f =0 handle=3
        """,
    ),
    good=(
        """
        workload baton
        0..1 A open f
        1..2 A write f =1 v1 handle=0
        2..3 A close f handle=0
        4..5 B open f after=2
        5..6 B read f =1 v1 handle=3
        """,
        """
        workload register  # opened before the close
        0..1 A open f
        1..2 A write f =1 handle=0
        2..5 A close f handle=0
        4..5 B open f
        6..7 B read f =0 handle=3
        """,
    ),
    exercised_by=frozenset({"workload baton", "workload register"}),
    follows_state=False,
    witness="client",
    promise="close-to-open",
)
