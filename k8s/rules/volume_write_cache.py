"""A parameter of a class that puts a write cache between the volume and the storage: `cachingMode:
ReadWrite` of Azure disks, `data-cache-mode: writeback` of GCP disks.

fsync returns when the cache has the data. The cache is on the host or on a local disk of the node, and what
it holds is lost with it.

It is wrong where what is written can be made again.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Inventory, StorageClass, inventory_of
from k8s.objects import scalar_text
from k8s.words import subject_of, used_by


def check(case: Case) -> Iterator[Hit]:
    """One hit per class."""
    inventory = inventory_of(case)
    for storage in case.rows(StorageClass):
        for setting in storage.driver.settings if storage.driver else ():
            value = scalar_text(storage.parameters.get(setting.key))
            if setting.rule == "write-cache" and value in setting.risky:
                yield Hit(
                    subject=subject_of(storage.obj),
                    message=f"{storage.obj.label} sets {setting.key} to {value}: {setting.meaning}"
                    f"{used_by(inventory.uses(storage))}",
                    evidence=(storage.obj.source.reference(("parameters", setting.key)),),
                    facts={"key": setting.key, "value": value, "path": f"parameters.{setting.key}"},
                    key=setting.key,
                )


RULE = Rule(
    id="volume-write-cache",
    title="The driver is told to keep writes in a cache that can be lost",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(
        Inventory,
        StorageClass,
    ),
    check=check,
    remedy="Take the parameter out, or use the mode that writes through.",
    references=("Azure Disk CSI driver: cachingMode", "GCP PD CSI driver: data cache"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: az}
provisioner: disk.csi.azure.com
parameters: {skuName: Premium_LRS, cachingMode: ReadWrite}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: az}
provisioner: disk.csi.azure.com
parameters: {skuName: Premium_LRS, cachingMode: ReadOnly}""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
