"""A class without `allowVolumeExpansion: true` whose driver can grow volumes, used by a training job or a
database.

Checkpoints and tables grow. When the volume is full the job fails at its next checkpoint, and the only way
out is to copy everything to a new volume. The field can be switched on at any time.

It is wrong where volumes are meant never to grow.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Change, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.qos import ClassQos
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class."""
    for row in case.rows(ClassQos):
        storage = row.storage
        if storage.driver is None or storage.driver.expansion is not True or not row.sensitive:
            continue
        if storage.obj.data.get("allowVolumeExpansion") is True:
            continue
        yield Hit(
            subject=subject_of(storage.obj),
            message=f"volumes of {storage.obj.label} can't grow, though {storage.driver.name} can do it and"
            f" {row.sensitive} fills one",
            evidence=(storage.obj.source.reference(("allowVolumeExpansion",)),),
            facts={"driver": storage.driver.name, "path": "allowVolumeExpansion"},
            changes=(Change(storage.obj.source.reference(), ("allowVolumeExpansion",), True),),
        )


RULE = Rule(
    id="expansion-not-allowed",
    title="Volumes of a class can not grow",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(ClassQos,),
    check=check,
    remedy="Set `allowVolumeExpansion: true`; it may be changed on a class that exists.",
    references=("Kubernetes: StorageClass, allowVolumeExpansion",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a, namespace: ml}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 100Gi}}}
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
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
allowVolumeExpansion: true
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a, namespace: ml}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 100Gi}}}
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
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a, namespace: ml}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 100Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ml}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: main
          image: busybox
          command: [sh, -c, "sleep 1d"]
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: a}}]
""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    needs=frozenset({"PersistentVolumeClaim"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
