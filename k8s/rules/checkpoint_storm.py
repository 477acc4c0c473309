"""A training job of many pods that writes checkpoints to one ReadWriteMany volume of which nothing limits
the I/O.

All ranks write and call fsync at the same step. The storage's queue fills, and whoever shares it waits: the
other jobs, and the ranks of this one that wait for the slowest at a barrier. A limit per volume keeps the
others alive; fewer writers (one per node, or rank 0 only) keep the job fast.

It is wrong where the storage is this job's alone. How many pods are many is an option.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.checkpoints import CheckpointDir
from k8s.inventory import Claim
from k8s.qos import ClassQos, State
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per directory."""
    state: dict[Claim, State] = {}
    for qos in case.rows(ClassQos):
        for open_claim in qos.open_claims:
            state[open_claim] = qos.state
    for row in case.rows(CheckpointDir):
        claim = row.use.claim if row.use else None
        if claim is None or not claim.shared or row.workload.pods < case.options["pods"]:
            continue
        if row.use is None or state.get(claim) not in (State.NONE, State.ELSEWHERE):
            continue
        told = (
            "has no I/O limit"
            if state[claim] is State.NONE
            else "has no I/O limit that Kubernetes knows of"
        )
        yield Hit(
            subject=subject_of(row.workload.obj),
            message=f"{row.workload.pods} pods of {row.workload.obj.label} write checkpoints to"
            f" {row.directory}"
            f" on the shared claim {claim.name}, which {told}",
            evidence=(
                row.workload.obj.source.reference(row.use.mount.path),
                claim.obj.source.reference(claim.path),
            ),
            facts={"pods": row.workload.pods, "directory": row.directory},
            severity=Severity.MEDIUM if state[claim] is State.NONE else Severity.LOW,
            key=f"{row.container.name} {row.directory}",
        )


RULE = Rule(
    id="checkpoint-storm",
    title="Many ranks sync checkpoints to one shared volume without a limit",
    severity=Severity.MEDIUM,
    confidence=Confidence.MEDIUM,
    blame=Blame.CONFIGURATION,
    reads=(
        CheckpointDir,
        ClassQos,
    ),
    check=check,
    remedy="Let fewer ranks write, spread the checkpoints over time, or limit the volume where its"
    " driver can.",
    references=("PyTorch: distributed checkpoint, one writer per rank",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: cephfs}
provisioner: rook-ceph.cephfs.csi.ceph.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ckpt, namespace: ml}
spec: {accessModes: [ReadWriteMany], storageClassName: cephfs, resources: {requests: {storage: 100Gi}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 16
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
metadata: {name: cephfs}
provisioner: rook-ceph.cephfs.csi.ceph.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ckpt, namespace: ml}
spec: {accessModes: [ReadWriteMany], storageClassName: cephfs, resources: {requests: {storage: 100Gi}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
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
            "CronJob",
            "RayCluster",
            "JobSet",
            "LeaderWorkerSet",
            "Job",
            "MPIJob",
            "TFJob",
            "RayJob",
            "StatefulSet",
            "PyTorchJob",
            "Pod",
            "Notebook",
            "Workflow",
            "Deployment",
        }
    ),
    needs=frozenset({"StorageClass", "PersistentVolumeClaim"}),
    follows_state=False,  # each hit stands on the object that it cites
    options={"pods": 8},
    about="object",
)
