"""Objects to fill a cluster with, and rights to read it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from k8s.kinds import KINDS
from tests.cluster.control_plane import AUDITOR, Client, Object

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ATTRIBUTES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def fill(client: Client, path: str, bodies: Iterable[Object], threads: int = 8) -> int:
    """Create many objects; returns how many."""
    with ThreadPoolExecutor(threads) as pool:
        return sum(1 for _ in pool.map(lambda body: client.create(path, body), bodies))


def namespace(client: Client, name: str) -> None:
    """A namespace; it may be there already."""
    client.create("/api/v1/namespaces", {"metadata": {"name": name}})


def config_map(name: str, text: str = "value") -> Object:
    """A small ConfigMap."""
    return {"metadata": {"name": name}, "data": {"key": text}}


def claim(name: str, storage: str = "fast") -> Object:
    """A PersistentVolumeClaim of 10 GiB."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage,
        "resources": {"requests": {"storage": "10Gi"}},
    }
    return {"metadata": {"name": name}, "spec": spec}


_USER: Object = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": AUDITOR}


def allow(
    client: Client, forbidden: frozenset[str] = frozenset(), within: str = "", subject: Object = _USER
) -> None:
    """Let the auditor, or another subject, list every kind that is read, but for the plural names in
    `forbidden`: everywhere, or in one namespace. Rights that an earlier test gave end."""
    revoke(client)
    rules = [
        {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["list"]}
        for kind in KINDS
        if kind.plural not in forbidden
    ]
    client.create(f"{_RBAC}/clusterroles", {"metadata": {"name": "auditor"}, "rules": rules})
    body = {
        "metadata": {"name": "auditor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "auditor"},
        "subjects": [subject],
    }
    place = f"namespaces/{within}/rolebindings" if within else "clusterrolebindings"
    client.create(f"{_RBAC}/{place}", body)
    name = subject["name"]
    if subject["kind"] == "ServiceAccount":
        name = f"system:serviceaccount:{subject['namespace']}:{name}"
    _await_rights(client, name, "pods", within, True)
    for plural in forbidden:
        _await_rights(client, name, plural, within, False)


def revoke(client: Client) -> None:
    """Take away what `allow` gave."""
    _, bindings = client.call("GET", f"{_RBAC}/rolebindings?fieldSelector=metadata.name=auditor")
    for binding in bindings["items"]:
        within = binding["metadata"]["namespace"]
        client.call("DELETE", f"{_RBAC}/namespaces/{within}/rolebindings/auditor")
    client.call("DELETE", f"{_RBAC}/clusterrolebindings/auditor")
    client.call("DELETE", f"{_RBAC}/clusterroles/auditor")
    _await_rights(client, AUDITOR, "pods", "", False)


def _await_rights(client: Client, user: str, plural: str, within: str, allowed: bool) -> None:
    """Until the API server has taken notice of new rights, which it does a moment later."""
    attributes = {"resource": plural, "verb": "list", "namespace": within}
    body: Object = {"spec": {"user": user, "resourceAttributes": attributes}}
    for _ in range(200):
        _, answer = client.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        if answer["status"]["allowed"] is allowed:
            return
        time.sleep(0.05)
    raise AssertionError(f"rights of {user} to list {plural} did not become {allowed}")


def await_served(client: Client, path: str) -> None:
    """Until the API server serves a kind that was just defined."""
    for _ in range(200):
        if client.call("GET", f"{path}?limit=1")[0] == 200:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} was not served")


def definition(group: str, kind: str, plural: str, version: str, schema: Object | None = None) -> Object:
    """A CustomResourceDefinition; without a schema it takes anything."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or free},
    }
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [served]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


def _fields(*names: str) -> Object:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


_RESULT: Object = _fields("category", "message", "policy", "rule", "source")
_RESULT["required"] = ["policy"]
_RESULT["properties"] |= {
    "result": {"type": "string", "enum": ["pass", "fail", "warn", "error", "skip"]},
    "severity": {"type": "string", "enum": ["critical", "high", "medium", "low", "info"]},
    "scored": {"type": "boolean"},
    "properties": {"type": "object", "additionalProperties": {"type": "string"}},
    "resources": {
        "type": "array",
        "items": _fields("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"),
    },
}
_COUNTS = {name: {"type": "integer"} for name in ("pass", "fail", "warn", "error", "skip")}
#: wgpolicyk8s.io/v1alpha2 as the definitions that Kyverno installs have it
POLICY_REPORT: Object = {
    "type": "object",
    "properties": {
        "results": {"type": "array", "items": _RESULT},
        "summary": {"type": "object", "properties": _COUNTS},
    },
}
