"""A shared NFS mount whose protocol version is left to chance, or pinned to an old one.

Without `vers` each node agrees with the server on the newest that both know. Nodes with different kernels
or settings (`/etc/nfsmount.conf`) then mount one volume with different versions, and locks of NFS 3 and NFS
4 need not see each other. NFS 3 keeps locks in a protocol of its own (NLM) that loses them when a firewall
or statd fails; 4.0 has no sessions, so that a lost reply is done twice.

It is wrong where all nodes and the server are alike, or the server has one version only.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet
from k8s.objects import dotted
from k8s.words import subject_of, used_by

_WORDS = {
    "": "leaves the NFS version open: nodes may differ, and with them locks",
    "3": "pins NFS 3, whose locks are kept in a protocol of its own and lost when statd fails",
    "4.0": "pins NFS 4.0, which has no sessions: after a lost reply an operation may be done twice",
}


def check(case: Case) -> Iterator[Hit]:
    """One hit per shared mount with options but without a good version."""
    for group in case.rows(OptionSet):
        if group.filesystem != "nfs" or not group.shared or not group.writers or group.implicit:
            continue
        if not group.sure or group.version not in _WORDS:
            continue
        yield Hit(
            subject=subject_of(group.obj),
            message=f"{group.obj.label} {_WORDS[group.version]}{used_by(group.uses)}",
            evidence=(group.obj.source.reference(group.path),),
            facts={"version": group.version or "open", "path": dotted(group.path)},
            key=dotted(group.path),
        )


RULE = Rule(
    id="nfs-version-open",
    title="A shared NFS mount leaves its version open or pins an old one",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Add `nfsvers=4.1` (or `4.2`) to the mount options, if the server has it.",
    references=("nfs(5): nfsvers", "RFC 8881, section 2.10.6 (exactly once semantics)"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
mountOptions: [hard]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
mountOptions: [hard, nfsvers=4.1]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: efs}
provisioner: efs.csi.aws.com
mountOptions: [tls]""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume"}),
    follows_state=False,  # each hit stands on the options that it cites
    about="object",
)
