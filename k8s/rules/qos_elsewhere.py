"""A class of a driver that has no key for limits: a manifest can't tell whether its volumes are limited.

The finding is information. It says where the limit would be: on the array, in the file system, in a pool
or a backend. Ask there before you believe that one job can't starve the others.

It is wrong where a newer release of the driver has learned keys of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.qos import ClassQos, State
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class that several workloads share."""
    for row in case.rows(ClassQos):
        driver = row.storage.driver
        if row.state is State.ELSEWHERE and driver is not None:
            yield Hit(
                subject=subject_of(row.storage.obj),
                message=f"{row.storage.obj.label}: {driver.name} has no key for I/O limits; whether its"
                " volumes"
                " are limited can't be told from here",
                evidence=(row.storage.obj.source.reference(("provisioner",)),),
                explanation=f"Where to look: {driver.elsewhere}.",
                facts={"driver": driver.name, "workloads": len(row.workloads)},
            )


RULE = Rule(
    id="qos-elsewhere",
    title="I/O limits of this driver are set outside Kubernetes",
    severity=Severity.INFO,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(ClassQos,),
    check=check,
    remedy="Look at the place that the finding names.",
    references=("the catalogue: `storage-analyzer drivers`",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: nfs}
provisioner: nfs.csi.k8s.io
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
metadata: {name: x}
provisioner: csi.example.com
""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
