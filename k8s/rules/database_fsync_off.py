"""A database whose settings let a crash damage what it has stored: `fsync=off` and `full_page_writes=off`
of PostgreSQL, `innodb_doublewrite=OFF` and `innodb_flush_method=nosync` of MySQL, `--unsafe-no-fsync`
of etcd.

Not only the latest commits are lost: pages on disk are half old and half new, indexes point nowhere, and
the damage may be found months later. The setting is read from arguments, variables and mounted ConfigMaps,
and named together with the volume that it runs on.

It is wrong where the data can be made again, as in a test.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.databases import DatabaseSetting
from k8s.hits import setting_hit


def check(case: Case) -> Iterator[Hit]:
    """One hit per setting after which a crash may leave nothing usable."""
    for row in case.rows(DatabaseSetting):
        if row.danger.loses_all:
            yield setting_hit(case, row)


RULE = Rule(
    id="database-fsync-off",
    title="A database runs with syncing switched off",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(DatabaseSetting,),
    check=check,
    remedy="Take the setting out: syncing is the default.",
    references=(
        "PostgreSQL documentation: fsync, full_page_writes",
        "MySQL documentation: innodb_doublewrite, innodb_flush_method",
        "etcd documentation: --unsafe-no-fsync",
    ),
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
          args: [-c, fsync=off]
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
          image: quay.io/coreos/etcd:v3.5
          args: ["--unsafe-no-fsync"]
          env: []
          volumeMounts: [{name: data, mountPath: /var/lib/etcd}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: db}}]
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
          args: [-c, fsync=on]
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
          image: postgres-exporter:1
          args: [-c, fsync=off]
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
          image: postgres:16
          args: ["-c", "synchronous_commit=off"]
          env: []
          volumeMounts: [{name: data, mountPath: /var/lib/postgresql/data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: db}}]
""",
    ),
    exercised_by=frozenset({"StatefulSet", "Deployment", "Pod"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
