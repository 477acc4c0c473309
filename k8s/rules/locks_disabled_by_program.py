"""A setting that switches file locks off in a program: `HDF5_USE_FILE_LOCKING=FALSE`, SQLite's `nolock=1`
or the `unix-none` VFS.

It is the cure that forums give for lock errors on network file systems, and it works by taking away what
kept two writers apart. One reader and writer is fine; a second writer damages the file without an error.

It is wrong where every process only reads, or where something else makes sure that there is one writer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.pods import Workload
from k8s.words import subject_of

_OFF = (
    (
        re.compile(r"HDF5_USE_FILE_LOCKING['\"]?\s*[=:,\]]\s*['\"]?(FALSE|0|NO|OFF)\b", re.I),
        "HDF5_USE_FILE_LOCKING",
    ),
    (
        re.compile(r"(?:sqlite|\.db|file:)[^\s'\"]{0,200}[?&](nolock=1|vfs=unix-none)\b", re.I),
        "SQLite locking",
    ),
)


def check(case: Case) -> Iterator[Hit]:
    """One hit per setting."""
    for workload in case.rows(Workload):
        for container in workload.containers:
            seen: set[str] = set()
            for setting in container.settings:
                text = f"{setting.name}={setting.text[:200_000]}"
                for pattern, name in _OFF:
                    if name in seen or not pattern.search(text):
                        continue
                    seen.add(name)
                    pods = f" in {workload.pods} pods" if workload.pods > 1 else ""
                    yield Hit(
                        subject=subject_of(workload.obj),
                        message=f"{workload.obj.label} switches off {name}{pods}: a second writer"
                        " damages files"
                        " without an error",
                        evidence=(setting.owner.source.reference(setting.path),),
                        facts={"setting": name, "pods": workload.pods},
                        severity=Severity.MEDIUM if workload.pods > 1 else Severity.LOW,
                        key=f"{container.name} {name}",
                    )


RULE = Rule(
    id="locks-disabled-by-program",
    title="A program is told not to lock files on shared storage",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(Workload,),
    check=check,
    remedy="Mend the locks of the mount (see mount-locks-local) instead, or open the files read-only.",
    references=("HDF5 documentation: file locking", "SQLite documentation: URI file names"),
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
              env: [{name: HDF5_USE_FILE_LOCKING, value: "FALSE"}]
          volumes: [{name: ckpt, persistentVolumeClaim: {claimName: ckpt}}]
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
              env: [{name: HDF5_USE_FILE_LOCKING, value: "TRUE"}]
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
