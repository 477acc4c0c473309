"""A volume that several nodes mount, on which a node believes old names and attributes for long.

Long `actimeo`, `attr_timeout`, `entry-cache` and the like save round trips to the server. Meanwhile a rank
that waits for a marker file or follows a `latest` link doesn't see what another rank has made, and reads a
file with its old length.

It is wrong where the data never changes while it is mounted: mount it read-only.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "stale")


RULE = Rule(
    id="mount-cache-stale",
    title="A shared mount believes old metadata for long",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=("nfs(5): actimeo, lookupcache", "mount.cifs(8): actimeo", "mount.fuse3(8): attr_timeout"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1, actimeo=600]""",
        """apiVersion: v1
kind: PersistentVolume
metadata: {name: jfs}
spec:
  accessModes: [ReadWriteMany]
  mountOptions: [entry-cache=300]
  csi: {driver: csi.juicefs.com, volumeHandle: jfs}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1, actimeo=30]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [actimeo=600, actimeo=5]""",
        """apiVersion: v1
kind: PersistentVolume
metadata: {name: jfs}
spec:
  accessModes: [ReadWriteMany]
  mountOptions: [entry-cache=1]
  csi: {driver: csi.juicefs.com, volumeHandle: jfs}""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
