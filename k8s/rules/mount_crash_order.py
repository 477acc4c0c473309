"""A mount that lets the file system write things in another order than programs count on.

`data=writeback` writes metadata before data, so that a file holds old blocks after a crash.
`noauto_da_alloc` takes away what saves programs that write a temporary file and rename it without fsync, as
many checkpoint writers do: the new file is there and empty. A long `commit` interval loses that many
seconds. `nowsync` of CephFS lets create and unlink fail after they have returned.

It is wrong where every program syncs files and folders by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "order")


RULE = Rule(
    id="mount-crash-order",
    title="A crash leaves files torn or empty",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=("ext4(5): data, auto_da_alloc, commit", "btrfs(5): nodatacow", "mount.ceph(8): wsync"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: ext4}
mountOptions: [data=writeback]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: ext4}
mountOptions: [noauto_da_alloc]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: cephfs}
provisioner: rook-ceph.cephfs.csi.ceph.com
parameters: {kernelMountOptions: "nowsync"}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: ext4}
mountOptions: [data=ordered, commit=5]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: cephfs}
provisioner: rook-ceph.cephfs.csi.ceph.com
parameters: {kernelMountOptions: "wsync"}""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
