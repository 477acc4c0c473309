"""A class that says nothing on performance, so that its volumes get what the provider gives unasked.

That is a limit, and often a low one: gp3 gives 3,000 IOPS and 125 MiB/s, a GCP volume without a type is a
hard disk. It is reported where a workload trains a model or is a database, for those notice; elsewhere it
is only information.

It is wrong where the default is what was wanted: say so in the class by naming the tier.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.qos import ClassQos, State
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class that sets no performance key at all."""
    for row in case.rows(ClassQos):
        driver = row.storage.driver
        if row.state is not State.DEFAULT or driver is None:
            continue
        if any(driver.key(name) for name in row.storage.parameters) or not driver.default:
            continue
        users = f"; {row.sensitive} runs on it" if row.sensitive else ""
        yield Hit(
            subject=subject_of(row.storage.obj),
            message=f"{row.storage.obj.label} asks for no tier and no limit, so that its volumes get"
            " the default"
            f" of {driver.name}{users}",
            evidence=(row.storage.obj.source.reference(("parameters",)),),
            explanation=f"The default: {driver.default}.",
            facts={"driver": driver.name, "workloads": len(row.workloads)},
            severity=Severity.LOW if row.sensitive else Severity.INFO,
        )


RULE = Rule(
    id="qos-driver-default",
    title="Volumes get the smallest tier because the class asks for nothing",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(ClassQos,),
    check=check,
    remedy="Name the tier and the limits in `parameters`; `storage-analyzer drivers NAME` lists the keys.",
    references=("the catalogue: `storage-analyzer drivers`",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: plain}
provisioner: pd.csi.storage.gke.io
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: pd.csi.storage.gke.io
parameters: {type: hyperdisk-balanced, provisioned-iops-on-create: "10000"}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
