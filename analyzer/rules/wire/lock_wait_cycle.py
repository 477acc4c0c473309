"""What it checks: waits for locks that go round in a circle at one instant: A waits for a range that B
holds, B waits for one that A holds (or over C, D, ...), on one file or several.

Why it matters: it is a deadlock across clients. No client sees it, since each kernel knows only its own
locks, and most NFS servers don't look for it: the processes wait until somebody kills one of them.

When it is wrong: if each holder is the very lock owner that waits for the next one, it is certain that
they block each other. Linux makes a lock owner per process and file, so that across files only the
clients can be compared; different processes of one client may then hold and wait, which may resolve by
itself. Such a circle is reported, with lower confidence, only if it stood for `stood_ns` and no wait in
it was granted, or for `gave_up_ns` until a client gave up its wait (it was told that the lock was free
and never asked again), as programs do that take a time-out for their way out of a deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import NS, seconds
from analyzer.analysis.locks import LockCycle
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per circle."""
    labels = Labels.of(case)
    for cycle in case.rows(LockCycle):
        lasted = cycle.until_ns - cycle.from_ns
        stood = not cycle.resolved and lasted >= case.options["stood_ns"]
        gave_up = cycle.gave_up and lasted >= case.options["gave_up_ns"]
        if cycle.same_owners or stood or gave_up:
            yield _hit(cycle, labels)


def _hit(cycle: LockCycle, labels: Labels) -> Hit:
    names = [labels.client(c) for c in cycle.clients]
    following = [*names[1:], names[0]]
    links = "; ".join(
        f"{name} waits for {other} at {place}"
        for name, other, place in zip(names, following, cycle.ranges, strict=True)
    )
    lasted = cycle.until_ns - cycle.from_ns
    end = ", and still at the end of the capture" if cycle.at_end else ""
    lasting = seconds(lasted)
    if cycle.gave_up:
        lasting, end = f"up to {lasting}", ", until one gave up"
    what = "lock owners" if cycle.same_owners else "clients"
    return Hit(
        subject=Subject("file", "|".join(sorted(cycle.ranges)), " and ".join(cycle.ranges)),
        message=f"{len(names)} {what} block each other for {lasting}{end}: {links}",
        evidence=cycle.evidence,
        when=(cycle.from_ns, cycle.until_ns),
        leans_on=cycle.clients,
        explanation=(
            "Each holder is the same lock owner that waits for the next: none can go on."
            if cycle.same_owners
            else "The lock owners differ, so that other processes of these clients may hold the locks."
        ),
        facts={
            "clients": len(set(cycle.clients)),
            "length": len(names),
            "stood_ns": lasted,
            "resolved": int(cycle.resolved),
            "gave_up": int(cycle.gave_up),
            "same_owners": int(cycle.same_owners),
        },
        severity=Severity.HIGH if cycle.same_owners else Severity.MEDIUM,
        complete=cycle.same_owners and not cycle.at_end,
    )


RULE = Rule(
    id="lock-wait-cycle",
    title="Lock waits go round in a circle (deadlock across clients)",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(LockCycle, ClientRow),
    check=check,
    remedy=(
        "Let all programs take their locks in one order (by path, then by offset), or try with F_SETLK and "
        "give everything back on EAGAIN. To end this one, kill one of the waiting processes (`lslocks`)."
    ),
    references=("RFC 8881 section 9.6", "RFC 8881 section 15.1.8"),
    bad=(
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        0..0.1 B lock f 20+10 write owner=b new_stateid=sb
        1..1.1 A lock f 20+10 write blocking owner=a -> DENIED holder_clientid=B holder_owner=b
        2..2.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        10..10.1 A lock f 20+10 write blocking owner=a -> DENIED holder_clientid=B holder_owner=b
        11..11.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        """,
        # across files: only the clients match
        """
        0..0.1 A lock f 0+10 write owner=a1 new_stateid=sa
        0..0.1 B lock g 0+10 write owner=b1 new_stateid=sb
        1..1.1 A lock g 0+10 write blocking owner=a2 -> DENIED holder_clientid=B holder_owner=b1
        2..2.1 B lock f 0+10 write blocking owner=b2 -> DENIED holder_clientid=A holder_owner=a1
        31..31.1 A lock g 0+10 write blocking owner=a2 -> DENIED holder_clientid=B holder_owner=b1
        32..32.1 B lock f 0+10 write blocking owner=b2 -> DENIED holder_clientid=A holder_owner=a1
        """,
        # across files: B gave up, let go of what it held, and didn't ask when told that f was free
        """
        0..0.1 A lock f 0+10 write owner=a1 new_stateid=sa
        0..0.1 B lock g 0+10 write owner=b1 new_stateid=sb
        1..1.1 A lock g 0+10 write blocking owner=a2 -> DENIED holder_clientid=B holder_owner=b1
        2..2.1 B lock f 0+10 write blocking owner=b2 -> DENIED holder_clientid=A holder_owner=a1
        6..6.1 B unlock g 0+10 stateid=sb
        6.2..6.3 A lock g 0+10 write blocking owner=a2 new_stateid=sa2
        6.4..6.5 A unlock f 0+10 stateid=sa
        6.6..6.7 B notify_lock f callback op=CB_NOTIFY_LOCK
        9..9.1 B close f
        """,
    ),
    good=(
        # across files, and B was granted what it waited for: it had not given up
        """
        0..0.1 A lock f 0+10 write owner=a1 new_stateid=sa
        0..0.1 B lock g 0+10 write owner=b1 new_stateid=sb
        1..1.1 A lock g 0+10 write blocking owner=a2 -> DENIED holder_clientid=B holder_owner=b1
        2..2.1 B lock f 0+10 write blocking owner=b2 -> DENIED holder_clientid=A holder_owner=a1
        6..6.1 B unlock g 0+10 stateid=sb
        6.2..6.3 A lock g 0+10 write blocking owner=a2 new_stateid=sa2
        6.4..6.5 A unlock f 0+10 stateid=sa
        6.6..6.7 B notify_lock f callback op=CB_NOTIFY_LOCK
        6.8..6.9 B lock f 0+10 write blocking owner=b2 new_stateid=sb2
        9..9.1 B close f
        """,
        # a chain, not a circle
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        0..0.1 B lock f 20+10 write owner=b new_stateid=sb
        1..1.1 C lock f 20+10 write blocking owner=c -> DENIED holder_clientid=B holder_owner=b
        2..2.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        10..10.1 C lock f 20+10 write blocking owner=c -> DENIED holder_clientid=B holder_owner=b
        11..11.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        """,
        # B gave its range back before it waited
        """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        0..0.1 B lock f 20+10 write owner=b new_stateid=sb
        1..1.1 A lock f 20+10 write blocking owner=a -> DENIED holder_clientid=B holder_owner=b
        1.5..1.6 B unlock f 20+10 stateid=sb
        2..2.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        3..3.1 A lock f 20+10 write blocking owner=a new_stateid=sa
        """,
        # across files, other owners, and it resolved
        """
        0..0.1 A lock f 0+10 write owner=a1 new_stateid=sa
        0..0.1 B lock g 0+10 write owner=b1 new_stateid=sb
        1..1.1 A lock g 0+10 write blocking owner=a2 -> DENIED holder_clientid=B holder_owner=b1
        2..2.1 B lock f 0+10 write blocking owner=b2 -> DENIED holder_clientid=A holder_owner=a1
        10..10.1 A lock g 0+10 write blocking owner=a2 -> DENIED holder_clientid=B holder_owner=b1
        11..11.1 B unlock g 0+10 stateid=sb
        12..12.1 A lock g 0+10 write blocking owner=a2 new_stateid=sa2
        """,
    ),
    exercised_by=frozenset({"lock"}),
    options={"stood_ns": 5 * NS, "gave_up_ns": NS},
)
