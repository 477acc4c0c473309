"""A value in `parameters` that YAML reads as a number or as true or false.

Parameters map texts to texts. `iops: 3000` is refused by the API server as a whole, with a message on
unmarshalling that names no line: `iops: "3000"` is right. Samples of vendors have this fault, too.

It is never wrong: the API is strict on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Change, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Attributes, StorageClass
from k8s.objects import scalar_text
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per value, of classes and of VolumeAttributesClasses."""
    rows: list[StorageClass | Attributes] = [*case.rows(StorageClass), *case.rows(Attributes)]
    for row in rows:
        for name, value in row.parameters.items():
            if isinstance(value, str):
                continue
            text = scalar_text(value)
            right = f'{name}: "{text}"' if text else "a text"
            path = ("parameters", name)
            yield Hit(
                subject=subject_of(row.obj),
                message=f"{row.obj.label}: the parameter {name} is no text, so that the API server refuses"
                " the object",
                evidence=(row.obj.source.reference(path),),
                facts={"key": name, "path": f"parameters.{name}"},
                remedy=f"Write `{right}`.",
                key=name,
                changes=(Change(row.obj.source.reference(), path, text),) if text else (),
            )


RULE = Rule(
    id="storageclass-value-not-text",
    title="A parameter of a class is no text",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(
        StorageClass,
        Attributes,
    ),
    check=check,
    remedy="Put the value in quotes.",
    references=("Kubernetes API: parameters is a map of strings",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, iops: 6000}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: unity}
provisioner: csi-unity.dellemc.com
parameters: {thinProvisioned: true}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, iops: "6000"}""",
    ),
    exercised_by=frozenset({"VolumeAttributesClass", "StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
