"""A database whose data directory is on an emptyDir, on a generic ephemeral volume, or in the container.

A restart of the pod on another node, an eviction or an update deletes it all.

It is wrong for caches, tests and replicas that build themselves anew: engines that are mostly used as
caches (Redis) are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.databases import data_use, engine_of
from k8s.inventory import inventory_of
from k8s.pods import Workload
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per container."""
    inventory = inventory_of(case)
    for workload in case.rows(Workload):
        for container in workload.containers:
            engine = engine_of(container)
            place = data_use(inventory, workload, container) if engine and engine != "Redis" else None
            if place is None:
                continue
            directory, use = place
            volume = use.mount.volume if use else None
            if use is not None and (volume is None or volume.kind not in ("emptyDir", "ephemeral")):
                continue
            on = f"the {volume.kind} {volume.name}" if volume else "no volume"
            path = volume.path if volume else container.path
            yield Hit(
                subject=subject_of(workload.obj),
                message=f"{workload.obj.label} runs {engine} with its data in {directory} on {on}: it"
                " is deleted"
                " with the pod",
                evidence=(workload.obj.source.reference(path),),
                facts={"engine": engine, "directory": directory},
                key=container.name,
            )


RULE = Rule(
    id="database-on-ephemeral",
    title="A database keeps its data where it dies with the pod",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(Workload,),
    check=check,
    remedy="Mount a PersistentVolumeClaim on the data directory.",
    references=("Kubernetes: emptyDir", "the images' documentation: data directories"),
    bad=(
        """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: db}
spec:
  template:
    spec:
      containers:
        - name: db
          image: postgres:16
          args: []
          env: []
          volumeMounts: [{name: data, mountPath: /var/lib/postgresql/data}]
      volumes: [{name: data, emptyDir: {}}]
""",
        """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: db}
spec:
  template:
    spec:
      containers:
        - name: db
          image: mysql:8
          args: []
          env: []
          volumeMounts: [{name: data, mountPath: /var/lib/mysql}]
      volumes: [{name: data, emptyDir: {}}]
""",
    ),
    good=(
        """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: db}
spec:
  template:
    spec:
      containers:
        - name: db
          image: postgres:16
          args: []
          env: []
          volumeMounts: [{name: data, mountPath: /var/lib/postgresql/data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: db}}]
""",
        """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: db}
spec:
  template:
    spec:
      containers:
        - name: db
          image: redis:7
          args: []
          env: []
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
""",
        """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: db}
spec:
  template:
    spec:
      containers:
        - name: db
          image: postgres:16
          args: []
          env: []
          volumeMounts: [{name: data, mountPath: /var/lib/postgresql}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: db}}]
""",
    ),
    exercised_by=frozenset({"StatefulSet", "Deployment", "Pod"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
