"""Live lists against a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from k8s.client import Answer, Api, open_cluster
from k8s.kinds import KINDS
from k8s.live import load_live
from k8s.objects import Delivery
from tests.cluster import objects
from tests.cluster.control_plane import ADMIN, Client, ControlPlane

pytestmark = pytest.mark.xdist_group("cluster")

CONFIG_MAPS = tuple(kind for kind in KINDS if kind.name == "ConfigMap")
MANY = 3000


@dataclass(slots=True)
class Watched:
    """An `Api` that notes each question, and lets a test act after an answer."""

    api: Api
    act: Callable[[int], None] = lambda _pages: None
    asked: list[tuple[str, Mapping[str, str], int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.api.name

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        answer = self.api.get(path, query)
        self.asked.append((path, query or {}, answer.status))
        if query and "limit" in query:
            self.act(len(self.statuses))
        return answer

    @property
    def statuses(self) -> list[int]:
        return [status for _, query, status in self.asked if "limit" in query]


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Api]:
    with open_cluster(kubeconfig=plane.kubeconfig(ADMIN)) as opened:
        yield opened


@pytest.fixture(scope="module")
def many(admin: Client) -> str:
    """A namespace with 3,000 ConfigMaps."""
    objects.namespace(admin, "many")
    path = "/api/v1/namespaces/many/configmaps"
    objects.fill(admin, path, (objects.config_map(f"c{n:05}") for n in range(MANY)))
    return "many"


def names(delivery: Delivery) -> list[str]:
    return [obj.name for obj in delivery.objects]


def test_objects_come_with_their_kind_and_without_bookkeeping(admin: Client, api: Api) -> None:
    body = {
        "metadata": {"name": "live-fast", "annotations": {"team": "ml"}},
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3"},
    }
    admin.create(objects.CLASSES, body)
    gold = {"driverName": "ebs.csi.aws.com", "parameters": {"iops": "4000"}}
    admin.create(objects.ATTRIBUTES, {**gold, "metadata": {"name": "live-gold"}})
    found = {(obj.kind, obj.name): obj for obj in load_live(api).objects}
    storage = found["StorageClass", "live-fast"]
    assert (storage.group, storage.version) == ("storage.k8s.io", "v1")
    assert storage.data["parameters"] == {"type": "gp3"}
    assert storage.annotations == {"team": "ml"}
    assert "managedFields" not in storage.data["metadata"]
    assert storage.source.origin == "test"
    assert storage.source.reference(("parameters", "type")) == "StorageClass/live-fast parameters.type"
    attributes = found["VolumeAttributesClass", "live-gold"]
    assert (attributes.version, attributes.data["parameters"]) == ("v1", {"iops": "4000"})


def test_every_page_of_a_long_list_is_read(api: Api, many: str) -> None:
    watched = Watched(api)
    delivery = load_live(watched, (many,), CONFIG_MAPS, page_size=50)
    assert names(delivery) == [f"c{n:05}" for n in range(MANY)]
    assert watched.statuses == [200] * (MANY // 50)
    assert delivery.seen == {"kinds": 1, "pages": MANY // 50, "objects": MANY}
    assert delivery.unseen == ()


def test_a_list_whose_token_expires_is_begun_anew(
    plane: ControlPlane, admin: Client, api: Api, many: str
) -> None:
    def act(pages: int) -> None:
        if pages == 3:  # an object that lies on a page that was read already
            admin.create("/api/v1/namespaces/many/configmaps", objects.config_map("a-new-one"))
            plane.compact()

    watched = Watched(api, act)
    try:
        delivery = load_live(watched, (many,), CONFIG_MAPS, page_size=500)
    finally:
        admin.call("DELETE", "/api/v1/namespaces/many/configmaps/a-new-one")
    assert watched.statuses == [200, 200, 200, 410, *[200] * 7]
    assert names(delivery) == ["a-new-one", *(f"c{n:05}" for n in range(MANY))]
    assert delivery.unseen == () and not any("410" in note for note in delivery.notes)


def test_a_list_that_always_expires_is_finished_and_coverage_says_so(
    plane: ControlPlane, admin: Client, api: Api, many: str
) -> None:
    def act(pages: int) -> None:
        admin.create("/api/v1/namespaces/default/configmaps", objects.config_map(f"noise-{pages}"))
        plane.compact()

    watched = Watched(api, act)
    delivery = load_live(watched, (many,), CONFIG_MAPS, page_size=1000)
    assert watched.statuses[:5] == [200, 410, 200, 410, 200]
    assert names(delivery) == [f"c{n:05}" for n in range(MANY)]
    assert any("not as of one moment (410)" in note for note in delivery.notes)


def test_a_forbidden_kind_is_named_and_the_rest_is_read(plane: ControlPlane, admin: Client) -> None:
    objects.namespace(admin, "live")
    admin.create("/api/v1/namespaces/live/persistentvolumeclaims", objects.claim("ckpt"))
    admin.create("/api/v1/namespaces/live/configmaps", objects.config_map("settings"))
    objects.allow(admin, frozenset({"persistentvolumeclaims"}))
    with open_cluster(kubeconfig=plane.kubeconfig()) as api:
        delivery = load_live(api)
    assert [item.kind for item in delivery.unseen] == ["PersistentVolumeClaim"]
    assert delivery.unseen[0].reason == "PersistentVolumeClaim may not be listed in all namespaces (403)"
    kinds = {obj.kind for obj in delivery.objects}
    assert "ConfigMap" in kinds and "PersistentVolumeClaim" not in kinds


def test_rights_in_one_namespace_are_enough_for_that_namespace(plane: ControlPlane, admin: Client) -> None:
    objects.namespace(admin, "live")
    admin.create("/api/v1/namespaces/live/persistentvolumeclaims", objects.claim("ckpt"))
    objects.allow(admin, within="live")
    with open_cluster(kubeconfig=plane.kubeconfig()) as api:
        delivery = load_live(api, ("live",))
    assert {"StorageClass", "PersistentVolume"} <= {item.kind for item in delivery.unseen}
    assert all(item.reason.endswith("may not be listed (403)") for item in delivery.unseen)
    assert "ckpt" in [obj.name for obj in delivery.objects]
    assert delivery.notes[0] == "only these namespaces were read: live"


def test_nothing_but_lists_is_asked_for_and_never_a_secret(plane: ControlPlane, admin: Client) -> None:
    objects.allow(admin)
    with open_cluster(kubeconfig=plane.kubeconfig()) as api:
        load_live(api)
    asked = plane.requests()
    resources = {resource for verb, resource in asked if verb == "list"}
    paths = {resource for verb, resource in asked if verb != "list"}
    assert {"pods", "persistentvolumeclaims", "volumeattributesclasses"} <= resources
    assert "secrets" not in resources
    assert {verb for verb, _ in asked} <= {"list", "get"}
    assert all(path.startswith("/api") and len(path.split("/")) <= 4 for path in paths), paths  # discovery


def test_a_pod_reads_its_cluster_with_its_own_account(
    plane: ControlPlane, admin: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    admin.create(accounts, {"metadata": {"name": "audit"}})
    status, answer = admin.call("POST", f"{accounts}/audit/token", {"spec": {"expirationSeconds": 600}})
    assert status == 201
    (tmp_path / "token").write_text(answer["status"]["token"])
    objects.allow(admin, subject={"kind": "ServiceAccount", "name": "audit", "namespace": "default"})
    # what a pod has: two variables, and two files in a place that only a pod may write
    monkeypatch.setattr(
        "kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(tmp_path / "token")
    )
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_CERT_FILENAME", str(plane.certificate))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", plane.url.rpartition(":")[2])
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with open_cluster() as api:
        delivery = load_live(api)
    assert (delivery.inputs, delivery.unseen) == (("in-cluster",), ())
    assert delivery.objects


def test_kinds_of_groups_that_are_not_installed_are_not_there(api: Api) -> None:
    delivery = load_live(api, kinds=[kind for kind in KINDS if kind.group == "argoproj.io"])
    assert (delivery.objects, delivery.unseen, delivery.seen["kinds"]) == ([], (), 0)


def test_the_served_version_is_used_and_one_not_understood_is_named(admin: Client, api: Api) -> None:
    admin.create(objects.CRDS, objects.definition("ray.io", "RayCluster", "rayclusters", "v1alpha1"))
    admin.create(objects.CRDS, objects.definition("jobset.x-k8s.io", "JobSet", "jobsets", "v9"))
    kinds = [kind for kind in KINDS if kind.name in ("RayCluster", "JobSet")]
    cluster = {"apiVersion": "ray.io/v1alpha1", "kind": "RayCluster", "metadata": {"name": "train"}}
    objects.await_served(admin, "/apis/ray.io/v1alpha1/rayclusters")
    objects.await_served(admin, "/apis/jobset.x-k8s.io/v9/jobsets")
    admin.create("/apis/ray.io/v1alpha1/namespaces/default/rayclusters", cluster)
    delivery = load_live(api, kinds=kinds)
    assert [(obj.kind, obj.version, obj.name) for obj in delivery.objects] == [
        ("RayCluster", "v1alpha1", "train")
    ]
    assert [item.reason for item in delivery.unseen] == [
        "JobSet (jobset.x-k8s.io) is served in a version that is not understood (v9)"
    ]
