"""Figures of `storage-analyzer audit --live` on a large cluster: `python -m tests.bench.cluster`.

A real kube-apiserver is filled with pods, half of them of a hundred ReplicaSets and half with a claim of
their own, with their status and their bookkeeping. Wanted: 10,000 pods and 5,000 claims in 4 s of our own
processor time and 250 MB, and twice as many in at most twice the time.
"""

from __future__ import annotations

import argparse
from itertools import count

from tests.bench.processes import audited
from tests.cluster.binaries import build
from tests.cluster.control_plane import ADMIN, Client, Object, control_plane
from tests.cluster.objects import CLASSES, claim, fill, namespace

WANTED_SECONDS, WANTED_MB = 4, 250
_THREADS = 12


def pod(n: int) -> Object:
    """The n-th pod of a training cluster."""
    owned = n % 2 == 0
    group = n % 100 if owned else n
    storage = "shared" if owned else f"data-{n // 2}"
    environment = [{"name": f"SETTING_{k}", "value": f"value-{k}-of-a-usual-length"} for k in range(12)]
    environment.append({"name": "CHECKPOINT_DIR", "value": "/data/checkpoints"})
    metadata: Object = {
        "name": f"trainer-{n:06}",
        "labels": {"app.kubernetes.io/name": f"trainer-{group}", "pod-template-hash": f"{group:010}"},
        "annotations": {"prometheus.io/scrape": "true", "kubectl.kubernetes.io/restartedAt": "2026-12-01"},
    }
    if owned:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"trainer-{group}"}
        metadata["ownerReferences"] = [{**owner, "uid": f"{group:08}-0000-4000-8000-0", "controller": True}]
    container = {
        "name": "main",
        "image": "registry.example.com/training/pytorch:2.9-cuda13",
        "command": ["torchrun", "--nnodes=8", "train.py"],
        "args": ["--output_dir=/data/out", f"--rank={n}" if not owned else "--rank=auto"],
        "env": environment,
        "resources": {
            "requests": {"cpu": "8", "memory": "64Gi"},
            "limits": {"cpu": "16", "memory": "64Gi"},
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "scratch", "mountPath": "/tmp"}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
    }
    side = {"name": "metrics", "image": "registry.example.com/metrics:1", "args": ["--listen=:9090"]}
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": storage}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "100Gi"}},
    ]
    spec = {"nodeName": f"node-{n % 500}", "containers": [container, side], "volumes": volumes}
    return {"metadata": metadata, "spec": spec}


def status(n: int) -> Object:
    """What a node says about its pod."""
    stamp = "2026-12-01T10:00:00Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    states = [
        {
            "name": name,
            "image": "registry.example.com/training/pytorch:2.9-cuda13",
            "imageID": f"registry.example.com/training/pytorch@sha256:{n:064x}",
            "containerID": f"containerd://{n:064x}",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": stamp}},
        }
        for name in ("main", "metrics")
    ]
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": stamp} for kind in kinds]
    said = {"phase": "Running", "hostIP": "10.1.2.3", "podIP": f"10.2.{n // 250 % 250}.{n % 250}"}
    return {"status": {**said, "conditions": conditions, "containerStatuses": states, "startTime": stamp}}


def populate(client: Client, first: int, last: int) -> None:
    """Pods from `first` to before `last`, and half as many claims."""
    namespace(client, "training")
    base = "/api/v1/namespaces/training"
    for name in ("fast", "slow"):
        body = {"metadata": {"name": name}, "provisioner": "ebs.csi.aws.com", "parameters": {"type": "gp3"}}
        client.create(CLASSES, {**body, "volumeBindingMode": "WaitForFirstConsumer"})
    fill(
        client, f"{base}/persistentvolumeclaims", (claim(f"data-{n}") for n in range(first // 2, last // 2))
    )
    client.create(f"{base}/persistentvolumeclaims", claim("shared"))
    fill(client, f"{base}/pods", (pod(n) for n in range(first, last)), _THREADS)
    numbers = count(first)
    places = (f"{base}/pods/trainer-{n:06}/status" for n in range(first, last))
    for place in places:
        code, answer = client.call("PATCH", place, status(next(numbers)), "merge-patch+json")
        if code != 200:
            raise SystemExit(f"{place}: {answer}")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cluster", description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--growth", type=int, default=2, help="also with so many times the pods")
    chosen = parser.parse_args()
    busy: list[float] = []
    with control_plane(build()) as plane:
        client, environment = plane.client(), {"KUBECONFIG": str(plane.kubeconfig(ADMIN))}
        done = 0
        for factor in (1, chosen.growth):
            pods = chosen.pods * factor
            populate(client, done, pods)
            done = pods
            audited("--live", environment=environment)  # warms the byte code and the server's cache
            seconds, processor, memory = audited("--live", environment=environment)
            busy.append(processor / pods)
            print(
                f"{pods:,} pods, {pods // 2:,} claims: {seconds:.2f} s, of which {processor:.2f} s"
                f" our own, {memory:.0f} MB",
                flush=True,
            )
            if factor == 1:
                print(f"  wanted for 10,000: at most {WANTED_SECONDS} s of our own and {WANTED_MB} MB")
    print(f"time per pod with {chosen.growth} times as many: {busy[1] / busy[0]:.2f} times as much")


if __name__ == "__main__":
    main()
