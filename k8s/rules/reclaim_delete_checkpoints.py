"""A class with `reclaimPolicy: Delete` (the default) whose volumes hold checkpoints.

Whoever deletes the claim, with the namespace or with a Helm release, deletes weeks of training with it at
once. With Retain the volume stays until somebody removes it.

It is wrong where checkpoints are copied elsewhere, or where the volumes are snapshotted.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Change, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.checkpoints import CheckpointDir
from k8s.inventory import StorageClass
from k8s.objects import text_at
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class."""
    seen: set[StorageClass] = set()
    for row in case.rows(CheckpointDir):
        claim = row.use.claim if row.use else None
        storage = claim.storage if claim else None
        if claim is None or storage is None or storage in seen:
            continue
        if claim.volume is not None:
            if text_at(claim.volume.obj.data, "spec", "persistentVolumeReclaimPolicy") != "Delete":
                continue
        elif (text_at(storage.obj.data, "reclaimPolicy") or "Delete") != "Delete":
            continue
        seen.add(storage)
        yield Hit(
            subject=subject_of(storage.obj),
            message=f"{storage.obj.label} deletes volumes with their claims, and"
            f" {row.workload.obj.label} keeps"
            f" checkpoints on one ({row.directory})",
            evidence=(
                storage.obj.source.reference(("reclaimPolicy",)),
                row.setting.owner.source.reference(row.setting.path),
            ),
            facts={"directory": row.directory, "path": "reclaimPolicy"},
            changes=(Change(storage.obj.source.reference(), ("reclaimPolicy",), "Retain"),)
            if claim.volume is None
            else (),
        )


RULE = Rule(
    id="reclaim-delete-checkpoints",
    title="Deleting a claim deletes its checkpoints",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(
        CheckpointDir,
        StorageClass,
    ),
    check=check,
    remedy="Set `reclaimPolicy: Retain` in a new class; on volumes that exist set"
    " `spec.persistentVolumeReclaimPolicy` to Retain with `kubectl patch pv`.",
    references=("Kubernetes: PersistentVolumes, reclaiming",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: efs.csi.aws.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ckpt, namespace: ml}
spec: {accessModes: [ReadWriteMany], storageClassName: shared, resources: {requests: {storage: 100Gi}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      template:
        spec:
          containers:
            - name: pytorch
              image: registry.example.com/train:1
              command: [torchrun, train.py]
              args: ["--output_dir=/ckpt"]
              volumeMounts: [{name: ckpt, mountPath: /ckpt}]
          volumes: [{name: ckpt, persistentVolumeClaim: {claimName: ckpt}}]
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: efs.csi.aws.com
reclaimPolicy: Retain
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ckpt, namespace: ml}
spec: {accessModes: [ReadWriteMany], storageClassName: shared, resources: {requests: {storage: 100Gi}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      template:
        spec:
          containers:
            - name: pytorch
              image: registry.example.com/train:1
              command: [torchrun, train.py]
              args: ["--output_dir=/ckpt"]
              volumeMounts: [{name: ckpt, mountPath: /ckpt}]
          volumes: [{name: ckpt, persistentVolumeClaim: {claimName: ckpt}}]
""",
    ),
    exercised_by=frozenset(
        {
            "StatefulSet",
            "StorageClass",
            "MPIJob",
            "JobSet",
            "LeaderWorkerSet",
            "RayJob",
            "PyTorchJob",
            "Pod",
            "Job",
            "Deployment",
            "RayCluster",
            "TFJob",
        }
    ),
    needs=frozenset({"PersistentVolumeClaim"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
