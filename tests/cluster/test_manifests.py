"""The API server's own word on manifests: it takes all that we call good, and all that `--fix` makes.

Kinds of the API server itself only: those of other projects have no schema here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from analyzer.core.finding import Finding
from analyzer.pipeline.audit import AuditJob, analyse_objects
from analyzer.pipeline.rules import object_rules
from analyzer.report.policy_report import render
from k8s.audit import audit
from k8s.fix import Mended, mend
from k8s.kinds import BY_NAME
from k8s.manifests import read_texts
from k8s.objects import KubeObject, mapping_at
from tests.cluster import objects
from tests.cluster.control_plane import Client, Object

pytestmark = pytest.mark.xdist_group("cluster")

MANIFESTS = Path(__file__).parents[1] / "manifests"
RULES = object_rules()
OWN_GROUPS = frozenset({"", "storage.k8s.io", "apps", "batch"})
DRY = "?dryRun=All&fieldValidation=Strict"


def own(name: str, text: str) -> list[KubeObject]:
    """The objects of a text whose schema the API server has."""
    found = read_texts({name: text}).objects
    return [obj for obj in found if obj.group in OWN_GROUPS and (obj.group, obj.kind) in BY_NAME]


def address(obj: KubeObject) -> str:
    kind = BY_NAME[obj.group, obj.kind]
    base = f"/apis/{obj.group}/{obj.version}" if obj.group else f"/api/{obj.version}"
    return (
        f"{base}/namespaces/{obj.namespace or 'default'}/{kind.plural}"
        if kind.namespaced
        else (f"{base}/{kind.plural}")
    )


def post(client: Client, obj: KubeObject, query: str = DRY) -> tuple[int, Object]:
    objects.namespace(client, obj.namespace or "default")
    return client.call("POST", address(obj) + query, dict(obj.data))


def findings(name: str, text: str) -> list[Finding]:
    return list(audit(read_texts({name: text}), RULES).outcome.findings)


def mended(name: str, text: str) -> Mended:
    return mend({name: text}, lambda renewed: audit(renewed, RULES).outcome.findings)


GOOD = [
    pytest.param(path, id=path.stem)
    for path in sorted(MANIFESTS.glob("good/*.yaml"))
    if own(path.name, path.read_text("utf-8"))
]
MENDABLE = [
    pytest.param(path, id=path.stem)
    for path in sorted(MANIFESTS.glob("bad/*.yaml"))
    if mended(path.name, path.read_text("utf-8")).patch
]


@pytest.mark.parametrize("path", GOOD)
def test_what_we_call_good_is_accepted(admin: Client, path: Path) -> None:
    for obj in own(path.name, path.read_text("utf-8")):
        status, answer = post(admin, obj)
        assert status == 201, (obj.label, answer["message"])


@pytest.mark.parametrize("path", MENDABLE)
def test_what_a_patch_makes_is_accepted(admin: Client, path: Path) -> None:
    after = mended(path.name, path.read_text("utf-8"))
    for obj in own(path.name, after.texts[path.name]):
        status, answer = post(admin, obj)
        assert status == 201, (obj.label, answer["message"])


@pytest.mark.parametrize("path", MENDABLE)
def test_a_patch_that_a_cluster_refuses_says_that_the_object_must_be_made_anew(
    admin: Client, path: Path
) -> None:
    text = path.read_text("utf-8")
    after = {obj.label: obj for obj in own(path.name, mended(path.name, text).texts[path.name])}
    remedies = {
        change.target: f.remedy for f in findings(path.name, text) for change in f.changes if change.path
    }
    for obj in own(path.name, text):
        renewed = after[obj.label]
        if renewed.data == obj.data:
            continue
        existing = bound(admin, obj) if obj.kind == "PersistentVolumeClaim" else post(admin, obj, "")
        if existing[0] != 201:
            continue  # no cluster holds it, so none has to take the change
        try:
            body = as_applied(renewed, existing[1])
            status, answer = admin.call("PUT", f"{address(obj)}/{obj.name}{DRY}", body)
            if status != 200:
                assert "immutable" in answer["message"]
                remedy = remedies[obj.source.reference()]
                assert "anew" in remedy or "new class" in remedy, (obj.label, answer["message"], remedy)
        finally:
            admin.call("DELETE", f"{address(obj)}/{obj.name}")


def as_applied(renewed: KubeObject, existing: Object) -> Object:
    """The object as an update of one that exists; a claim keeps the volume that it was given."""
    version = {"resourceVersion": existing["metadata"]["resourceVersion"]}
    body = {**renewed.data, "metadata": {**mapping_at(renewed.data, "metadata"), **version}}
    if renewed.kind == "PersistentVolumeClaim":
        body["spec"] = {**existing["spec"], **mapping_at(renewed.data, "spec")}
    return body


def bound(client: Client, obj: KubeObject) -> tuple[int, Object]:
    """The claim as it is in a cluster that has given it a volume."""
    data: dict[str, Any] = orjson.loads(orjson.dumps(obj.data))
    data["spec"]["volumeName"] = f"volume-of-{obj.name}"
    objects.namespace(client, obj.namespace or "default")
    status, answer = client.call("POST", address(obj), data)
    if status != 201:
        return status, answer
    state = {"status": {"phase": "Bound"}}
    place = f"{address(obj)}/{obj.name}/status"
    patched, answer = client.call("PATCH", place, state, "merge-patch+json")
    return (201, answer) if patched == 200 else (patched, answer)


def test_there_are_enough_of_them() -> None:
    assert len(GOOD) >= 50
    assert len(MENDABLE) >= 15


def test_the_policy_report_is_accepted(admin: Client) -> None:
    for kind, plural, scope in (
        ("PolicyReport", "policyreports", "Namespaced"),
        ("ClusterPolicyReport", "clusterpolicyreports", "Cluster"),
    ):
        crd = objects.definition("wgpolicyk8s.io", kind, plural, "v1alpha2", objects.POLICY_REPORT)
        crd["spec"]["scope"] = scope
        admin.create(objects.CRDS, crd)
        objects.await_served(admin, f"/apis/wgpolicyk8s.io/v1alpha2/{plural}")
    paths = [str(MANIFESTS / "bad" / name) for name in ("checkpoint-emptydir-job.yaml", "nfs-nolock.yaml")]
    report = analyse_objects(AuditJob(tuple(paths)))
    items = orjson.loads(render(report.view))["items"]
    assert {item["kind"] for item in items} == {"PolicyReport", "ClusterPolicyReport"}
    for item in items:
        within = item["metadata"].get("namespace", "")
        if within:
            objects.namespace(admin, within)
        place = f"/namespaces/{within}/policyreports" if within else "/clusterpolicyreports"
        status, answer = admin.call("POST", f"/apis/wgpolicyk8s.io/v1alpha2{place}{DRY}", item)
        assert status == 201, answer["message"]
    broken = {**items[0], "results": [{"policy": "x", "result": "perhaps"}]}
    status, _ = admin.call("POST", f"/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports{DRY}", broken)
    assert status == 422, "the schema is checked"
