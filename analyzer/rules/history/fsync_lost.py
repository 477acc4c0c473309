"""What it checks: workers write, fsync gets 0, then a server or a client is killed or cut off. Afterwards
every unit must hold the version that was acknowledged last, or a newer one.

Why it matters: fsync is the only proof that a checkpoint is safe.

When it is wrong: if the unit was overwritten by a worker whose writes aren't in the history.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.words import counted
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.promised import READS, Group, hits

#: What helps, by family of file systems.
_REMEDIES = {
    "nfs": ("Export with `sync` (knfsd's default), and look for a volatile write cache below the server."),
    "cephfs": (
        "An evicted client loses what it had not flushed, and fsync may return 0 on a "
        "descriptor that was opened anew: look for `evict` in the MDS log and use "
        "`recover_session=no`."
    ),
    "ceph-fuse": (
        "An evicted client loses what it had not flushed: look for `evict` in the MDS "
        "log, and check the file after each fsync by reading it from another node."
    ),
}


def _lost(group: Group) -> str:
    b = group.worst
    return (
        f"{b.object}: version {b.expected} that {b.process} on {b.client} had written and fsync "
        f"acknowledged is "
        + (f"gone, version {b.seen} lies there" if b.seen >= 0 else "gone, the unit is broken")
        + (f" after {b.detail}" if b.detail else "")
        + f": {counted(group.count, 'unit')}"
    )


_DESCRIBE = {"lost": _lost}


def check(case: Case) -> Iterator[Hit]:
    """One hit per kind of breach."""
    yield from hits(case, "durability", _DESCRIBE, remedies=_REMEDIES)


RULE = Rule(
    id="fsync-lost",
    title="Data that fsync had acknowledged is gone",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=READS,
    check=check,
    remedy=(
        "Look for `async` in the server's exports, for volatile write caches below it, and for "
        "clients that were evicted."
    ),
    references=(
        "fsync(2)",
        "RFC 8881 section 18.3, COMMIT",
        "exports(5), async",
    ),
    bad=(
        """
        workload durability
        0..1 A write f =1 v1 0+4096 handle=7
        1..2 A commit f handle=7
        3..4 A fault - name=server-kill
        5..6 B read f =0 v0 0+4096 phase=audit
        """,
    ),
    good=(
        """
        workload durability
        0..1 A write f =1 v1 0+4096 handle=7
        1..2 A commit f handle=7
        3..4 A fault - name=server-kill
        5..6 B read f =1 v1 0+4096 phase=audit
        5..6 B read f =0 v0 4096+4096 phase=audit
        """,
        """
        workload durability  # never acknowledged
        0..1 A write f =1 v1 0+4096 handle=7
        1..2 A commit f handle=7
        2..3 A write f =2 v2 0+4096 handle=7
        3..4 A commit f handle=7 -> EIO
        5..6 B read f =1 v1 0+4096 phase=audit
        """,
    ),
    exercised_by=frozenset({"workload durability"}),
    follows_state=False,
    witness="client",
    promise="durability",
)
