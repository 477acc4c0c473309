"""An annotation `storage-analyzer/ignore.RULE` that is empty.

A finding is accepted only with a reason, so that the next reader knows why and can tell when it no longer
holds. Without one the finding is reported as before.

It is never wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.objects import KubeObject
from k8s.words import subject_of

_PREFIX = "storage-analyzer/ignore"


def check(case: Case) -> Iterator[Hit]:
    """One hit per annotation."""
    for obj in case.rows(KubeObject):
        for name, reason in obj.annotations.items():
            if not name.startswith(_PREFIX):
                continue
            if name.startswith(_PREFIX + ".") and isinstance(reason, str) and reason.strip():
                continue
            named = name.startswith(_PREFIX + ".")
            said = "without a reason" if named else "without a rule (storage-analyzer/ignore.RULE)"
            yield Hit(
                subject=subject_of(obj),
                message=f"{obj.label} has the annotation {name} {said}, so that nothing is ignored",
                evidence=(obj.source.reference(("metadata", "annotations", name)),),
                facts={"annotation": name},
                key=name,
            )


RULE = Rule(
    id="suppression-without-reason",
    title="A finding is to be ignored without a reason",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(KubeObject,),
    check=check,
    remedy="Write the reason as the value of the annotation.",
    references=("docs/commands.md: storage-analyzer audit",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd, annotations: {storage-analyzer/ignore.qos-none: ""}}
provisioner: rook-ceph.rbd.csi.ceph.com
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd, annotations: {storage-analyzer/ignore.qos-none: "one tenant only"}}
provisioner: rook-ceph.rbd.csi.ceph.com
""",
    ),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
