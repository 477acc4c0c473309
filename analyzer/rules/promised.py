"""Hits from breaches of a promise: whom to name, how grave it is on this mount, what to do there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from analyzer.analysis.breaches import Audit, Breach
from analyzer.analysis.expectation import Expectation, Level, weakest
from analyzer.analysis.matrix import within_bound
from analyzer.analysis.mounts import MountRow
from analyzer.analysis.words import counted, duration
from analyzer.core.errors import NotExercisedError
from analyzer.core.finding import Hit, Severity, Subject
from analyzer.core.rule import Case

#: The row types that `hits` reads.
READS = (Breach, Audit, MountRow)


@dataclass(frozen=True, slots=True)
class Group:
    """Breaches that are told in one sentence: the gravest, how many, and in how many files."""

    worst: Breach
    count: int
    objects: int
    first_ns: int
    last_ns: int


Describe = Callable[[Group], str]


def by_kind(breach: Breach) -> str:
    """One sentence for each kind of breach."""
    return breach.kind


def by_process(breach: Breach) -> str:
    """One sentence for each kind and worker."""
    return f"{breach.kind} {breach.process}"


def hits(
    case: Case,
    promise: str,
    describe: Mapping[str, Describe],
    *,
    unpromised: Severity = Severity.LOW,
    remedies: Mapping[str, str] | None = None,
    group: Callable[[Breach], str] = by_kind,
) -> Iterator[Hit]:
    """One hit per group. `describe` has a sentence for each kind of breach; `unpromised` is the severity on
    a mount that doesn't promise it; `remedies` maps families of file systems to what helps there.

    Raises `NotExercisedError` where nothing in the history could have shown a breach.
    """
    audits = [audit for audit in case.rows(Audit) if audit.promise == promise]
    if not any(audit.judged or audit.breaches for audit in audits):
        raise NotExercisedError(next((a.why for a in audits if a.why), "its workload did not run"))
    mounts = list(case.rows(MountRow))
    groups: dict[str, list[Breach]] = {}
    for breach in case.rows(Breach):
        if breach.promise == promise:
            groups.setdefault(group(breach), []).append(breach)
    for found in groups.values():
        yield _hit(found, mounts, promise, describe, unpromised, remedies or {})


def _hit(
    found: list[Breach],
    mounts: list[MountRow],
    promise: str,
    describe: Mapping[str, Describe],
    unpromised: Severity,
    remedies: Mapping[str, str],
) -> Hit:
    worst = max(found, key=lambda b: b.late_ns)
    concerned = {name for b in found for name in (b.client, b.other_client)}
    own = [mount for mount in mounts if mount.client in concerned] or mounts
    expected = weakest(own, promise)
    one = Group(
        worst,
        sum(b.count for b in found),
        len({b.object for b in found}),
        min(b.at_ns for b in found),
        max(b.at_ns for b in found),
    )
    message = describe[worst.kind](one)
    severity = None
    if expected.level is Level.NOT_PROMISED or all(within_bound(b, expected) for b in found):
        severity = unpromised
    family = own[0].family if own else ""
    return Hit(
        subject=Subject("file", worst.object),
        message=message,
        evidence=worst.evidence,
        when=(one.first_ns, one.last_ns),
        explanation=explanation(expected, own, worst),
        severity=severity,
        remedy=remedies.get(family),
        facts={
            "count": one.count,
            "files": one.objects,
            "late_ns": worst.late_ns,
            "beyond_ns": worst.beyond_ns,
            "kind": worst.kind,
            "client": worst.client,
            "process": worst.process,
            "other_process": worst.other_process,
            "expected": expected.level.value,
        },
    )


def explanation(expected: Expectation, mounts: list[MountRow], worst: Breach) -> str:
    """What the mount promises, and how sure the order in time is."""
    words = {
        Level.PROMISED: "This mount promises it",
        Level.BOUNDED: f"This mount promises it after {duration(expected.bound_ns)}",
        Level.NOT_PROMISED: "This mount doesn't promise it",
        Level.UNKNOWN: "Whether this mount promises it isn't known",
    }
    named = f" ({mounts[0].fstype} {mounts[0].version}".rstrip() + ")" if mounts else ""
    sure = ""
    if worst.beyond_ns:
        sure = f" The order is certain by {duration(worst.beyond_ns)} beyond the uncertainty of the clocks."
    return f"{words[expected.level]}{named}: {expected.why}.{sure}"


def files(group: Group) -> str:
    """ "in file a" or "in 3 files, first of all a"."""
    if group.objects == 1:
        return f"in {group.worst.object}"
    return f"in {counted(group.objects, 'file')}, worst in {group.worst.object}"


def late(group: Group) -> str:
    """How long before the gravest breach what it contradicts had happened, in words."""
    return duration(group.worst.late_ns)
