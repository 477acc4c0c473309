"""A key that looks like protection and is none.

Drivers have values that switch a limit off: `-1` for HPE, `0` for PowerFlex and JuiceFS, `max` for LVM. A
review sees the key and passes the class, and the volume may take everything.

It is wrong where no limit is wanted: then leave the key out, so that nobody takes it for one.
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
    """One hit per key, of classes and of VolumeAttributesClasses."""
    for limit in limits_of(case):
        if limit.unlimited and limit.value:
            yield Hit(
                subject=subject_of(limit.obj),
                message=f"{limit.obj.label} sets {limit.name} to {limit.value}, which means no limit",
                evidence=(limit.obj.source.reference(limit.path),),
                facts={"key": limit.name, "value": limit.value, "path": dotted(limit.path)},
                key=limit.name,
            )


RULE = Rule(
    id="qos-unlimited-value",
    title="A limit is set to a value that means no limit",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(
        ClassQos,
        Attributes,
    ),
    check=check,
    remedy="Set the key to the number that the volume may have.",
    references=(
        "HPE CSI driver: limitIops, limitMbps",
        "Dell CSI PowerFlex: bandwidthLimitInKbps, iopsLimit",
        "OpenEBS LVM: VolumeAttributesClass keys",
    ),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: hpe}
provisioner: csi.hpe.com
parameters: {limitIops: "-1"}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: jfs}
provisioner: csi.juicefs.com
mountOptions: [upload-limit=0]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: hpe}
provisioner: csi.hpe.com
parameters: {limitIops: "4000"}""",
    ),
    exercised_by=frozenset({"StorageClass", "VolumeAttributesClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
