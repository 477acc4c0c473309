"""A network file system that returns an error instead of waiting for its server.

With `soft` or `softerr` an NFS client gives up after a few retries; SMB does so unless told `hard`. Writes
that programs believe done are thrown away, and the error shows at fsync or close, which many programs
don't check: a checkpoint ends truncated and nobody notices until it is loaded. A server that restarts, or
a network that drops packets for a minute, is enough.

Longhorn mounts its shared (ReadWriteMany) volumes with `softerr` unless `nfsOptions` says otherwise; no
manifest shows it.

It is wrong where nobody writes to the volume (the finding is then only information), or where every
program checks the result of fsync and close and starts over.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "soft")


RULE = Rule(
    id="mount-gives-up",
    title="A network mount gives up and loses writes",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=(
        "nfs(5): hard, soft, softerr",
        "mount.cifs(8): soft, hard",
        "Longhorn documentation: RWX volumes, NFS mount options",
    ),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [soft, timeo=30, retrans=2]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1, softerr]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: azurefile}
provisioner: file.csi.azure.com
mountOptions: [nosharesock]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {accessModes: [ReadWriteMany], storageClassName: azurefile}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: longhorn}
provisioner: driver.longhorn.io
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteMany], storageClassName: longhorn}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [hard, timeo=600]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [soft, hard]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: azurefile}
provisioner: file.csi.azure.com
mountOptions: [hard]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: longhorn}
provisioner: driver.longhorn.io
parameters: {nfsOptions: "vers=4.2,hard"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteMany], storageClassName: longhorn}""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
