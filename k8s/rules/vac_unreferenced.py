"""A VolumeAttributesClass that no claim and no volume names.

A VolumeAttributesClass does nothing by itself: it limits the volumes whose claims name it. One that is
there and never named often means that somebody believes the volumes of a StorageClass to be limited.

It is wrong where claims are made elsewhere, by people or operators, and name it.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Attributes, Claim, Volume
from k8s.objects import text_at
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class, where there are claims at all."""
    claims = list(case.rows(Claim))
    named = {claim.attributes_name for claim in claims}
    named |= {text_at(v.obj.data, "spec", "volumeAttributesClassName") for v in case.rows(Volume)}
    for attributes in case.rows(Attributes) if claims else ():
        if attributes.obj.name not in named:
            yield Hit(
                subject=subject_of(attributes.obj),
                message=f"{attributes.obj.label} limits nothing, for none of the {len(claims):,} claims"
                " names it",
                evidence=(attributes.obj.source.reference(),),
                facts={"claims": len(claims)},
            )


RULE = Rule(
    id="vac-unreferenced",
    title="Nobody refers to a VolumeAttributesClass",
    severity=Severity.INFO,
    confidence=Confidence.MEDIUM,
    blame=Blame.CONFIGURATION,
    reads=(
        Attributes,
        Claim,
        Volume,
    ),
    check=check,
    remedy="Name it in `spec.volumeAttributesClassName` of the claims that it is for.",
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
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce]}""",
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
    needs=frozenset({"PersistentVolume", "PersistentVolumeClaim"}),
    follows_state=True,  # a claim that was not seen may name it
    about="object",
)
