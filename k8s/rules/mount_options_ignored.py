"""Mount options on a class that provisions nothing.

Kubernetes copies the mount options of a class to volumes when it makes them. A class with
`kubernetes.io/no-provisioner` makes none: its options never reach the volumes that somebody wrote by hand,
which are mounted with the defaults of the node.

It is wrong where every such volume repeats the options in its own `spec.mountOptions`: then the line on the
class is only misleading.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Change, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import StorageClass
from k8s.objects import list_at
from k8s.words import listed, subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class."""
    for storage in case.rows(StorageClass):
        found = [str(option) for option in list_at(storage.obj.data, "mountOptions")]
        if found and storage.provisioner == "kubernetes.io/no-provisioner":
            yield Hit(
                subject=subject_of(storage.obj),
                message=f"{storage.obj.label} has mount options ({listed(found)}) that no volume gets,"
                " for it provisions none",
                evidence=(storage.obj.source.reference(("mountOptions",)),),
                facts={"path": "mountOptions", "options": len(found)},
                changes=(Change(storage.obj.source.reference(), ("mountOptions",)),),
            )


RULE = Rule(
    id="mount-options-ignored",
    title="Mount options stand where nobody applies them",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(StorageClass,),
    check=check,
    remedy="Move the options to `spec.mountOptions` of each PersistentVolume of the class.",
    references=("Kubernetes: StorageClass, mountOptions apply to dynamically created volumes",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
mountOptions: [noatime]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: local-1}
spec: {mountOptions: [noatime], accessModes: [ReadWriteOnce], local: {path: /disk}}""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the class that it cites
    about="object",
)
