"""Limits of all classes, and how one is set where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from analyzer.core.finding import Change
from analyzer.core.rule import Case
from k8s.catalogue import Driver
from k8s.inventory import Attributes
from k8s.qos import ClassQos, Limit, limits_in

#: which keys of a VolumeAttributesClass to write for a limit in IOPS, and for one in bytes per second
_IOPS = ("maxReadIops", "maxWriteIops", "qosIopsLimit", "iops", "DiskIOPSReadWrite", "provisionedIOPS")
_BYTES = ("maxReadBps", "maxWriteBps", "qosBandwithPerSec")


def limits_of(case: Case) -> Iterator[Limit]:
    """Every key that should limit, of StorageClasses and of VolumeAttributesClasses."""
    for row in case.rows(ClassQos):
        yield from row.limits
    for attributes in case.rows(Attributes):
        if attributes.driver is not None:
            path = ("parameters",)
            yield from limits_in(attributes.driver, attributes.obj, attributes.parameters, path, False)


def remedy(row: ClassQos) -> str:
    """How to limit the volumes of a class, by what its driver offers."""
    driver = row.storage.driver
    if driver is None:
        return ""
    if driver.filesystem == "juicefs":
        return "Add `upload-limit=MBPS` and `download-limit=MBPS` to the mount options."
    if driver.vac_supported and driver.vac_keys:
        keys = ", ".join(f"`{key.name}`" for key in driver.vac_keys if key.limit)
        return (
            f"Make a VolumeAttributesClass for {row.storage.provisioner} with {keys}, and name it in"
            " `spec.volumeAttributesClassName` of each claim; that works on volumes that exist, too."
            " `--fix`"
            " writes both. Kubernetes 1.34 or newer."
        )
    keys = ", ".join(f"`{key.name}`" for key in driver.class_keys or () if key.limit)
    return (
        f"Make a new class with limits ({keys}) and move the claims to it: parameters of a class can't be"
        " changed, and volumes that exist keep theirs."
    )


def proposed(row: ClassQos, limit_iops: int, limit_mib_per_s: int) -> tuple[Change, ...]:
    """A VolumeAttributesClass beside the class, and the reference to it in every claim; nothing where the
    driver takes none, or nobody claims from the class."""
    driver = row.storage.driver
    if driver is None or not driver.vac_supported or not driver.vac_keys or not row.open_claims:
        return ()
    parameters = _parameters(driver, limit_iops, limit_mib_per_s)
    if not parameters:
        return ()
    name = f"{row.storage.obj.name}-limited"
    attributes: dict[str, Any] = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttributesClass",
        "metadata": {"name": name},
        "driverName": row.storage.provisioner,
        "parameters": parameters,
    }
    changes = [Change(row.storage.obj.source.reference(), (), attributes)]
    for claim in row.open_claims:
        path = (*claim.path, "volumeAttributesClassName")
        changes.append(Change(claim.obj.source.reference(), path, name))
    return tuple(changes)


def _parameters(driver: Driver, limit_iops: int, limit_mib_per_s: int) -> dict[str, str]:
    known = {key.name for key in driver.vac_keys or ()}
    parameters = {name: str(limit_iops) for name in _IOPS if name in known}
    parameters.update({name: str(limit_mib_per_s * 2**20) for name in _BYTES if name in known})
    return parameters
