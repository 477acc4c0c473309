"""`storage-analyzer audit --live` as a user runs it, against a real API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import objects
from tests.cluster.control_plane import ADMIN, AUDITOR, Client, ControlPlane

pytestmark = pytest.mark.xdist_group("cluster")


def audit(kubeconfig: Path | str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_")}
    return subprocess.run(
        [sys.executable, "-m", "analyzer", "audit", "--live", *arguments],
        env={**base, "KUBECONFIG": str(kubeconfig), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_class_without_barriers_is_found_in_a_cluster(plane: ControlPlane, admin: Client) -> None:
    body = {"provisioner": "ebs.csi.aws.com", "parameters": {"type": "gp3"}}
    bad = {**body, "metadata": {"name": "no-barriers"}, "mountOptions": ["nobarrier"]}
    twin = {**body, "metadata": {"name": "with-barriers"}, "mountOptions": ["noatime"]}
    for storage in (bad, twin):
        admin.create(objects.CLASSES, storage)
    try:
        done = audit(plane.kubeconfig(ADMIN), "--format", "json")
    finally:
        for name in ("no-barriers", "with-barriers"):
            admin.call("DELETE", f"{objects.CLASSES}/{name}")
    assert done.returncode == 1, done.stderr
    findings = [f for f in json.loads(done.stdout)["findings"] if f["rule"] == "mount-barriers-off"]
    assert [f["subject"]["name"] for f in findings] == ["no-barriers"]
    assert findings[0]["evidence"] == ["StorageClass/no-barriers mountOptions[0]"]


def test_a_forbidden_kind_makes_its_rules_unknown(plane: ControlPlane, admin: Client) -> None:
    objects.allow(admin, frozenset({"storageclasses"}))
    done = audit(plane.kubeconfig(AUDITOR), "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode in (1, 4)
    unknown = {j["rule"]: j["reason"] for j in report["judgements"] if j["verdict"] == "unknown"}
    assert "StorageClass (storage.k8s.io) may not be listed (403)" in unknown["binding-immediate-zonal"]
    assert any("may not be listed (403)" in note["text"] for note in report["coverage"]["notes"])


def test_who_may_list_nothing_gets_no_all_clear(plane: ControlPlane, admin: Client) -> None:
    objects.revoke(admin)
    done = audit(plane.kubeconfig(AUDITOR))
    assert done.returncode == 4, done.stderr
    assert "CLEAN" not in done.stdout


@pytest.mark.parametrize(
    ("kubeconfig", "says"),
    [
        (lambda p: p.kubeconfig(token="expired"), "refuses the credentials (401)"),
        (lambda p: p.kubeconfig(server="https://127.0.0.1:1"), "can't be reached: Failed to establish"),
        (lambda p: p.kubeconfig(server="https://nowhere.invalid"), "Failed to resolve 'nowhere.invalid'"),
        (lambda p: p.kubeconfig(certificate="/etc/ssl/certs/ca-certificates.crt"), "is not trusted (TLS)"),
        (lambda p: p.kubeconfig(certificate="/no/such/file"), "no usable kubeconfig"),
        (lambda p: p.kubeconfig(server=p.url.replace("https", "http")), "no answer of a Kubernetes API"),
        (lambda _: "/no/such/kubeconfig", "there is no kubeconfig (/no/such/kubeconfig)"),
        (lambda _: "/etc/passwd", "no usable kubeconfig"),
        (lambda _: "/dev/null", "no usable kubeconfig"),
    ],
)
def test_trouble_is_one_sentence_and_exit_code_2(
    plane: ControlPlane, kubeconfig: Callable[[ControlPlane], Path | str], says: str
) -> None:
    done = audit(kubeconfig(plane))
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    message = done.stderr.strip()
    assert message.startswith("storage-analyzer: ") and says in message
    assert "\n" not in message and "Traceback" not in message


def test_an_unknown_context_names_those_that_there_are(plane: ControlPlane) -> None:
    done = audit(plane.kubeconfig(), "--context", "prod")
    assert done.returncode == 2
    assert "has no context 'prod'. It has: test" in done.stderr
