"""A mount option that the kernel has dropped: the mount is refused, and the pod waits in ContainerCreating.

XFS lost `barrier` and `nobarrier` with Linux 4.19 and some older options with 4.0. Kubernetes doesn't look
into mount options, so that the class and the claim are fine and only the pod hangs. On a kernel old enough
to take `nobarrier`, fsync didn't reach the disk.

It is wrong on nodes whose kernel is older than the one named.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "removed")


RULE = Rule(
    id="mount-option-removed",
    title="A mount option no longer exists, so that the mount fails",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=("Linux Documentation/admin-guide/xfs.rst: removed mount options",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: xfs}
mountOptions: [nobarrier]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, csi.storage.k8s.io/fstype: xfs}
mountOptions: [nouuid]""",
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
