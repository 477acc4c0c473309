"""Objects → an inventory: typed rows that refer to each other, which is all that rules read.

Workload → container → mount → claim → volume → class → attributes class → driver. A name that several
objects carry (the overlays of a repository) means the one that lies nearest to who refers to it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from analyzer.core.rule import Case
from k8s.catalogue import Driver, find_driver
from k8s.objects import (
    Delivery,
    KubeObject,
    Path,
    Problem,
    list_at,
    mapping_at,
    mappings,
    text_at,
)
from k8s.pods import Configs, Container, Mount, PodVolume, Workload, workloads

Row = TypeVar("Row")
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


@dataclass(frozen=True, slots=True, eq=False)
class StorageClass:
    """A StorageClass. `driver` is None if the provisioner isn't in the catalogue."""

    obj: KubeObject
    provisioner: str
    driver: Driver | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Attributes:
    """A VolumeAttributesClass."""

    obj: KubeObject
    driver_name: str
    driver: Driver | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Volume:
    """A PersistentVolume. `attributes` are those that it hands to its CSI driver."""

    obj: KubeObject
    driver: Driver | None
    driver_name: str
    class_name: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A PersistentVolumeClaim, or the template of one (in a StatefulSet, or ephemeral in a pod): `path`
    leads to its spec. `storage`, `volume` and `attributes` are None where they aren't known."""

    obj: KubeObject
    path: Path
    name: str
    modes: frozenset[str]
    block: bool
    class_name: str | None
    attributes_name: str
    storage: StorageClass | None
    volume: Volume | None
    attributes: Attributes | None

    @property
    def driver(self) -> Driver | None:
        """The driver of its volume."""
        if self.volume is not None:
            return self.volume.driver
        return self.storage.driver if self.storage else None

    @property
    def shared(self) -> bool:
        """Whether several nodes may mount it."""
        return bool(self.modes & SHARED_MODES)


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A container that mounts a volume; `claim` is None where the volume has none, or it isn't known."""

    workload: Workload
    container: Container
    mount: Mount
    claim: Claim | None


@dataclass(slots=True)
class Inventory:
    """All rows, and who uses what. `of` gives the rows of one type to rules."""

    rows: dict[type[Any], list[Any]] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    uses_of_claim: dict[Claim, list[Use]] = field(default_factory=dict)
    uses_of_workload: dict[Workload, list[Use]] = field(default_factory=dict)
    claims_of_class: dict[StorageClass, list[Claim]] = field(default_factory=dict)
    volumes_of_class: dict[StorageClass, list[Volume]] = field(default_factory=dict)
    claims_of_volume: dict[Volume, list[Claim]] = field(default_factory=dict)

    def of(self, row_type: type[Row]) -> Sequence[Row]:
        """The rows of one type, in the order of the input; an `Inventory` is a row of its own."""
        return [self] if isinstance(self, row_type) else self.rows.get(row_type, [])

    def names(self) -> Iterator[tuple[str, str]]:
        """(name, kind) of every object and namespace, for masking."""
        for obj in self.rows.get(KubeObject, []):
            yield obj.name, obj.kind
            yield obj.namespace, "namespace"
        for claim in self.rows.get(Claim, []):
            yield claim.name, "PersistentVolumeClaim"

    def uses(self, storage: StorageClass) -> list[Use]:
        """Who mounts volumes of a class."""
        return [
            use
            for claim in self.claims_of_class.get(storage, ())
            for use in self.uses_of_claim.get(claim, ())
        ]


def inventory_of(case: Case) -> Inventory:
    """The inventory that a rule is run on."""
    return next(iter(case.rows(Inventory)))


def build(delivery: Delivery) -> Inventory:
    """The inventory of all objects that were delivered."""
    return _Builder(delivery).built()


_ANY = "*"  # no namespace is called so


class _Names:
    """Finds the object that a name means: in the namespace, else without one; of several the nearest, which
    is the first in the same file, else in the same folder, else in the one above it, and so on."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Any] = {}  # name, namespace, place → first row there

    def add(self, name: str, namespace: str, row: Any) -> None:
        for place in _places(row.obj.source.origin):
            self._known.setdefault((name, namespace, place), row)
            self._known.setdefault((name, _ANY, place), row)

    def find(self, name: str, namespace: str, origin: str) -> Any:
        """The row, None if there is none."""
        places = _places(origin)
        for wanted in (namespace, "") if namespace else (_ANY,):
            for place in places:
                if (name, wanted, place) in self._known:
                    return self._known[name, wanted, place]
        return None


@lru_cache(maxsize=4096)
def _places(origin: str) -> tuple[str, ...]:
    """A file and the folders that it is in, innermost first; the last is the one that holds all."""
    parts = origin.split("/")
    return (*("/".join(parts[:end]) for end in range(len(parts), 0, -1)), "")


class _Builder:
    """Makes the rows in the order in which they refer to each other."""

    def __init__(self, delivery: Delivery) -> None:
        self._objects = delivery.objects
        self._inventory = Inventory()
        self._inventory.rows[Problem] = list(delivery.problems)
        self._inventory.rows[KubeObject] = list(delivery.objects)
        self._names: dict[type[Any], _Names] = defaultdict(_Names)
        self._configs = Configs()
        self._claimed: dict[tuple[str, str], Volume] = {}

    def built(self) -> Inventory:
        by_kind: dict[str, list[KubeObject]] = defaultdict(list)
        for obj in self._objects:
            by_kind[obj.kind].append(obj)
        self._inventory.kinds.update({kind: len(found) for kind, found in by_kind.items()})
        for obj in by_kind["ConfigMap"]:
            self._configs.by_name.setdefault((obj.namespace, obj.name), obj)
        for obj in by_kind["StorageClass"]:
            self._add(StorageClass, _storage_class(obj))
        for obj in by_kind["VolumeAttributesClass"]:
            driver_name = text_at(obj.data, "driverName")
            self._add(Attributes, Attributes(obj, driver_name, find_driver(driver_name), _parameters(obj)))
        for obj in by_kind["PersistentVolume"]:
            volume = _volume(obj)
            self._add(Volume, volume)
            reference = mapping_at(obj.data, "spec", "claimRef")
            key = (text_at(reference, "namespace"), text_at(reference, "name"))
            self._claimed.setdefault(key, volume)
        for obj in by_kind["PersistentVolumeClaim"]:
            self._add_claim(obj, (), obj.name)
        for obj in _without_owned(self._objects):
            for workload in workloads(obj, self._configs):
                self._add_workload(workload)
        self._link_classes()
        return self._inventory

    def _add(self, row_type: type[Any], row: Any) -> None:
        self._inventory.rows.setdefault(row_type, []).append(row)
        self._names[row_type].add(row.obj.name, row.obj.namespace, row)

    def _add_claim(self, obj: KubeObject, path: Path, name: str) -> Claim:
        """`path` leads to the claim or the template of one."""
        spec = mapping_at(obj.data, *path, "spec")
        origin = obj.source.origin
        class_name = spec.get("storageClassName")
        if not isinstance(class_name, str):
            annotations = mapping_at(obj.data, *path, "metadata", "annotations")
            class_name = annotations.get("volume.beta.kubernetes.io/storage-class")
        storage = None
        if isinstance(class_name, str):
            storage = self._names[StorageClass].find(class_name, "", origin)
        else:
            class_name, storage = None, self._default_class()
        volume = self._names[Volume].find(text_at(spec, "volumeName"), "", origin)
        volume = volume or self._bound(obj, name)
        attributes_name = text_at(spec, "volumeAttributesClassName")
        claim = Claim(
            obj,
            (*path, "spec"),
            name,
            frozenset(mode for mode in list_at(spec, "accessModes") if isinstance(mode, str)),
            text_at(spec, "volumeMode") == "Block",
            class_name,
            attributes_name,
            storage,
            volume,
            self._names[Attributes].find(attributes_name, "", origin) if attributes_name else None,
        )
        self._inventory.rows.setdefault(Claim, []).append(claim)
        if not path:
            self._names[Claim].add(obj.name, obj.namespace, claim)
        return claim

    def _default_class(self) -> StorageClass | None:
        marked = [
            row
            for row in self._inventory.rows.get(StorageClass, [])
            if row.obj.annotations.get(_DEFAULT_CLASS) == "true"
        ]
        return marked[0] if len(marked) == 1 else None

    def _bound(self, obj: KubeObject, name: str) -> Volume | None:
        """A volume that names the claim as its own."""
        return self._claimed.get((obj.namespace, name)) if name else None

    def _add_workload(self, workload: Workload) -> None:
        self._inventory.rows.setdefault(Workload, []).append(workload)
        claims: dict[PodVolume, Claim | None] = {}
        for volume in workload.volumes:
            claims[volume] = self._claim_of(workload, volume)
        for container in workload.containers:
            for mount in container.mounts:
                claim = claims.get(mount.volume) if mount.volume else None
                use = Use(workload, container, mount, claim)
                self._inventory.rows.setdefault(Use, []).append(use)
                self._inventory.uses_of_workload.setdefault(workload, []).append(use)
                if claim is not None:
                    self._inventory.uses_of_claim.setdefault(claim, []).append(use)

    def _claim_of(self, workload: Workload, volume: PodVolume) -> Claim | None:
        if volume.kind == "persistentVolumeClaim":
            origin = workload.obj.source.origin
            found = self._names[Claim].find(volume.claim, workload.namespace, origin)
            return found if isinstance(found, Claim) else None
        if volume.kind == "template":
            return self._add_claim(workload.obj, volume.path, volume.name)
        if volume.kind == "ephemeral":
            return self._add_claim(workload.obj, (*volume.path, "volumeClaimTemplate"), volume.name)
        return None

    def _link_classes(self) -> None:
        inventory = self._inventory
        for claim in inventory.rows.get(Claim, []):
            if claim.storage is not None:
                inventory.claims_of_class.setdefault(claim.storage, []).append(claim)
            if claim.volume is not None:
                inventory.claims_of_volume.setdefault(claim.volume, []).append(claim)
        for volume in inventory.rows.get(Volume, []):
            storage = self._names[StorageClass].find(volume.class_name, "", volume.obj.source.origin)
            if storage is not None:
                inventory.volumes_of_class.setdefault(storage, []).append(volume)


def _without_owned(objects: Sequence[KubeObject]) -> Iterator[KubeObject]:
    """Objects that no other one stands for: a cluster lists a Deployment, its ReplicaSets and their pods.
    Of those whose owner isn't there one stands for all."""
    known = {(obj.kind, obj.namespace, obj.name) for obj in objects}
    seen: set[tuple[str, str, str]] = set()
    for obj in objects:
        owner = next(
            (
                o
                for _, o in mappings(list_at(obj.data, "metadata", "ownerReferences"))
                if o.get("controller")
            ),
            None,
        )
        if owner is not None:
            key = (text_at(owner, "kind"), obj.namespace, text_at(owner, "name"))
            if key in known or key in seen:
                continue
            seen.add(key)
        yield obj


def _parameters(obj: KubeObject) -> Mapping[str, Any]:
    return mapping_at(obj.data, "parameters")


def _storage_class(obj: KubeObject) -> StorageClass:
    provisioner = text_at(obj.data, "provisioner")
    return StorageClass(obj, provisioner, find_driver(provisioner), _parameters(obj))


def _volume(obj: KubeObject) -> Volume:
    driver_name = text_at(obj.data, "spec", "csi", "driver")
    return Volume(
        obj,
        find_driver(driver_name) if driver_name else None,
        driver_name,
        text_at(obj.data, "spec", "storageClassName"),
        mapping_at(obj.data, "spec", "csi", "volumeAttributes"),
    )
