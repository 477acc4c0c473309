"""A training job that is told to write checkpoints to a directory on which nothing is mounted.

They are in the container's writable layer and deleted with the pod: a preempted or failed job begins again
at step 0. The layer also counts against the node's ephemeral storage, so that a big checkpoint gets the pod
evicted.

The directory is taken from arguments, variables, ConfigMaps and the scripts in them. Where it is relative
to a folder that the image decides on, the finding is less sure. It is wrong where a wrapper uploads
checkpoints somewhere else.
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
        if row.home is Home.CONTAINER:
            yield Hit(
                subject=subject_of(row.workload.obj),
                message=f"{row.workload.obj.label} writes checkpoints to {row.directory} ({row.name}),"
                " on which"
                f" no volume is mounted: they are gone with the pod",
                evidence=(row.setting.owner.source.reference(row.setting.path),),
                facts={
                    "directory": row.directory,
                    "container": row.container.name,
                    "pods": row.workload.pods,
                },
                complete=row.sure,
                key=f"{row.container.name} {row.directory}",
            )


RULE = Rule(
    id="checkpoint-in-container",
    title="Checkpoints are written into the container itself",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(CheckpointDir,),
    check=check,
    remedy="Mount a PersistentVolumeClaim on the directory, or write to one that is mounted already.",
    references=("Kubernetes: ephemeral storage of containers",),
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
              args: ["--output_dir=/out"]
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
              args: [--save_dir, ./checkpoints]
              volumeMounts: [{name: shm, mountPath: /dev/shm}]
          volumes: [{name: shm, emptyDir: {medium: Memory}}]
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
              args: ["--output_dir=s3://bucket/run"]
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
              args: ["--output_dir=/ckpt/run-1"]
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
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
