"""A key that the driver knows and that does nothing with this type of volume.

`throughput` is for gp3 only, `DiskIOPSReadWrite` for UltraSSD and PremiumV2, the keys of ceph-csi's
classes for the rbd-nbd mounter. Beside another type the driver ignores the key or refuses to make the
volume; either way the limit that the class seems to have isn't there.

It is wrong where a newer driver takes the key for more types: see its release notes.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Attributes
from k8s.limits import limits_of
from k8s.objects import dotted
from k8s.qos import ClassQos
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per key."""
    for limit in limits_of(case):
        if limit.missing:
            yield Hit(
                subject=subject_of(limit.obj),
                message=f"{limit.obj.label} sets {limit.name}, which has no effect without {limit.missing}",
                evidence=(limit.obj.source.reference(limit.path),),
                facts={"key": limit.name, "needs": limit.missing, "path": dotted(limit.path)},
                remedy=f"Set `{limit.missing}`, or take `{limit.name}` out and limit in another way.",
                key=limit.name,
            )


RULE = Rule(
    id="qos-key-not-applicable",
    title="A limit has no effect beside the other parameters",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(
        ClassQos,
        Attributes,
    ),
    check=check,
    remedy="Change the type, or take the key out.",
    references=(
        "AWS EBS CSI driver: parameters",
        "Azure Disk CSI driver: parameters",
        "ceph-csi: QoS of RBD",
    ),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: ebs}
provisioner: ebs.csi.aws.com
parameters: {type: io2, throughput: "500"}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
parameters: {baseIops: "2000"}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: ebs}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, throughput: "500"}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
parameters: {baseIops: "2000", mounter: rbd-nbd}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: ebs}
provisioner: ebs.csi.aws.com
parameters: {iops: "6000"}""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
