"""A server restarted, or lost its memory without a restart.

**What it checks.** Whether the write verifier that WRITE and COMMIT return changed for good, and whether
client ids came to be handed out by another server instance, with the refusals that go with it
(BADSESSION, STALE_CLIENTID, STALE_STATEID, GRACE). It counts the WRITEs that were answered UNSTABLE
before and never committed under the old verifier.

**Why it matters.** A restart drops what the server had only in memory: unstable data, opens, locks and
sessions. Clients must send that data again and reclaim their state; an application whose client died
meanwhile has lost it.

**When it is wrong.** A server may change its verifier without a restart: knfsd does after a write error,
clusters do when storage fails over. If a session survived, the sentence says so. Servers that show
several verifiers at once (one per volume) aren't reported. Data counted as not committed may have been
sent again by the client; the findings on durability tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels, server_subject
from analyzer.analysis.server import RestartRow
from analyzer.analysis.words import counted, duration, listed, size
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per change of server instance."""
    labels = Labels.of(case)
    for row in case.rows(RestartRow):
        window = row.not_after_ns - row.not_before_ns
        if row.session_survived:
            event = "changed its write verifier without losing sessions (write error or storage failover)"
        else:
            event = "restarted"
        yield Hit(
            subject=server_subject(row.endpoint),
            message=f"server {row.endpoint} {event}, within {duration(window)}: "
            f"{_signs(row)}{_lost(row, labels)}",
            evidence=row.evidence,
            when=(row.not_before_ns, row.not_after_ns),
            leans_on=(),  # both instances spoke in the frames that are cited
            severity=Severity.HIGH if row.uncommitted_writes else None,
            facts={
                "window_ns": window,
                "uncommitted_writes": row.uncommitted_writes,
                "uncommitted_bytes": row.uncommitted_bytes,
                "uncommitted_files": row.uncommitted_files,
                "old_verifier": row.old_verifier or "",
                "new_verifier": row.new_verifier or "",
                "old_instance": row.old_instance or "",
                "new_instance": row.new_instance or "",
            },
        )


def _signs(row: RestartRow) -> str:
    parts = []
    if row.old_verifier is not None:
        parts.append(f"write verifier {row.old_verifier} became {row.new_verifier}")
    if row.old_instance is not None:
        parts.append(f"client ids began with {row.old_instance}, now with {row.new_instance}")
    told = {"session loss": "unknown sessions or state", "grace": "GRACE"}
    after = listed([told[sign] for sign in row.signs if sign in told])
    return listed(parts) + (f", then clients were refused for {after}" if after else "")


def _lost(row: RestartRow, labels: Labels) -> str:
    if not row.uncommitted_writes:
        return ""
    owners = listed([labels.bare(client) for client in row.uncommitted_clients])
    return (
        f"; {counted(row.uncommitted_writes, 'UNSTABLE WRITE')} ({size(row.uncommitted_bytes)}, "
        f"{counted(row.uncommitted_files, 'file')}) of {owners} had not been committed"
    )


RULE = Rule(
    id="server-restart",
    title="Server restarted",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(ClientRow, RestartRow),
    check=check,
    remedy="Look for the cause on the server at that time (`journalctl -u nfs-server -u nfs-ganesha`), "
    "and check files that were written without fsync before it by clients that didn't stay up.",
    references=("RFC 8881, sections 8.4, 18.3.4 and 18.32.4", "RFC 7530, section 9.6"),
    bad=(
        """
        1 A write f 0+10 unstable value=v1
        5 A commit f value=v2
        """,
        """
        1 A session - clientid=0x6b0e298a00000001
        1 B session - clientid=0x6b0e298a00000002
        9 A session - clientid=0x6b0e298a00000001 -> BADSESSION
        9.1 A session - op=EXCHANGE_ID clientid=0x6b0e299600000001
        9.2 A session - clientid=0x6b0e299600000001
        """,
    ),
    good=(
        # a verifier per volume: both live on
        """
        1 A write f 0+10 unstable value=v1
        2 A write g 0+10 unstable value=v2
        3 A commit f value=v1
        4 A commit g value=v2
        """,
        # two volumes written one after the other
        "1 A write f 0+10 unstable value=v1\n2 A commit f value=v1\n3 A write g 0+10 unstable value=v2",
        # one client's lease ran out at a server whose client ids tell nothing
        """
        1 A session - clientid=0x1111111111111111
        99 A session - clientid=0x1111111111111111 -> BADSESSION
        99.1 A session - op=EXCHANGE_ID clientid=0x2222222222222222
        99.2 A session - clientid=0x2222222222222222
        """,
    ),
)
