"""A file system that never flushes the disk's cache.

With `barrier=0` or `nobarrier` ext4 and btrfs commit their journal without telling the disk to write out
its cache. fsync gets faster and means nothing: after a power cut, or when the node is killed, the disk may
have written the commit and not what was committed. Checkpoints and databases that were synced are lost,
and the file system itself can be damaged.

It is wrong where every layer below is documented to keep acknowledged writes through a loss of power (a
battery-backed controller, disks with capacitors). Then accept the finding with an annotation that says so.
A fast disk is no reason: drives with power-loss protection ignore flushes by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "barrier")


RULE = Rule(
    id="mount-barriers-off",
    title="A file system is mounted without write barriers",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=("ext4(5): barrier, nobarrier", "btrfs(5): nobarrier"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: ext4}
mountOptions: [noatime, barrier=0]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: btrfs}
mountOptions: [nobarrier]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: ext4}
mountOptions: ["noatime,nobarrier"]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: ext4}
mountOptions: [noatime, barrier=1]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: ext4}
mountOptions: [nobarrier, barrier=1]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: ext4}
mountOptions: [noatime]""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
