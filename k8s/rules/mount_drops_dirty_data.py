"""A CephFS mount that throws away what it has not written when the cluster has evicted it, and goes on.

With `recover_session=clean` a client that was blocklisted (after a network failure, or a hang of the node)
reconnects by itself. Dirty pages are dropped, open files become invalid and locks are stale. A rank goes on
with a checkpoint that never reached the storage. With `no`, the default, calls fail until the pod is
restarted: that is worse for availability and better for the data.

It is wrong where every program syncs what it writes and opens its files anew after an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "recovery")


RULE = Rule(
    id="mount-drops-dirty-data",
    title="A mount drops unsaved data to go on after a disconnection",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=("mount.ceph(8): recover_session",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: cephfs}
provisioner: rook-ceph.cephfs.csi.ceph.com
parameters: {kernelMountOptions: "recover_session=clean"}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: cephfs}
provisioner: rook-ceph.cephfs.csi.ceph.com
parameters: {kernelMountOptions: "recover_session=no"}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: cephfs}
provisioner: rook-ceph.cephfs.csi.ceph.com
parameters: {kernelMountOptions: "ms_mode=prefer-crc"}""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
