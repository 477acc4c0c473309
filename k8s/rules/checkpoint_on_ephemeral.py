"""A training job that writes checkpoints to an emptyDir, a generic ephemeral volume or a hostPath.

The first two are deleted with the pod, so that a job which is preempted starts from nothing. A hostPath
stays on the node: a pod that is scheduled elsewhere doesn't find it, and ranks on other nodes never see it.

It is wrong where the directory is only a staging area from which another container or process copies to a
durable place. A hostPath below which the nodes have mounted a shared file system is fine: the finding
weighs less and is less sure there.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.checkpoints import CheckpointDir, Home
from k8s.words import subject_of

_SHARED = "The nodes may have mounted a shared file system at that place; the manifest can't tell."


def check(case: Case) -> Iterator[Hit]:
    """One hit per directory and container."""
    for row in case.rows(CheckpointDir):
        volume = row.use.mount.volume if row.use else None
        if row.use is None or volume is None or row.home not in (Home.POD, Home.NODE):
            continue
        fate = "is deleted with the pod" if row.home is Home.POD else "stays on the node it was written on"
        kind = "ephemeral volume" if volume.kind == "ephemeral" else volume.kind
        yield Hit(
            subject=subject_of(row.workload.obj),
            message=f"{row.workload.obj.label} writes checkpoints to {row.directory} ({row.name}) on"
            f" the {kind}"
            f" {volume.name}, which {fate}",
            evidence=(
                row.setting.owner.source.reference(row.setting.path),
                row.workload.obj.source.reference(volume.path),
            ),
            explanation=_SHARED if row.home is Home.NODE else "",
            facts={"directory": row.directory, "volume": volume.kind, "pods": row.workload.pods},
            severity=Severity.MEDIUM if row.home is Home.NODE else Severity.HIGH,
            complete=row.home is Home.POD,
            key=f"{row.container.name} {row.directory}",
        )


RULE = Rule(
    id="checkpoint-on-ephemeral",
    title="Checkpoints are on a volume that dies with the pod or stays on one node",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(CheckpointDir,),
    check=check,
    remedy="Use a PersistentVolumeClaim for the directory.",
    references=("Kubernetes: volumes, emptyDir and hostPath",),
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
          volumes: [{name: ckpt, emptyDir: {}}]
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
          volumes: [{name: ckpt, hostPath: {path: /data}}]
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
