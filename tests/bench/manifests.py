"""Figures of `storage-analyzer audit` on many manifests: `python -m tests.bench.manifests`.

A repository is made up: deployments, services, settings, claims, classes, databases and training jobs, one
file each. Wanted: 10,000 manifests in 12 s and 500 MB, and twice as many in at most twice the time.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.bench.processes import audited

WANTED_SECONDS, WANTED_MB = 12, 500

_APP = """apiVersion: apps/v1
kind: {kind}
metadata:
  name: app-{n}
  namespace: team-{team}
  labels: {{app.kubernetes.io/name: app-{n}, app.kubernetes.io/part-of: team-{team}}}
spec:
  replicas: 3
  selector:
    matchLabels: {{app.kubernetes.io/name: app-{n}}}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: app-{n}}}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "9090"
    spec:
      serviceAccountName: app-{n}
      containers:
        - name: main
          image: {image}
          command: [sh, -c, "{command}"]
          args: ["--listen=0.0.0.0:8080", "--log-level=info", "--output_dir=/data/out"]
          env:
            - name: POD_NAME
              valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}
            - name: CHECKPOINT_DIR
              value: /data/checkpoints
          envFrom:
            - configMapRef: {{name: settings-{n}}}
          resources:
            requests: {{cpu: 500m, memory: 1Gi}}
            limits: {{cpu: "2", memory: 4Gi}}
          readinessProbe:
            httpGet: {{path: /healthz, port: 8080}}
            periodSeconds: 10
          volumeMounts:
            - {{name: data, mountPath: /data}}
            - {{name: settings, mountPath: /etc/app}}
      volumes:
        - name: data
          persistentVolumeClaim: {{claimName: data-{n}}}
        - name: settings
          configMap: {{name: settings-{n}}}
"""
_SETTINGS = """apiVersion: v1
kind: ConfigMap
metadata: {{name: settings-{n}, namespace: team-{team}}}
data:
  LOG_LEVEL: info
  app.yaml: |
    server: {{port: 8080, threads: 8}}
    cache:
      directory: /data/cache
      size_mb: 512
    checkpoint:
      output_dir: /data/run-{n}
      use_fsync: true
  database.conf: |
    # tuned
    shared_buffers = 1GB
    synchronous_commit = on
    max_connections = 200
"""
_CLAIM = """apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data-{n}, namespace: team-{team}}}
spec:
  accessModes: [{mode}]
  storageClassName: class-{shelf}
  resources: {{requests: {{storage: 100Gi}}}}
"""
_CLASS = """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: class-{n}}}
provisioner: {provisioner}
parameters: {{csi.storage.k8s.io/fstype: ext4, pool: replicated}}
mountOptions: [{options}]
"""
_SERVICE = """apiVersion: v1
kind: Service
metadata: {{name: app-{n}, namespace: team-{team}}}
spec:
  selector: {{app.kubernetes.io/name: app-{n}}}
  ports: [{{name: http, port: 80, targetPort: 8080}}]
"""
_DRIVERS = ("rook-ceph.rbd.csi.ceph.com", "nfs.csi.k8s.io", "ebs.csi.aws.com", "csi.juicefs.com")
_OPTIONS = ("noatime", "hard, nfsvers=4.1", "barrier=0", "soft, nolock")


def manifest(n: int, classes: int) -> str:
    """The n-th manifest of a made-up repository with so many classes."""
    if n < classes:
        return _CLASS.format(n=n, provisioner=_DRIVERS[n % 4], options=_OPTIONS[n // 4 % 4])
    group, part = divmod(n, 4)
    names = {"n": group, "team": group % 97, "shelf": group % classes}
    if part == 0:
        training = group % 5 == 0
        image = "postgres:16" if group % 7 == 0 else "registry.example.com/app:1"
        command = "torchrun train.py" if training else "exec app"
        return _APP.format(kind="Deployment", image=image, command=command, **names)
    if part == 1:
        return _SETTINGS.format(**names)
    if part == 2:
        return _CLAIM.format(mode="ReadWriteMany" if group % 3 == 0 else "ReadWriteOnce", **names)
    return _SERVICE.format(**names)


def write(folder: Path, count: int) -> int:
    """Write so many manifests, a hundred to a folder; returns their size in bytes."""
    size = 0
    for n in range(count):
        place = folder / f"part-{n // 100:04d}"
        place.mkdir(parents=True, exist_ok=True)
        text = manifest(n, max(4, count // 100))
        (place / f"object-{n:06d}.yaml").write_text(text, "utf-8")
        size += len(text)
    return size


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.manifests", description=__doc__)
    parser.add_argument("--manifests", type=int, default=10_000)
    parser.add_argument("--growth", type=int, default=2, help="also on so many times the manifests")
    chosen = parser.parse_args()
    per: list[float] = []
    for factor in (1, chosen.growth):
        count = chosen.manifests * factor
        with tempfile.TemporaryDirectory(prefix="storage-analyzer-bench-") as name:
            size = write(Path(name), count)
            audited(name)  # warms the page cache and the byte code
            seconds, busy, memory = audited(name)
        per.append(busy / count)
        figures = f"{seconds:.2f} s ({busy:.2f} s busy), {memory:.0f} MB"
        print(f"{count:,} manifests, {size / 1e6:.1f} MB: {figures}", flush=True)
        if factor == 1:
            print(f"  wanted for 10,000: at most {WANTED_SECONDS} s and {WANTED_MB} MB")
    print(f"time per manifest with {chosen.growth} times as many: {per[1] / per[0]:.2f} times as much")


if __name__ == "__main__":
    main()
