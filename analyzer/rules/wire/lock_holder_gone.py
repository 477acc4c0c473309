"""What it checks: a client that held a byte-range lock, for which others waited, sent nothing to the
server for longer than its lease.

Why it matters: the holder has crashed, hangs, or is cut off by the network, and everybody who wants the
lock stands still until the server lets its lease run out. Some servers keep the locks of a silent client
longer than the lease as long as nobody asks, or as long as their administrator likes.

When it is wrong: if the capture misses one of the holder's connections (several network paths, `nconnect`
over interfaces that were not captured). The end of the holder's TCP connection is not looked at. Without
the lease time in the capture (an attribute that clients ask for at mount) the verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.lock_words import NS, file_name, file_subject, seconds
from analyzer.analysis.locks import LockWait
from analyzer.analysis.server import ServerRow
from analyzer.analysis.silence import SilenceRow
from analyzer.analysis.words import counted
from analyzer.core.errors import PremiseError
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per silence and file."""
    leases = {row.endpoint: row.lease_seconds for row in case.rows(ServerRow)}
    silences: dict[tuple[str, str], list[SilenceRow]] = {}
    for row in case.rows(SilenceRow):
        silences.setdefault((row.endpoint, row.client), []).append(row)
    labels = Labels.of(case)
    found: dict[tuple[str, str, str, int], list[LockWait]] = {}
    unjudged = 0
    for wait in case.rows(LockWait):
        holder = wait.holder_client
        if holder is None or holder == wait.client:
            continue
        for silence in silences.get((wait.endpoint, holder), ()):
            if not _during(silence, wait):
                continue
            lease = leases.get(wait.endpoint)
            lasted = silence.end_ns - silence.start_ns
            if lease is None:
                unjudged += lasted >= case.options["suspect_ns"]
            elif lasted > lease * NS:
                found.setdefault((wait.endpoint, wait.object, holder, silence.start_ns), []).append(wait)
    for key, waits in found.items():
        silence = next(s for s in silences[key[0], key[2]] if s.start_ns == key[3])
        yield _hit(silence, waits, leases[key[0]] or 0, labels)
    if unjudged and not found:
        raise PremiseError(
            f"{counted(unjudged, 'wait')} stood behind a holder that was silent for long, but the capture "
            "doesn't show the lease time; one that includes a mount would settle it"
        )


def _during(silence: SilenceRow, wait: LockWait) -> bool:
    """Whether the waiter still waited, behind this holder, when the holder had become silent."""
    until = wait.last_ns if wait.granted_ns is None else wait.granted_ns
    if wait.released_ns is not None:
        until = min(until, wait.released_ns)
    return silence.start_ns < until and wait.asked_ns < silence.end_ns


def _hit(silence: SilenceRow, waits: list[LockWait], lease: int, labels: Labels) -> Hit:
    first = waits[0]
    waiters = {w.client for w in waits}
    lasted = silence.end_ns - silence.start_ns
    longest = max(w.wait_ns for w in waits)
    back = "" if silence.ended else " up to the end of the capture"
    holder = labels.client(first.holder_client)
    return Hit(
        subject=file_subject(first.endpoint, first.object, first.path),
        message=(
            f"{holder} held a lock on {file_name(first.path, first.object)} and sent nothing for "
            f"{seconds(lasted)}{back} (the lease is {lease} s) while {counted(len(waiters), 'client')} "
            f"waited for it, the longest {seconds(longest)}"
        ),
        evidence=(*silence.evidence, *first.evidence),
        when=(silence.start_ns, silence.end_ns),
        leans_on=(silence.client, *sorted(waiters)),
        facts={
            "holder": first.holder_client or "",
            "silent_ns": lasted,
            "lease_seconds": lease,
            "waiters": len(waiters),
            "longest_wait_ns": longest,
            "came_back": int(silence.ended),
        },
    )


RULE = Rule(
    id="lock-holder-gone",
    title="The holder of a lock that others wait for is gone",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CLIENT,
    reads=(LockWait, SilenceRow, ServerRow, ClientRow),
    check=check,
    remedy=(
        "Look at the holder: is it up, is its mount hanging (`cat /proc/PID/stack`), is the network path "
        "good? If it will not come back, take its state away at the server (Linux knfsd: `echo expire > "
        "/proc/fs/nfsd/clients/N/ctl`); a shorter lease (`nfs.conf`, `[nfsd] lease-time=`) bounds the "
        "wait."
    ),
    references=("RFC 8881 section 8.3", "RFC 8881 section 8.4.3", "nfs.conf(5)"),
    bad=(
        """
        0..0.01 A getattr f lease_seconds=10
        0.1..0.2 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        5..5.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        13..13.1 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
    ),
    good=(
        # the holder renews its lease
        """
        0..0.01 A getattr f lease_seconds=10
        0.1..0.2 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        5..5.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        6..6.1 A session -
        12..12.1 A unlock f 0+10 stateid=sa
        13..13.1 B lock f 0+10 write blocking owner=b new_stateid=sb
        """,
        # it became silent after it had given the lock back
        """
        0..0.01 A getattr f lease_seconds=10
        0.1..0.2 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        2..2.1 A unlock f 0+10 stateid=sa
        3..3.1 B lock f 0+10 write blocking owner=b new_stateid=sb
        30..30.1 B unlock f 0+10 stateid=sb
        """,
    ),
    exercised_by=frozenset({"lock"}),
    options={"suspect_ns": 30 * NS},
)
