"""A database that reports a commit before it is on disk: `synchronous_commit=off` of PostgreSQL,
`innodb_flush_log_at_trx_commit` 0 or 2 and `sync_binlog=0` of MySQL, `appendfsync no` of Redis, one copy of
Kafka's topics.

A crash loses the last commits, from a fraction of a second to half a minute; what is older is whole. That
can be a fair price. It isn't where something else, a payment or the step counter of a training job, relies
on the commit.

It is wrong where the loss is accepted: say so with an annotation.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.databases import DatabaseSetting
from k8s.hits import setting_hit


def check(case: Case) -> Iterator[Hit]:
    """One hit per setting by which the latest commits can be lost."""
    for row in case.rows(DatabaseSetting):
        if not row.danger.loses_all:
            yield setting_hit(case, row)


RULE = Rule(
    id="database-durability-reduced",
    title="A database may lose its latest commits",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(DatabaseSetting,),
    check=check,
    remedy="Set the value that the finding names, or accept the loss with an annotation.",
    references=(
        "PostgreSQL documentation: synchronous_commit",
        "MySQL documentation: innodb_flush_log_at_trx_commit, sync_binlog",
        "Redis documentation: persistence",
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
          image: mysql:8
          args: ["--innodb-flush-log-at-trx-commit=2"]
          env: []
          volumeMounts: [{name: data, mountPath: /var/lib/mysql}]
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
          args: [--appendfsync, "no"]
          env: []
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: db}}]
""",
        """apiVersion: v1
kind: ConfigMap
metadata: {name: pgconf, namespace: db}
data:
  postgresql.conf: |
    shared_buffers = 1GB
    synchronous_commit = off
---
apiVersion: apps/v1
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
          volumeMounts: [{name: data, mountPath: /etc/postgresql}]
      volumes: [{name: data, configMap: {name: pgconf}}]
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
          image: mysql:8
          args: ["--innodb-flush-log-at-trx-commit=1"]
          env: []
          volumeMounts: [{name: data, mountPath: /var/lib/mysql}]
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
          args: [--appendfsync, everysec]
          env: []
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: db}}]
""",
        """apiVersion: v1
kind: ConfigMap
metadata: {name: pgconf, namespace: db}
data:
  postgresql.conf: |
    #synchronous_commit = off
---
apiVersion: apps/v1
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
          volumeMounts: [{name: data, mountPath: /etc/postgresql}]
      volumes: [{name: data, configMap: {name: pgconf}}]
""",
    ),
    exercised_by=frozenset({"StatefulSet", "Deployment", "Pod"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
