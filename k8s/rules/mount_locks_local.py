"""A volume that several nodes mount, on which locks are not seen by the other nodes.

`nolock` and `local_lock` (NFS 2 and 3), `nobrl` (SMB) and `localflock` (Lustre) keep locks on the node.
Two pods on two nodes then hold the same exclusive lock: SQLite and other databases are damaged, dataset
caches and lock files of a training job are written by two ranks at once. Nothing fails at the time. With
`noflock` lock calls fail instead, which is loud and harmless by comparison.

`nolock` has no effect with NFS 4, where the kernel clears it: see mount-option-no-effect. Where the options
leave the version open the finding weighs less, for it depends on the server.

It is wrong where pods of one node only use the volume, or where no program on it takes locks.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "locks")


RULE = Rule(
    id="mount-locks-local",
    title="Locks on a shared volume hold on one node only",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=("nfs(5): nolock, local_lock", "mount.cifs(8): nobrl", "mount.lustre(8): localflock"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=3, nolock]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: azurefile}
provisioner: file.csi.azure.com
mountOptions: [hard, nobrl]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: ["nolock,tcp,noresvport", vers=3]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1, nolock]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: azurefile}
provisioner: file.csi.azure.com
mountOptions: [hard, mfsymlinks]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=3]""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
