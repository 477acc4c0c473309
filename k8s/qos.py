"""Which I/O limit a volume has, and where it comes from.

The order of the decision: the driver must be known; a VolumeAttributesClass of the claim counts before
the class, that before what the volume itself carries, that before mount options. A value that means "no
limit" is none, and neither is a key that has no effect beside the others. A driver that has no knob is
limited elsewhere, or not at all: the manifest can't tell.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from k8s.catalogue import Driver, QosKey, fits
from k8s.databases import engine_of
from k8s.inventory import Attributes, Claim, Inventory, StorageClass, Use
from k8s.objects import KubeObject, Path, list_at, scalar_text
from k8s.options import parse_items

_MOUNT_LIMITS = ("upload-limit", "download-limit")


class State(enum.Enum):
    """What is known of the limit of a class's volumes."""

    LIMITED = "limited"
    NONE = "none"  # though the driver has a knob
    DEFAULT = "default"  # what the provider gives unasked
    ELSEWHERE = "elsewhere"  # no knob in Kubernetes
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Limit:
    """A key that should limit. `unlimited`: its value means no limit. `missing`: `type=gp3` without which
    it has no effect, empty if it has."""

    key: QosKey
    name: str
    value: str
    obj: KubeObject
    path: Path
    unlimited: bool
    missing: str

    @property
    def effective(self) -> bool:
        """True if it limits anything."""
        return not self.unlimited and not self.missing


@dataclass(frozen=True, slots=True, eq=False)
class ClassQos:
    """What limits the volumes of a class. `open_claims` are those that nothing limits."""

    storage: StorageClass
    state: State
    limits: tuple[Limit, ...]
    claims: tuple[Claim, ...]
    open_claims: tuple[Claim, ...]
    uses: tuple[Use, ...]

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that claim from it, in order of name."""
        return sorted({claim.obj.namespace for claim in self.claims})

    @property
    def workloads(self) -> list[str]:
        """Labels of the workloads that mount its volumes, each once."""
        return list(dict.fromkeys(use.workload.obj.label for use in self.uses))

    @property
    def sensitive(self) -> str:
        """A workload that suffers most: one that trains, or a database. Empty if there is none."""
        for use in self.uses:
            if use.workload.training or engine_of(use.container):
                return use.workload.obj.label
        return ""


def class_qos(inventory: Inventory) -> Iterator[ClassQos]:
    """One row per class."""
    for storage in inventory.of(StorageClass):
        claims = tuple(inventory.claims_of_class.get(storage, ()))
        limits = tuple(_limits_of_class(storage))
        open_claims = tuple(c for c in claims if not _limited(c, limits))
        state = _state(inventory, storage, limits, claims, open_claims)
        yield ClassQos(storage, state, limits, claims, open_claims, tuple(inventory.uses(storage)))


def limits_in(
    driver: Driver, obj: KubeObject, parameters: Mapping[str, Any], path: Path, of_class: bool
) -> Iterator[Limit]:
    """The keys of a class (or a VolumeAttributesClass) that should limit."""
    for name, raw in parameters.items():
        key = driver.key(name) if of_class else driver.vac_key(name)
        if key is None or not key.limit:
            continue
        value = scalar_text(raw)
        missing = _missing(driver, key, parameters) if of_class else ""
        unlimited = value in key.unlimited or not value
        yield Limit(key, name, value, obj, (*path, name), unlimited, missing)


def _missing(driver: Driver, key: QosKey, parameters: Mapping[str, Any]) -> str:
    """`type=gp3`: what the key needs beside it and doesn't have."""
    for other, patterns in (key.requires or {}).items():
        known = driver.key(other)
        same = [v for k, v in parameters.items() if known is not None and driver.key(k) is known]
        value = scalar_text(same[0]) if same else known.default if known else ""
        if value and "{" not in value and "$" not in value and not fits(value, patterns):
            return f"{other}={'|'.join(patterns)}"
    return ""


def _limits_of_class(storage: StorageClass) -> Iterator[Limit]:
    if storage.driver is not None:
        yield from limits_in(storage.driver, storage.obj, storage.parameters, ("parameters",), True)
    if storage.driver is not None and storage.driver.filesystem == "juicefs":
        for option in parse_items(list_at(storage.obj.data, "mountOptions"), ("mountOptions",)):
            if option.name in _MOUNT_LIMITS:
                key = QosKey(option.name, True, unit="Mbps", unlimited=("0",))
                off = option.value in ("", "0")
                yield Limit(key, option.name, option.value, storage.obj, option.path, off, "")


def vac_limits(attributes: Attributes | None) -> bool:
    """Whether a VolumeAttributesClass limits anything."""
    if attributes is None or attributes.driver is None:
        return False
    found = limits_in(attributes.driver, attributes.obj, attributes.parameters, ("parameters",), False)
    return any(limit.effective for limit in found)


def _limited(claim: Claim, of_class: Sequence[Limit]) -> bool:
    if vac_limits(claim.attributes):
        return True
    if any(limit.effective for limit in of_class):
        return True
    volume, driver = claim.volume, claim.driver
    if volume is None or driver is None:
        return False
    found = limits_in(driver, volume.obj, volume.attributes, ("spec", "csi", "volumeAttributes"), True)
    return any(limit.effective for limit in found)


def _state(
    inventory: Inventory,
    storage: StorageClass,
    limits: Sequence[Limit],
    claims: Sequence[Claim],
    open_claims: Sequence[Claim],
) -> State:
    driver = storage.driver
    if driver is None or driver.kind == "static":
        return State.UNKNOWN
    if any(limit.effective for limit in limits) or (claims and not open_claims):
        return State.LIMITED
    if any(claim.attributes_name and claim.attributes is None for claim in open_claims):
        return State.UNKNOWN  # by a class that isn't in sight
    if not (driver.has_knob or driver.filesystem == "juicefs"):
        known = driver.elsewhere and driver.class_keys is not None
        return State.ELSEWHERE if known else State.UNKNOWN
    if driver.default_limited is None:
        return State.UNKNOWN
    return State.DEFAULT if driver.default_limited else State.NONE
