"""Two hosts use one client identity.

**What it checks.** The name that clients give in EXCHANGE_ID or SETCLIENTID, together with the boot
verifier and the address it came from. It fires when a verifier comes back from its address after another
address has used the same name with another verifier.

**Why it matters.** The server takes the second host for a reboot of the first and drops all opens and
locks of the first, which recovers and thereby drops those of the second. Both lose locks without an
error, and both hang in recovery again and again. Cloned machines and containers with one host name are
the usual cause.

**When it is wrong.** A host that rebooted has a new verifier and never uses the old one again: silent.
Several connections or addresses of one host (nconnect, trunking) have one verifier: silent. Two hosts
behind one translated address can't be told apart and aren't reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.clients import server_subject
from analyzer.analysis.identities import SharedIdentityRow
from analyzer.analysis.words import duration, listed, times
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule


def check(case: Case) -> Iterator[Hit]:
    """One hit per server and identity."""
    for row in case.rows(SharedIdentityRow):
        subject = server_subject(row.endpoint)
        if row.client is not None:
            subject = Subject("client", f"{row.client}@{row.endpoint}", f"client identity {row.identity}")
        yield Hit(
            subject=subject,
            message=f"hosts {listed(row.addresses, 5)} share the client identity {row.identity!r} at "
            f"server {row.endpoint}: they took it from each other and back {times(row.returns)} over "
            f"{duration(row.last_ns - row.first_ns)}",
            evidence=row.evidence,
            when=(row.first_ns, row.last_ns),
            facts={
                "returns": row.returns,
                "hosts": len(row.addresses),
                "verifiers": len(row.verifiers),
                "lasted_ns": row.last_ns - row.first_ns,
            },
        )


RULE = Rule(
    id="client-identity-shared",
    title="Two hosts with one client identity",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(SharedIdentityRow,),
    check=check,
    remedy="Give each host a name of its own: a unique host name, or `options nfs "
    "nfs4_unique_id=$(uuidgen)` in /etc/modprobe.d/nfs.conf (per container: "
    "/sys/fs/nfs/net/nfs_client/identifier), then mount again.",
    references=("RFC 8881, sections 2.4 and 18.35.4", "RFC 7530, sections 9.1.1 and 16.33.5"),
    exercised_by=frozenset({"session"}),
    follows_state=False,
    bad=(
        """
        1 A session - op=EXCHANGE_ID identity=node value=v1 connection=10.0.0.1:900>server:2049
        2 A session - op=EXCHANGE_ID identity=node value=v2 connection=10.0.0.2:900>server:2049
        3 A session - op=EXCHANGE_ID identity=node value=v1 connection=10.0.0.1:900>server:2049
        """,
    ),
    good=(
        # a reboot that also brought a new address
        """
        1 A session - op=EXCHANGE_ID identity=node value=v1 connection=10.0.0.1:900>server:2049
        2 A session - op=EXCHANGE_ID identity=node value=v2 connection=10.0.0.2:900>server:2049
        3 A session - op=EXCHANGE_ID identity=node value=v2 connection=10.0.0.2:901>server:2049
        """,
        # nconnect and trunking: one verifier
        """
        1 A session - op=EXCHANGE_ID identity=node value=v1 connection=10.0.0.1:900>server:2049
        2 A session - op=EXCHANGE_ID identity=node value=v1 connection=10.0.0.2:900>server:2049
        3 A session - op=EXCHANGE_ID identity=node value=v1 connection=10.0.0.1:901>server:2049
        """,
    ),
)
