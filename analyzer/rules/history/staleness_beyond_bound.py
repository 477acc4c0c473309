"""What it checks: one worker changes a file (its data, size or time) or a directory (an entry comes or
goes), others look again and again. The longest time for which a node still saw the old state, for certain,
is compared with what its mount allows: `acregmax` or `acdirmax` on NFS, nothing on CephFS and local file
systems, each plus `slack_ns` for round trips.

Why it matters: a program that polls for a file or for progress waits that much longer than it should, and
one that trusts what it sees acts on the past.

When it is wrong: where the mount isn't known, only lags above one minute are reported. A lag within the
bound is no finding: the verdict matrix shows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.expectation import ROUND_TRIP_NS, Level, attribute_bound_ns, expectation
from analyzer.analysis.mounts import MountRow
from analyzer.analysis.staleness import StalenessRow
from analyzer.analysis.words import counted, duration
from analyzer.core.errors import NotExercisedError
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule

_MINUTE = 60_000_000_000
_OF_DIRECTORY = frozenset({"entry", "negative"})


def check(case: Case) -> Iterator[Hit]:
    """One hit per node and aspect."""
    mounts = {mount.client: mount for mount in case.rows(MountRow)}
    rows = list(case.rows(StalenessRow))
    if not any(row.changes for row in rows):
        raise NotExercisedError("nothing was changed while others looked at it")
    for row in rows:
        mount = mounts.get(row.client)
        bound, why = _bound(mount, row.aspect)
        if row.lag_ns_max > bound + case.options["slack_ns"]:
            yield _hit(row, mount, bound, why)


def _bound(mount: MountRow | None, aspect: str) -> tuple[int, str]:
    if mount is None:
        return _MINUTE, "The mount isn't known: a minute is the longest that common clients cache."
    expected = expectation(mount, "staleness")
    if expected.level is Level.UNKNOWN:
        return _MINUTE, f"Nobody says how old data may be on {mount.fstype}; a minute is much."
    if mount.family == "nfs":
        bound = attribute_bound_ns(mount, aspect in _OF_DIRECTORY)
        option = "acdirmax" if aspect in _OF_DIRECTORY else "acregmax"
        return bound, f"The mount allows {duration(bound)} ({option}, or noac): {expected.why}."
    return 0, f"The mount allows none: {expected.why}."


def _hit(row: StalenessRow, mount: MountRow | None, bound: int, why: str) -> Hit:
    return Hit(
        subject=Subject("client", row.client),
        message=(
            f"{row.client} saw old {row.aspect} of {row.worst_object} for {duration(row.lag_ns_max)}, "
            f"{duration(row.lag_ns_max - bound)} longer than its mount allows"
        ),
        evidence=row.worst,
        when=(row.at_ns - row.lag_ns_max, row.at_ns),
        explanation=(
            f"{why} Half of {counted(row.changes, 'change')} were seen after {duration(row.lag_ns_p50)}, "
            f"99 % after {duration(row.lag_ns_p99)}."
        ),
        facts={
            "aspect": row.aspect,
            "lag_ns_max": row.lag_ns_max,
            "lag_ns_p50": row.lag_ns_p50,
            "bound_ns": bound,
            "stale_looks": row.stale_looks,
            "looks": row.looks,
        },
        severity=Severity.LOW if mount is None else None,
    )


RULE = Rule(
    id="staleness-beyond-bound",
    title="A node saw old state for longer than its mount allows",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(StalenessRow, MountRow),
    check=check,
    remedy=(
        "Look at the mount's options on that node with `findmnt`, and for a server whose change attribute "
        "or clock is too coarse: two changes within one tick look like one."
    ),
    references=("nfs(5): acregmin, acregmax, acdirmin, acdirmax, actimeo, noac",),
    bad=(
        """
        workload staleness
        0 B mount / value=nfs4 protocol=nfs4.1 options=rw,vers=4.1,noac
        1..2 A write f v1 aspect=data
        9..9.1 B read f v0 aspect=data
        """,
        """
        workload staleness  # an entry, on CephFS
        0 B mount / value=ceph options=rw
        1..2 A create d v1 aspect=entry
        9..9.1 B lookup d v0 aspect=entry
        """,
    ),
    good=(
        """
        workload staleness
        0 B mount / value=nfs4 protocol=nfs4.1 options=rw,vers=4.1
        1..2 A write f v1 aspect=data
        9..9.1 B read f v0 aspect=data
        """,
        """
        workload staleness
        0 B mount / value=nfs4 protocol=nfs4.1 options=rw,vers=4.1,noac
        1..2 A write f v1 aspect=data
        2.5..9.1 B read f v0 aspect=data
        10..11 B read f v1 aspect=data
        """,
    ),
    exercised_by=frozenset({"workload staleness"}),
    follows_state=False,
    options={"slack_ns": ROUND_TRIP_NS},
    witness="client",
    promise="staleness",
)
