"""A class whose volumes may take as much I/O as the storage gives, though the driver could limit them.

One job that writes a checkpoint then takes the bandwidth of all others: a database on the same class stops
answering, and ranks of another job wait at a barrier. The finding weighs more where several workloads or
namespaces share the class, and most where one of them trains a model or is a database.

StorageClass has no field for limits: they are keys of the driver in `parameters`, or a
VolumeAttributesClass that claims refer to. A class that limits, a claim with a limiting
VolumeAttributesClass, and a driver that can't limit or always does are left alone.

It is wrong where the limit is set outside Kubernetes, on the array or on the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Inventory, StorageClass
from k8s.limits import proposed, remedy
from k8s.qos import ClassQos, State
from k8s.words import listed, subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class."""
    for row in case.rows(ClassQos):
        if row.state is not State.NONE or row.storage.driver is None:
            continue
        obj, sensitive = row.storage.obj, row.sensitive
        users = ""
        if len(row.workloads) > 1:
            users = f": {len(row.workloads)} workloads in {listed(_named(row.namespaces))} share it"
        elif row.workloads:
            users = f": {row.workloads[0]} uses it"
        elif row.claims:
            users = f": {len(row.claims)} claims use it"
        message = f"volumes of {obj.label} ({row.storage.provisioner}) have no I/O limit{users}"
        if sensitive and len(row.workloads) > 1:
            message += f", {sensitive} among them"
        claims = [claim.obj.source.reference(claim.path) for claim in row.open_claims[:5]]
        yield Hit(
            subject=subject_of(obj),
            message=message,
            evidence=(obj.source.reference(("parameters",)), *claims),
            facts={"workloads": len(row.workloads), "namespaces": len(row.namespaces),
                   "claims": len(row.open_claims), "driver": row.storage.driver.name},
            severity=_severity(row),
            remedy=remedy(row),
            changes=proposed(row, int(case.options["limit_iops"]), int(case.options["limit_mib_per_s"])),
        )  # fmt: skip


def _named(namespaces: list[str]) -> list[str]:
    return [f"namespace {name}" if name else "the default namespace" for name in namespaces]


def _severity(row: ClassQos) -> Severity:
    if len(row.workloads) > 1 or len(row.namespaces) > 1:
        return Severity.HIGH if row.sensitive else Severity.MEDIUM
    return Severity.MEDIUM if row.sensitive else Severity.LOW


RULE = Rule(
    id="qos-none",
    title="Volumes have no I/O limit though their driver has one",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(
        ClassQos,
        Inventory,
        StorageClass,
    ),
    check=check,
    remedy="Set a limit with the keys of the driver, or with a VolumeAttributesClass that the claims"
    " refer to.",
    references=(
        "Kubernetes: VolumeAttributesClass (storage.k8s.io/v1 since 1.34)",
        "the catalogue: `storage-analyzer drivers`",
    ),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a, namespace: ml}
spec: {accessModes: [ReadWriteOnce], storageClassName: rbd, resources: {requests: {storage: 100Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: b, namespace: db}
spec: {accessModes: [ReadWriteOnce], storageClassName: rbd, resources: {requests: {storage: 100Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: train, namespace: ml}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: main
          image: busybox
          command: [sh, -c, "torchrun train.py"]
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: a}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: pg, namespace: db}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: main
          image: postgres:16
          command: [sh, -c, "sleep 1d"]
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: b}}]
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: rook-ceph.rbd.csi.ceph.com
parameters: {maxReadIops: "5000", maxWriteIops: "3000"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a, namespace: ml}
spec: {accessModes: [ReadWriteOnce], storageClassName: rbd, volumeAttributesClassName: gold}
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: other}
provisioner: csi.example.com
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lim}
provisioner: csi.hpe.com
parameters: {limitIops: "5000"}""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    options={"limit_iops": 5000, "limit_mib_per_s": 200},
    about="object",
)
