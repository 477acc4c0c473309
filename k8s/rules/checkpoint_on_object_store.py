"""A training job with several pods that writes checkpoints through an object store mounted as a file
system.

Such mounts have no locks between nodes, rename may be copy and delete, and a file appears when it is
closed, if at all. Ranks that write one directory at the same time overwrite each other's objects or get
ESTALE, and a reader can meet a checkpoint of which some files are missing.

It is wrong where each rank writes files of its own and a commit marker is written last through the object
store's own interface.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.checkpoints import CheckpointDir, Home
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per directory and container."""
    for row in case.rows(CheckpointDir):
        if row.home is Home.OBJECT and row.use is not None:
            many = row.workload.pods > 1
            yield Hit(
                subject=subject_of(row.workload.obj),
                message=f"{row.workload.obj.label} writes checkpoints to {row.directory} ({row.name}),"
                " an object"
                f" store mounted by FUSE, from {row.workload.pods} {'pods' if many else 'pod'}",
                evidence=(
                    row.setting.owner.source.reference(row.setting.path),
                    row.workload.obj.source.reference(row.use.mount.path),
                ),
                facts={"directory": row.directory, "pods": row.workload.pods},
                severity=Severity.HIGH if many else Severity.MEDIUM,
                key=f"{row.container.name} {row.directory}",
            )


RULE = Rule(
    id="checkpoint-on-object-store",
    title="Checkpoints are on an object store mounted by FUSE",
    severity=Severity.HIGH,
    confidence=Confidence.MEDIUM,
    blame=Blame.CONFIGURATION,
    reads=(CheckpointDir,),
    check=check,
    remedy="Write checkpoints to a file system, and copy finished ones to the object store; or use the"
    " object store's own client.",
    references=("gcsfuse documentation: semantics", "Mountpoint and s3fs documentation: rename"),
    bad=(
        """apiVersion: kubeflow.org/v1
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
          volumes: [{name: ckpt, csi: {driver: gcsfuse.csi.storage.gke.io}}]
""",
    ),
    good=(
        """apiVersion: kubeflow.org/v1
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
        """apiVersion: kubeflow.org/v1
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
          volumes: [{name: ckpt, csi: {driver: secrets-store.csi.k8s.io}}]
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
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
