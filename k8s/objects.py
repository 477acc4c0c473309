"""A Kubernetes object as plain data, with its source. Whoever delivers objects (files, a live cluster)
yields `KubeObject`; nothing behind this module knows where they came from.

The data is hostile: any field may be absent or of any type. `at`, `text_at`, `mapping_at`, `list_at` read
it without ever raising.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

#: Where something stands in an object: `("spec", "volumes", 0, "emptyDir")`.
Path = tuple[str | int, ...]


class Source(Protocol):
    """Where one object came from."""

    @property
    def origin(self) -> str:
        """The file's name, or the cluster's context name."""

    def reference(self, path: Path = ()) -> str:
        """Evidence for what stands at `path`: `FILE:LINE`, or words for an object that has no file. A path
        that isn't there gives the place of its nearest parent that is."""


@dataclass(frozen=True, slots=True)
class LiveSource:
    """An object read from a cluster."""

    cluster: str
    kind: str
    namespace: str
    name: str

    @property
    def origin(self) -> str:
        """The cluster's context name."""
        return self.cluster

    def reference(self, path: Path = ()) -> str:
        """`PersistentVolumeClaim/ml/ckpt spec.accessModes[0]`."""
        name = "/".join(part for part in (self.kind, self.namespace, self.name) if part)
        return f"{name} {dotted(path)}".strip()


@dataclass(frozen=True, slots=True, eq=False)
class KubeObject:
    """One object. `group` is empty for the core group; `namespace` is empty for cluster-wide kinds and
    for manifests that don't say. Two objects are equal only if they are the same one."""

    data: Mapping[str, Any]
    source: Source
    kind: str
    group: str
    version: str
    namespace: str
    name: str

    @classmethod
    def of(cls, data: Mapping[str, Any], source: Source) -> KubeObject:
        """The object of parsed data that has at least a text under `kind`."""
        group, slash, version = text_at(data, "apiVersion").partition("/")
        if not slash:
            group, version = "", group
        return cls(
            data,
            source,
            kind=text_at(data, "kind"),
            group=group,
            version=version,
            namespace=text_at(data, "metadata", "namespace"),
            name=text_at(data, "metadata", "name") or text_at(data, "metadata", "generateName"),
        )

    @property
    def label(self) -> str:
        """`StorageClass fast`, `Deployment ml/trainer`."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".strip()

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Its annotations; values are texts unless the manifest is wrong."""
        return mapping_at(self.data, "metadata", "annotations")


@dataclass(frozen=True, slots=True)
class Unseen:
    """A kind that could not be listed, or not everywhere: rules that need it can't be judged.
    `reason` is a sentence: `PersistentVolume may not be listed (403)`."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Problem:
    """An input, or a part of one, that could not be read. `reference` is its evidence (`FILE:LINE`),
    `message` says in a sentence what is wrong, `template` is True if it looks like a template that
    must be rendered first, `duplicate` if a key is there twice (the document was read nevertheless)."""

    reference: str
    message: str
    remedy: str = ""
    template: bool = False
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """All that a source delivered. `seen` maps a plural noun (files, documents, pages ...) to a count."""

    objects: Sequence[KubeObject]
    inputs: tuple[str, ...]
    seen: Mapping[str, int]
    problems: tuple[Problem, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    notes: tuple[str, ...] = ()


def dotted(path: Path) -> str:
    """`spec.volumes[0].emptyDir`; a key with dots in it stands in brackets."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int) or "." in step or "/" in step:
            parts.append(f"[{step}]")
        else:
            parts.append(f".{step}" if parts else step)
    return "".join(parts)


def at(data: Any, *path: str | int) -> Any:
    """What stands at the path, None if nothing does."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(data, list) or not -len(data) <= step < len(data):
                return None
            data = data[step]
        elif isinstance(data, Mapping):
            data = data.get(step)
        else:
            return None
    return data


def text_at(data: Any, *path: str | int) -> str:
    """The text at the path, empty if there is none."""
    value = at(data, *path)
    return value if isinstance(value, str) else ""


def mapping_at(data: Any, *path: str | int) -> Mapping[str, Any]:
    """The mapping at the path, empty if there is none."""
    value = at(data, *path)
    return value if isinstance(value, Mapping) else {}


def list_at(data: Any, *path: str | int) -> Sequence[Any]:
    """The list at the path, empty if there is none."""
    value = at(data, *path)
    return value if isinstance(value, list) else ()


def scalar_text(value: Any) -> str:
    """A scalar as YAML would write it: `true`, `3000`; a text as it is; empty for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""


def mappings(items: Iterable[Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(index, item) of those items that are mappings."""
    for index, item in enumerate(items):
        if isinstance(item, Mapping):
            yield index, item
