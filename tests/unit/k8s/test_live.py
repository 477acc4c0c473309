"""Live lists where the API server misbehaves in ways that a real one can't be made to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from analyzer.core.errors import InputError
from k8s import live
from k8s.client import Answer
from k8s.kinds import KINDS, Kind
from k8s.live import load_live

Query = Mapping[str, str]


def kinds(*names: str) -> list[Kind]:
    return [kind for kind in KINDS if kind.name in names and kind.group in ("", "storage.k8s.io", "apps")]


def answer(data: object, status: int = 200) -> Answer:
    return Answer(status, orjson.dumps(data))


def items(*names: str, token: str = "", **fields: object) -> Answer:
    return answer(
        {"metadata": {"continue": token}, "items": [{"metadata": {"name": n}, **fields} for n in names]}
    )


@dataclass(slots=True)
class Scripted:
    """An `Api` that serves the kinds that are read, and answers lists as a test says."""

    lists: Callable[[str, Query], Answer]
    discovery: Mapping[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, Query]] = field(default_factory=list)
    name: str = "scripted"

    def get(self, path: str, query: Query | None = None) -> Answer:
        self.asked.append((path, query or {}))
        assert len(self.asked) < 1000, "it asks without end"
        if query:
            return self.lists(path, query)
        if path in self.discovery:
            return self.discovery[path]
        if path == "/apis":
            groups: dict[str, list[str]] = {}
            for kind in KINDS:
                groups.setdefault(kind.group, []).extend(kind.versions)
            served = [
                {"name": g, "versions": [{"version": v} for v in vs]} for g, vs in groups.items() if g
            ]
            return answer({"groups": served})
        return answer({"resources": [{"name": kind.plural} for kind in KINDS]})


def test_a_token_that_leads_to_itself_ends() -> None:
    api = Scripted(lambda _path, _query: items("a", token="same"))
    delivery = load_live(api, kinds=kinds("ConfigMap"))
    assert len(delivery.objects) == 2
    assert "not read to its end" in delivery.unseen[0].reason


def test_endless_pages_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_OBJECTS", 50)
    count = iter(range(10**9))
    api = Scripted(lambda _path, _query: items("a", token=str(next(count))))
    delivery = load_live(api, kinds=kinds("ConfigMap"))
    assert len(delivery.objects) == 51
    assert "not read to its end" in delivery.unseen[0].reason


def test_endless_empty_pages_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_PAGES", 50)
    count = iter(range(10**9))
    delivery = load_live(Scripted(lambda _p, _q: items(token=str(next(count)))), kinds=kinds("ConfigMap"))
    assert "not read to its end" in delivery.unseen[0].reason


def test_a_list_that_expires_whatever_is_asked_ends() -> None:
    count = iter(range(10**9))
    api = Scripted(lambda _p, _q: answer({"metadata": {"continue": str(next(count))}}, 410))
    delivery = load_live(api, kinds=kinds("ConfigMap"))
    assert "changes faster than it can be listed (410)" in delivery.unseen[0].reason


def test_many_bytes_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_BYTES", 10_000)
    count = iter(range(10**9))
    api = Scripted(lambda _path, _query: items("a", token=str(next(count)), data={"x": "y" * 3000}))
    assert len(load_live(api, kinds=kinds("ConfigMap")).objects) < 6


def test_a_page_that_is_too_large_is_asked_for_in_parts() -> None:
    def lists(_path: str, query: Query) -> Answer:
        return Answer(200, None) if int(query["limit"]) > 40 else items("a")

    api = Scripted(lists)
    delivery = load_live(api, kinds=kinds("ConfigMap"), page_size=500)
    assert [query["limit"] for _, query in api.asked if query] == ["500", "125", "31"]
    assert (len(delivery.objects), delivery.unseen) == (1, ())


def test_an_object_that_is_too_large_is_named() -> None:
    delivery = load_live(Scripted(lambda _path, _query: Answer(200, None)), kinds=kinds("ConfigMap"))
    assert delivery.unseen[0].reason == "ConfigMap is too large to read"


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Answer(200, b"<html>"), "the answer is no list"),
        (Answer(200, b"[1]"), "the answer is no list"),
        (answer({"items": {"a": 1}}), "the answer is no list"),
        (answer({}, 500), "HTTP 500"),
        (answer({}, 302), "HTTP 302"),
        (answer({}, 410), "changes faster than it can be listed (410)"),
    ],
)
def test_an_answer_that_is_no_list_is_named(reply: Answer, says: str) -> None:
    delivery = load_live(Scripted(lambda _path, _query: reply), kinds=kinds("ConfigMap"))
    assert says in delivery.unseen[0].reason
    assert not delivery.objects


def test_items_of_any_form_do_no_harm() -> None:
    strange: list[Any] = [
        None,
        1,
        "x",
        [],
        {},
        {"metadata": 1},
        {"metadata": {"annotations": [], "name": 7}},
    ]
    strange += [{"metadata": {"name": "a"}, "spec": [1], "kind": "Secret", "apiVersion": "v9"}]
    api = Scripted(lambda _path, _query: answer({"items": strange}))
    delivery = load_live(api, kinds=kinds("Pod"))
    assert [(obj.kind, obj.version) for obj in delivery.objects] == [("Pod", "v1")] * 4


def test_a_kind_that_went_away_is_not_there() -> None:
    delivery = load_live(Scripted(lambda _path, _query: answer({}, 404)), kinds=kinds("ConfigMap"))
    assert (delivery.objects, delivery.unseen) == ([], ())


def test_a_group_whose_server_is_down_is_named() -> None:
    api = Scripted(lambda _path, _query: items("a"), {"/apis/storage.k8s.io/v1": answer({}, 503)})
    delivery = load_live(api, kinds=kinds("StorageClass", "ConfigMap"))
    assert [item.reason for item in delivery.unseen] == [
        "StorageClass (storage.k8s.io) can't be listed: its API group gives HTTP 503"
    ]
    assert [obj.kind for obj in delivery.objects] == ["ConfigMap"]


def test_with_discovery_closed_every_kind_is_asked_for() -> None:
    def lists(path: str, _query: Query) -> Answer:
        return answer({}, 404) if "storageclasses" in path else items("a")

    api = Scripted(lists, {"/apis": answer({}, 403)})
    delivery = load_live(api, kinds=kinds("StorageClass", "ConfigMap"))
    assert [obj.kind for obj in delivery.objects] == ["ConfigMap"]
    assert delivery.unseen == ()


@pytest.mark.parametrize(
    "reply", [Answer(200, b"hello"), Answer(404, b"{}"), answer([]), answer({"groups": 1})]
)
def test_what_is_no_kubernetes_is_an_error(reply: Answer) -> None:
    with pytest.raises(InputError, match="no answer of a Kubernetes API"):
        load_live(Scripted(lambda _path, _query: items("a"), {"/apis": reply}))


def test_namespaces_are_asked_for_one_by_one_and_escaped() -> None:
    api = Scripted(lambda _path, _query: items("a"))
    load_live(api, ("ml", "a/../b"), kinds("ConfigMap", "StorageClass"))
    assert [path for path, query in api.asked if query] == [
        "/apis/storage.k8s.io/v1/storageclasses",
        "/api/v1/namespaces/ml/configmaps",
        "/api/v1/namespaces/a%2F..%2Fb/configmaps",
    ]


def test_pods_of_one_template_share_what_they_have_in_common() -> None:
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}], "volumes": []}
    api = Scripted(lambda _path, _query: items("a", "b", spec=spec, status={"phase": "Running"}))
    one, other = (obj.data for obj in load_live(api, kinds=kinds("Pod")).objects)
    assert one["spec"]["containers"] == spec["containers"]
    assert one["spec"]["containers"] is other["spec"]["containers"]
    assert "status" not in one


def test_very_long_values_of_config_maps_are_left_out_and_counted() -> None:
    data = {"train.sh": "torchrun train.py", "dashboard.json": "x" * (live.MAX_VALUE_CHARS + 1)}
    api = Scripted(lambda _path, _query: items("a", data=data, binaryData={"model": "AAAA"}))
    delivery = load_live(api, kinds=kinds("ConfigMap"))
    (found,) = delivery.objects
    assert found.data["data"] == {"train.sh": "torchrun train.py"}
    assert "binaryData" not in found.data
    assert delivery.notes == ("values of ConfigMaps longer than 128 KiB were not read: 1",)


def test_deep_nesting_does_no_harm() -> None:
    deep = b'{"items":[{"metadata":{"name":"a"},"spec":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}]}"
    api = Scripted(lambda _path, _query: Answer(200, deep))
    assert [obj.name for obj in load_live(api, kinds=kinds("Pod")).objects] == ["a"]
    bottomless = Answer(200, b'{"items":' + b"[" * 100_000)
    delivery = load_live(Scripted(lambda _path, _query: bottomless), kinds=kinds("Pod"))
    assert "the answer is no list" in delivery.unseen[0].reason


def test_the_state_of_volumes_is_kept() -> None:
    api = Scripted(lambda _path, _query: items("a", status={"phase": "Bound"}))
    (found,) = load_live(api, kinds=kinds("PersistentVolumeClaim")).objects
    assert found.data["status"] == {"phase": "Bound"}
