"""A claim with ReadWriteMany in file system mode whose driver makes block volumes for one node.

The driver refuses, or, worse, two nodes mount one ext4 and destroy it. Block mode (`volumeMode: Block`) is
another thing: there a cluster file system or a program arbitrates, and the rule is silent. So it is where
the driver isn't known to be for one node.

It is wrong for volumes made by hand that several pods of one node use on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Claim
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per claim."""
    for claim in case.rows(Claim):
        driver = claim.driver
        if (
            driver is None
            or driver.shared is not False
            or claim.block
            or "ReadWriteMany" not in claim.modes
        ):
            continue
        note = f" ({driver.shared_note})" if driver.shared_note else ""
        yield Hit(
            subject=subject_of(claim.obj),
            message=f"{claim.obj.label} asks for ReadWriteMany from {driver.name}, which makes volumes"
            " for one"
            " node",
            evidence=(claim.obj.source.reference((*claim.path, "accessModes")),),
            explanation=f"What is known of the driver{note}: shared file systems aren't among what it"
            " makes.",
            facts={"driver": driver.name},
            key=claim.name,
        )


RULE = Rule(
    id="shared-claim-on-block",
    title="A claim asks for a shared file system from a driver of block volumes",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(Claim,),
    check=check,
    remedy="Use a driver of shared file systems (NFS, CephFS, Lustre ...), or ReadWriteOnce.",
    references=(
        "Kubernetes: access modes",
        "the drivers' documentation: see `storage-analyzer drivers NAME`",
    ),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a, namespace: ml}
spec: {accessModes: [ReadWriteMany], storageClassName: fast, resources: {requests: {storage: 100Gi}}}
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a, namespace: ml}
spec: {accessModes: [ReadWriteMany], storageClassName: fast, volumeMode: Block}
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fs}
provisioner: efs.csi.aws.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a, namespace: ml}
spec: {accessModes: [ReadWriteMany], storageClassName: fs, resources: {requests: {storage: 100Gi}}}
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: x}
provisioner: csi.example.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a, namespace: ml}
spec: {accessModes: [ReadWriteMany], storageClassName: x, resources: {requests: {storage: 100Gi}}}
""",
    ),
    exercised_by=frozenset({"StatefulSet", "Pod", "PersistentVolumeClaim"}),
    needs=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
