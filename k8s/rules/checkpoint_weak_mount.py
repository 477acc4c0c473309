"""A training job that writes checkpoints to a volume with mount options that can lose them: write barriers
off, soft mounts, fsync that returns early, writes that a crash reorders.

The options themselves are reported on the class or volume where they stand. This finding says who pays:
the job, its directory and the way from one to the other.

It is wrong where the finding on the class is: see there.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.checkpoints import CheckpointDir
from k8s.mounts import OptionSet, option_hazards
from k8s.words import listed, subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per directory."""
    weak: dict[int, list[tuple[str, str]]] = {}
    for group, hazard in option_hazards(case, "barrier", "soft", "fsync", "order", "recovery", "transport"):
        for use in group.uses if group.writers and hazard.effective is not False else ():
            place = group.obj.source.reference(hazard.option.path)
            weak.setdefault(id(use), []).append((hazard.option.text, place))
    for row in case.rows(CheckpointDir):
        found = weak.get(id(row.use)) if row.use else None
        if not found or row.use is None or row.use.claim is None:
            continue
        claim = row.use.claim
        through = claim.storage.obj.label if claim.storage else claim.obj.label
        yield Hit(
            subject=subject_of(row.workload.obj),
            message=f"{row.workload.obj.label} writes checkpoints to {row.directory} on {through}, which is"
            f" mounted with {listed(text for text, _ in found)}: what was saved may be lost",
            evidence=(
                row.setting.owner.source.reference(row.setting.path),
                *dict.fromkeys(p for _, p in found),
            ),
            facts={"directory": row.directory, "options": ", ".join(text for text, _ in found)},
            key=f"{row.container.name} {row.directory}",
        )


RULE = Rule(
    id="checkpoint-weak-mount",
    title="Checkpoints are on a volume whose mount may lose them",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(
        CheckpointDir,
        OptionSet,
    ),
    check=check,
    remedy="Mend the mount options where the second reference points.",
    references=("see mount-gives-up, mount-barriers-off, mount-fsync-ignored, mount-crash-order",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
mountOptions: [soft, nfsvers=4.1]
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
provisioner: nfs.csi.k8s.io
mountOptions: [hard, nfsvers=4.1]
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
    about="object",
)
