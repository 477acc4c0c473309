"""`sync_files`, `use_fsync`, `file_io_sync` or the like is set to false.

The checkpoint library then returns while the data is in the node's memory. If the node dies in the next
half minute, the checkpoint that the job believes saved is torn or empty, and the one before may be deleted
already.

It is wrong where something else syncs before older checkpoints are removed.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.checkpoints import SyncOff
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per setting."""
    for row in case.rows(SyncOff):
        owner = row.setting.owner
        where = "" if owner is row.workload.obj else f" in {owner.label}"
        yield Hit(
            subject=subject_of(row.workload.obj),
            message=f"{row.workload.obj.label} sets {row.name} to {row.value}{where}: checkpoints"
            " aren't synced",
            evidence=(owner.source.reference(row.setting.path),),
            facts={"setting": row.name, "value": row.value},
            key=f"{row.setting.name} {row.name}",
        )


RULE = Rule(
    id="checkpoint-sync-off",
    title="A setting keeps checkpoints from being synced",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(SyncOff,),
    check=check,
    remedy="Take the setting out: syncing is the default.",
    references=("PyTorch: FileSystemWriter, sync_files", "TensorStore: file_io_sync"),
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
              args: ["--output_dir=/ckpt", "--sync_files=false"]
              volumeMounts: [{name: ckpt, mountPath: /ckpt}]
          volumes: [{name: ckpt, persistentVolumeClaim: {claimName: ckpt}}]
""",
        """apiVersion: v1
kind: ConfigMap
metadata: {name: cfg, namespace: ml}
data:
  run.yaml: |
    checkpoint:
      use_fsync: false
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
              volumeMounts: [{name: cfg, mountPath: /cfg}]
          volumes:
            - {name: cfg, configMap: {name: cfg}}
            - {name: ckpt, persistentVolumeClaim: {claimName: ckpt}}
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
              args: ["--output_dir=/ckpt", "--sync_files=true"]
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
              args: ["--output_dir=/ckpt", "# sync_files=false"]
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
            "ConfigMap",
            "Workflow",
            "Deployment",
        }
    ),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
