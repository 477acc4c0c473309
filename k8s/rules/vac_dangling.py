"""A claim whose `volumeAttributesClassName` is nobody's name.

The volume isn't made, or not changed: `status.modifyVolumeStatus` of the claim stays Pending. The limit
that the claim seems to have isn't there.

It is wrong where the class is in the cluster and not in the manifests that were read. The rule is silent
where no VolumeAttributesClass is among them at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Attributes, Claim
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per claim."""
    if not list(case.rows(Attributes)):
        return
    for claim in case.rows(Claim):
        name = claim.attributes_name
        if name and claim.attributes is None and "{" not in name and "$" not in name:
            path = (*claim.path, "volumeAttributesClassName")
            yield Hit(
                subject=subject_of(claim.obj),
                message=f"{claim.obj.label} names the VolumeAttributesClass {name}, which isn't there",
                evidence=(claim.obj.source.reference(path),),
                facts={"class": name},
                key=claim.name,
            )


RULE = Rule(
    id="vac-dangling",
    title="A claim names a VolumeAttributesClass that does not exist",
    severity=Severity.MEDIUM,
    confidence=Confidence.MEDIUM,
    blame=Blame.CONFIGURATION,
    reads=(
        Claim,
        Attributes,
    ),
    check=check,
    remedy="Make the class, or name one that is there: `kubectl get vac`.",
    references=("Kubernetes: VolumeAttributesClass",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: ebs.csi.aws.com
parameters: {iops: "6000"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: ml}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, volumeAttributesClassName: glod}
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
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
    needs=frozenset({"PersistentVolumeClaim"}),
    follows_state=True,  # the class may be among what was not seen
    about="object",
)
