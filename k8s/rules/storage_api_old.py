"""A StorageClass or VolumeAttributesClass in an old API version.

`storage.k8s.io/v1beta1` of StorageClass was dropped with Kubernetes 1.22. VolumeAttributesClass is in
`storage.k8s.io/v1` since 1.34; `v1alpha1` and `v1beta1` came with feature gates that were off by default.

It is wrong on a cluster that has the old version only.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Change, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.objects import KubeObject
from k8s.words import subject_of

_OLD = {
    ("StorageClass", "v1beta1"): "was dropped with Kubernetes 1.22",
    (
        "VolumeAttributesClass",
        "v1alpha1",
    ): "is behind a feature gate; use storage.k8s.io/v1 (Kubernetes 1.34)",
    ("VolumeAttributesClass", "v1beta1"): "is off by default; use storage.k8s.io/v1 (Kubernetes 1.34)",
    ("CSIDriver", "v1beta1"): "was dropped with Kubernetes 1.22",
}


def check(case: Case) -> Iterator[Hit]:
    """One hit per object."""
    for obj in case.rows(KubeObject):
        said = _OLD.get((obj.kind, obj.version)) if obj.group == "storage.k8s.io" else None
        if said:
            yield Hit(
                subject=subject_of(obj),
                message=f"{obj.label} is in {obj.group}/{obj.version}, which {said}",
                evidence=(obj.source.reference(("apiVersion",)),),
                facts={"version": obj.version, "path": "apiVersion"},
                severity=Severity.MEDIUM if obj.kind == "StorageClass" else Severity.LOW,
                changes=(Change(obj.source.reference(), ("apiVersion",), "storage.k8s.io/v1"),),
            )


RULE = Rule(
    id="storage-api-old",
    title="An object uses a version of the storage API that goes away",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(KubeObject,),
    check=check,
    remedy="Write `apiVersion: storage.k8s.io/v1`.",
    references=(
        "Kubernetes: deprecated API migration guide",
        "Kubernetes: feature gate VolumeAttributesClass",
    ),
    bad=(
        """apiVersion: storage.k8s.io/v1beta1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: ebs.csi.aws.com
parameters: {iops: "6000"}
""",
        """apiVersion: storage.k8s.io/v1beta1
kind: StorageClass
metadata: {name: x}
provisioner: ebs.csi.aws.com
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: ebs.csi.aws.com
parameters: {iops: "6000"}
""",
    ),
    exercised_by=frozenset({"VolumeAttributesClass", "CSIDriver", "StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
