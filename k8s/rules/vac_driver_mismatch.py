"""A claim whose StorageClass and VolumeAttributesClass belong to different drivers.

A VolumeAttributesClass holds for the driver that it names. For a volume of another one it is never applied:
the claim reports the change as infeasible or waits, and has no limit.

It is wrong only where both names belong to one driver under two names.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Attributes, Claim
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per claim."""
    for claim in case.rows(Claim):
        attributes, storage = claim.attributes, claim.storage
        if attributes is None or storage is None or not attributes.driver_name or not storage.provisioner:
            continue
        known = attributes.driver
        same_name = known is not None and known is storage.driver and not known.suffix
        if attributes.driver_name == storage.provisioner or same_name:
            continue
        path = (*claim.path, "volumeAttributesClassName")
        yield Hit(
            subject=subject_of(claim.obj),
            message=f"{claim.obj.label} is made by {storage.provisioner} and names {attributes.obj.label},"
            f" which is for {attributes.driver_name}",
            evidence=(claim.obj.source.reference(path), attributes.obj.source.reference(("driverName",))),
            facts={"provisioner": storage.provisioner, "driver": attributes.driver_name},
            key=claim.name,
        )


RULE = Rule(
    id="vac-driver-mismatch",
    title="A claim names a VolumeAttributesClass of another driver",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(
        Claim,
        Attributes,
    ),
    check=check,
    remedy="Name a VolumeAttributesClass of the same driver.",
    references=("Kubernetes: VolumeAttributesClass, driverName",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: pd.csi.storage.gke.io
parameters: {iops: "6000"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: ml}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, volumeAttributesClassName: gold}
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: ebs.csi.aws.com
parameters: {iops: "6000"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: ml}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, volumeAttributesClassName: gold}
""",
    ),
    exercised_by=frozenset({"VolumeAttributesClass"}),
    needs=frozenset({"PersistentVolumeClaim", "StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
