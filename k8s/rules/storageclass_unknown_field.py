"""A key at the top of a StorageClass that Kubernetes doesn't have.

There are seven: provisioner, parameters, reclaimPolicy, mountOptions, allowVolumeExpansion,
volumeBindingMode and allowedTopologies. Anything else is refused, or dropped without a word by older
clients. `ioLimits`, which some articles recommend, has never existed: limits are keys of the driver in
`parameters`, or a VolumeAttributesClass. volumeBindingMode and allowedTopologies say where a volume is
made, not how fast it is.

It is never wrong: the list is that of the API.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Change, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import StorageClass
from k8s.words import subject_of

_FIELDS = frozenset(
    {"apiVersion", "kind", "metadata", "provisioner", "parameters", "reclaimPolicy", "mountOptions",
     "allowVolumeExpansion", "volumeBindingMode", "allowedTopologies"}
)  # fmt: skip
_LIMITS = ("iolimit", "qos", "iops", "throughput", "bandwidth", "limits")


def check(case: Case) -> Iterator[Hit]:
    """One hit per field."""
    for storage in case.rows(StorageClass):
        for name in storage.obj.data:
            if name in _FIELDS:
                continue
            limits = any(word in name.lower() for word in _LIMITS)
            tail = (
                ": it is refused or ignored, and limits nothing" if limits else ": it is refused or ignored"
            )
            remedy = "Take the field out."
            if limits:
                remedy = (
                    "Take the field out, and limit with the driver's keys in `parameters`, or with a"
                    " VolumeAttributesClass: `storage-analyzer drivers NAME` lists them."
                )
            elif "/" in name or name.lower() in ("fstype", "type"):
                remedy = f"Move `{name}` into `parameters`."
            yield Hit(
                subject=subject_of(storage.obj),
                message=f"{storage.obj.label} has a field {name}, which StorageClass doesn't have{tail}",
                evidence=(storage.obj.source.reference((name,)),),
                facts={"field": name, "path": name},
                severity=Severity.HIGH if limits else Severity.MEDIUM,
                remedy=remedy,
                key=name,
                changes=(Change(storage.obj.source.reference(), (name,)),),
            )


RULE = Rule(
    id="storageclass-unknown-field",
    title="A StorageClass has a field that does not exist",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(StorageClass,),
    check=check,
    remedy="Take the field out.",
    references=("Kubernetes API: storage/v1 StorageClass has seven fields",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
ioLimits: {iops: 1000}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: pmax}
provisioner: csi-powermax.dellemc.com
csi.storage.k8s.io/fstype: xfs""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {iops: "4000"}
allowVolumeExpansion: true""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
