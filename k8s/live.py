"""A live cluster → objects. Only lists are asked for, and only of the kinds that are read: never a Secret.

A kind that the cluster doesn't serve is not there; one that may not be listed is `Unseen`. Lists are read
page by page to the end. If their token expires on the way (410 Gone), the list is begun anew, so that it is
of one moment; a list that expires again and again is finished from where it stands, and coverage says so.
See https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks.
"""

from __future__ import annotations

import gc
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from analyzer.core.errors import InputError
from k8s.client import Answer, Api
from k8s.kinds import KINDS, Kind
from k8s.objects import Delivery, KubeObject, LiveSource, Unseen, list_at, mapping_at, text_at

PAGE_SIZE = 500
MAX_OBJECTS = 1_000_000
MAX_PAGES = 100_000
MAX_BYTES = 8 * 2**30
MAX_RESTARTS = 2
MAX_VALUE_CHARS = 2**17  # of a ConfigMap: settings and scripts are shorter, dashboards and archives aren't
_OTHERS_ASKED = 4  # versions of a group that we don't know, in which a kind may be served
_SHRINK = 4  # a page that is too large is asked for again with a quarter of its objects
_EASY_BYTES = 8 * 2**20  # larger pages make the next ones smaller
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
#: what no rule reads: of every object, of pods, and of their containers
_BOOKKEEPING = ("managedFields", "uid", "resourceVersion", "generation", "selfLink")
_OF_THE_NODE = ("nodeName", "tolerations", "affinity", "topologySpreadConstraints", "hostname", "dnsPolicy")
_OF_THE_KUBELET = ("readinessProbe", "livenessProbe", "startupProbe", "lifecycle", "imagePullPolicy",
                   "terminationMessagePath", "terminationMessagePolicy")  # fmt: skip


def load_live(
    api: Api,
    namespaces: Sequence[str] = (),
    kinds: Sequence[Kind] = KINDS,
    progress: Callable[[str, int, int], None] = lambda _stage, _done, _total: None,
    page_size: int = PAGE_SIZE,
) -> Delivery:
    """The objects of a cluster; of namespaced kinds only those in `namespaces`, if some are given.

    Raises `InputError` where the cluster can't be reached, doesn't accept the credentials, or is none.
    """
    reading = _Reading(api, page_size)
    with _collection_paused():
        served = _served(reading, kinds)
        for done, (kind, version) in enumerate(served, 1):
            for namespace in namespaces if kind.namespaced and namespaces else ("",):
                _read_list(reading, kind, version, namespace)
            progress("cluster", done, len(served))
    notes = list(reading.notes)
    if namespaces:
        notes.insert(0, f"only these namespaces were read: {', '.join(namespaces)}")
        found = {obj.namespace for obj in reading.objects}
        notes += [
            f"namespace {name} holds nothing that is read" for name in namespaces if name not in found
        ]
    if reading.seen["long"]:
        limit = f"{MAX_VALUE_CHARS // 1024} KiB"
        notes.append(f"values of ConfigMaps longer than {limit} were not read: {reading.seen['long']:,}")
    seen = {"kinds": len(served), "pages": reading.seen["pages"], "objects": len(reading.objects)}
    return Delivery(reading.objects, (api.name,), seen, (), tuple(reading.unseen), tuple(notes))


@dataclass(slots=True)
class _Reading:
    """What has been read so far. `parts` holds each part that objects have in common once."""

    api: Api
    page_size: int
    objects: list[KubeObject] = field(default_factory=list)
    unseen: list[Unseen] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    parts: dict[bytes, Any] = field(default_factory=dict)

    def miss(self, kind: Kind, reason: str) -> None:
        """Say that a kind could not be listed."""
        self.unseen.append(Unseen(kind.name, f"{_label(kind)} {reason}"))

    def note(self, text: str) -> None:
        """Say something, once."""
        if text not in self.notes:
            self.notes.append(text)


def _served(reading: _Reading, kinds: Iterable[Kind]) -> list[tuple[Kind, str]]:
    """The kinds that the cluster serves, each with the version to ask for. Rights are checked before
    existence, so without this every kind that isn't there would look forbidden."""
    answer = reading.api.get("/apis")
    if answer.status == 403:  # discovery is closed: ask for everything
        reading.note("the API server doesn't say which kinds it serves (403)")
        return [(kind, kind.versions[0]) for kind in kinds]
    groups = _parsed(answer)
    if answer.status != 200 or not isinstance(mapping_at(groups).get("groups"), list):
        raise InputError(
            f"cluster {reading.api.name!r} gives no answer of a Kubernetes API (HTTP {answer.status}). "
            "Check the server's address in the kubeconfig"
        )
    versions = {
        text_at(group, "name"): [text_at(v, "version") for v in list_at(group, "versions")]
        for group in list_at(groups, "groups")
    }
    versions[""] = ["v1"]
    found: list[tuple[Kind, str]] = []
    asked: dict[tuple[str, str], Answer] = {}
    for kind in kinds:
        if kind.group in versions:
            version = _version(reading, kind, versions[kind.group], asked)
            if version:
                found.append((kind, version))
    return found


def _version(
    reading: _Reading, kind: Kind, offered: Sequence[str], asked: dict[tuple[str, str], Answer]
) -> str:
    """The version in which a kind is listed, empty if it isn't served, or in others alone."""
    understood = [v for v in kind.versions if v in offered]
    others = [v for v in offered if v not in kind.versions][:_OTHERS_ASKED]
    for version in (*understood, *others):
        key = (kind.group, version)
        if key not in asked:
            asked[key] = reading.api.get(_base(kind.group, version))
        answer = asked[key]
        if answer.status == 403 and version in understood:
            return version
        if answer.status not in (200, 403, 404):
            reading.miss(kind, f"can't be listed: its API group gives HTTP {answer.status}")
            return ""
        if any(text_at(r, "name") == kind.plural for r in list_at(_parsed(answer), "resources")):
            if version in understood:
                return version
            reading.miss(kind, f"is served in a version that is not understood ({version})")
            return ""
    return ""


def _read_list(reading: _Reading, kind: Kind, version: str, namespace: str) -> None:
    """All pages of one list."""
    first, token, limit = len(reading.objects), "", reading.page_size
    expired = in_a_row = 0
    while True:
        query = {"limit": str(limit)} | ({"continue": token} if token else {})
        answer = reading.api.get(_path(kind, version, namespace), query)
        if answer.body is None and limit > 1:
            limit = max(1, limit // _SHRINK)
            continue
        if answer.status == 410:
            expired, in_a_row = expired + 1, in_a_row + 1
            fresh = text_at(_parsed(answer), "metadata", "continue")
            if expired <= MAX_RESTARTS:
                del reading.objects[first:]
                token = ""
            elif fresh and in_a_row <= MAX_RESTARTS:
                reading.note(f"{_label(kind)}: read while it changed, not as of one moment (410)")
                token = fresh
            else:
                reading.miss(kind, "changes faster than it can be listed (410): its end was not seen")
                return
            continue
        in_a_row = 0
        page = _page(reading, kind, namespace, answer)
        if page is None:
            return
        items, following = page
        reading.objects.extend(_objects(reading, kind, version, items))
        if not following:
            return
        if following == token or _spent(reading):
            reading.miss(kind, "was not read to its end: there is too much of it")
            return
        token = following
        if len(answer.body or b"") > _EASY_BYTES:
            limit = max(1, limit // _SHRINK)


def _spent(reading: _Reading) -> bool:
    seen = reading.seen
    return len(reading.objects) > MAX_OBJECTS or seen["bytes"] > MAX_BYTES or seen["pages"] > MAX_PAGES


def _page(reading: _Reading, kind: Kind, namespace: str, answer: Answer) -> tuple[list[Any], str] | None:
    """The items of a page and the token of the next one; None where there is no page."""
    if answer.status == 404:
        return None  # closed discovery, or the kind has just been removed: it isn't there
    if answer.status == 403:
        place = f"in namespace {namespace}" if namespace else "in all namespaces" if kind.namespaced else ""
        reading.miss(kind, " ".join(f"may not be listed {place} (403)".split()))
        return None
    if answer.status != 200 or answer.body is None:
        reading.miss(
            kind, f"can't be listed: HTTP {answer.status}" if answer.body else "is too large to read"
        )
        return None
    data = _parsed(answer)
    items = mapping_at(data).get("items")
    if not isinstance(items, list):
        reading.miss(kind, "can't be listed: the answer is no list")
        return None
    reading.seen["pages"] += 1
    reading.seen["bytes"] += len(answer.body)
    return items, text_at(data, "metadata", "continue")


def _objects(reading: _Reading, kind: Kind, version: str, items: Iterable[Any]) -> Iterator[KubeObject]:
    """Items of lists don't say their kind. What no rule reads is dropped here, before the next page."""
    api_version = f"{kind.group}/{version}" if kind.group else version
    for item in items:
        if not isinstance(item, dict):
            continue
        item["kind"], item["apiVersion"] = kind.name, api_version
        _trim(item, kind, reading.parts)
        if kind.name == "ConfigMap":
            reading.seen["long"] += _shorten(item)
        namespace, name = text_at(item, "metadata", "namespace"), text_at(item, "metadata", "name")
        yield KubeObject.of(item, LiveSource(reading.api.name, kind.name, namespace, name))


def _trim(item: dict[str, Any], kind: Kind, parts: dict[bytes, Any]) -> None:
    """Drop bookkeeping, which is most of an object, and keep what many objects have in common only once."""
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        _drop(metadata, _BOOKKEEPING)
        if isinstance(metadata.get("annotations"), dict):
            metadata["annotations"].pop(_LAST_APPLIED, None)
        _share(metadata, parts)
    spec = item.get("spec")
    if kind.templates:
        item.pop("status", None)
    if isinstance(spec, dict):
        if "" in kind.templates:  # the pod itself
            _drop(spec, _OF_THE_NODE)
            for container in (*list_at(spec, "containers"), *list_at(spec, "initContainers")):
                if isinstance(container, dict):
                    _drop(container, _OF_THE_KUBELET)
                    _share(container, parts)
        _share(spec, parts)
        _share(item, parts, ("spec",))


def _shorten(config_map: dict[str, Any]) -> int:
    """Drop what is no text, or a very long one; returns how many of those there were."""
    config_map.pop("binaryData", None)
    data = config_map.get("data")
    if not isinstance(data, dict):
        return 0
    long = [key for key, value in data.items() if isinstance(value, str) and len(value) > MAX_VALUE_CHARS]
    _drop(data, long)
    return len(long)


def _drop(mapping: dict[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        mapping.pop(key, None)


def _share(mapping: dict[str, Any], parts: dict[bytes, Any], keys: Iterable[str] = ()) -> None:
    """Put the part that was seen first in the place of those equal to it; nobody changes an object."""
    for key in keys or list(mapping):
        value = mapping[key]
        if isinstance(value, dict | list):
            try:
                text = orjson.dumps(value)
            except orjson.JSONEncodeError:  # it reads deeper nesting than it writes
                continue
            mapping[key] = parts.setdefault(hashlib.blake2b(text, digest_size=16).digest(), value)


def _base(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _path(kind: Kind, version: str, namespace: str) -> str:
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{_base(kind.group, version)}{place}/{kind.plural}"


def _label(kind: Kind) -> str:
    return f"{kind.name} ({kind.group})" if kind.group else kind.name


def _parsed(answer: Answer) -> Any:
    """The body's JSON, None if it is none."""
    try:
        return orjson.loads(answer.body or b"")
    except orjson.JSONDecodeError:
        return None


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Parsed JSON has no cycles: looking for some costs more than parsing does."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
