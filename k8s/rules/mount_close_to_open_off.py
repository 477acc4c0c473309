"""A volume that several nodes mount, on which a node may read an old version of a file that another has
written and closed.

Network file systems promise little, but they promise this: what one node has closed, another sees when it
opens the file. `nocto`, `cache=loose`, `kernel_cache`, `open-cache` and the like take the promise back for
speed. Ranks then load half of a new checkpoint and half of the old one.

It is wrong where the data never changes while it is mounted, such as a data set: mount it read-only, and
the finding is gone or only information.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "coherence")


RULE = Rule(
    id="mount-close-to-open-off",
    title="A shared mount gives up close-to-open consistency",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=(
        "nfs(5): cto, nocto",
        "mount.cifs(8): cache",
        "mount.fuse3(8): kernel_cache",
        "JuiceFS documentation: cache",
    ),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1, nocto]""",
        """apiVersion: v1
kind: PersistentVolume
metadata: {name: jfs}
spec:
  accessModes: [ReadWriteMany]
  mountOptions: [open-cache=7200]
  csi: {driver: csi.juicefs.com, volumeHandle: jfs}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nocto, cto]""",
        """apiVersion: v1
kind: PersistentVolume
metadata: {name: jfs}
spec:
  accessModes: [ReadWriteMany]
  mountOptions: [open-cache=0]
  csi: {driver: csi.juicefs.com, volumeHandle: jfs}""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
