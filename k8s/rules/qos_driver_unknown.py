"""A class of a provisioner that this tool knows nothing about.

Nothing is said about its limits, its parameters or its mount options: not that they are missing, not that
they are right. The finding is information, so that silence isn't taken for approval.

It is wrong where the name is misspelled: then no volume is made at all, and
storageclass-provisioner-invalid may know the right one.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import StorageClass
from k8s.objects import scalar_text
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class of an unknown driver."""
    for storage in case.rows(StorageClass):
        name = scalar_text(storage.provisioner)
        if storage.driver is None and name and not name.startswith("kubernetes.io/"):
            yield Hit(
                subject=subject_of(storage.obj),
                message=f"{storage.obj.label}: nothing is known of the driver {name}, so that its"
                " limits and"
                " parameters aren't judged",
                evidence=(storage.obj.source.reference(("provisioner",)),),
                facts={"driver": name},
            )


RULE = Rule(
    id="qos-driver-unknown",
    title="The driver is not in the catalogue, so that limits are not known",
    severity=Severity.INFO,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(StorageClass,),
    check=check,
    remedy="Ask the vendor which parameters limit I/O, and where that can be seen.",
    references=("the catalogue: `storage-analyzer drivers`",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: x}
provisioner: csi.example.com
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
