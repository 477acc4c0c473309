"""A mount on which fsync returns although the data is only on the node.

JuiceFS with `writeback` keeps writes on the node's cache disk and uploads them later; SMB with
`nostrictsync` doesn't ask the server to flush. A checkpoint that was "saved and synced" is gone with the
node or the mount pod, and other nodes can't read it until the upload is done.

It is wrong where what is written can be made again, such as scratch data.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "fsync")


RULE = Rule(
    id="mount-fsync-ignored",
    title="fsync returns before data is safe",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=("JuiceFS documentation: client write cache", "mount.cifs(8): nostrictsync"),
    bad=(
        """apiVersion: v1
kind: PersistentVolume
metadata: {name: jfs}
spec:
  accessModes: [ReadWriteMany]
  mountOptions: [writeback]
  csi: {driver: csi.juicefs.com, volumeHandle: jfs}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: azurefile}
provisioner: file.csi.azure.com
mountOptions: [hard, nostrictsync]""",
    ),
    good=(
        """apiVersion: v1
kind: PersistentVolume
metadata: {name: jfs}
spec:
  accessModes: [ReadWriteMany]
  mountOptions: [cache-size=1024]
  csi: {driver: csi.juicefs.com, volumeHandle: jfs}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: azurefile}
provisioner: file.csi.azure.com
mountOptions: [hard]""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
