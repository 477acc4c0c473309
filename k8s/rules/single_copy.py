"""A pool or class that keeps one replica: a Ceph pool with size 1, Longhorn, Mayastor or Portworx with one
replica.

One failed disk loses the volumes on it for good. Erasure-coded pools and classes that don't say are left
alone, and so is storage whose redundancy can't be seen from here.

It is wrong where the data can be made again, such as a cache of a data set.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Inventory, StorageClass, inventory_of
from k8s.objects import KubeObject, Path, at, dotted, list_at, mappings, scalar_text
from k8s.words import subject_of, used_by

_POOLS = {
    "CephBlockPool": (("spec",),),
    "CephFilesystem": (("spec", "metadataPool"),),
    "CephObjectStore": (("spec", "metadataPool"), ("spec", "dataPool")),
}


def check(case: Case) -> Iterator[Hit]:
    """One hit per pool and class."""
    inventory = inventory_of(case)
    for obj in case.rows(KubeObject):
        places: list[Path] = list(_POOLS.get(obj.kind, ()))
        if obj.kind == "CephFilesystem":
            pools = mappings(list_at(obj.data, "spec", "dataPools"))
            places += [("spec", "dataPools", index) for index, _ in pools]
        for place in places:
            path = (*place, "replicated", "size")
            if at(obj.data, *path) == 1:
                yield _hit(obj, path, "keeps one copy of its data", "")
    for storage in case.rows(StorageClass):
        for setting in storage.driver.settings if storage.driver else ():
            value = scalar_text(storage.parameters.get(setting.key))
            if setting.rule == "replicas" and value in setting.risky:
                users = used_by(inventory.uses(storage))
                yield _hit(storage.obj, ("parameters", setting.key), "keeps one copy of each volume", users)


def _hit(obj: KubeObject, path: Path, said: str, users: str) -> Hit:
    return Hit(
        subject=subject_of(obj),
        message=f"{obj.label} {said} ({dotted(path)}): one failed disk loses it{users}",
        evidence=(obj.source.reference(path),),
        facts={"path": dotted(path)},
        key=dotted(path),
    )


RULE = Rule(
    id="single-copy",
    title="Data has one copy only",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(
        KubeObject,
        Inventory,
        StorageClass,
    ),
    check=check,
    remedy="Keep three copies (two at least) of what can't be made again.",
    references=("Rook: CephBlockPool, replicated.size", "Longhorn: numberOfReplicas"),
    bad=(
        """apiVersion: ceph.rook.io/v1
kind: CephBlockPool
metadata: {name: replicapool}
spec: {replicated: {size: 1, requireSafeReplicaSize: false}}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: longhorn}
provisioner: driver.longhorn.io
parameters: {numberOfReplicas: "1"}""",
    ),
    good=(
        """apiVersion: ceph.rook.io/v1
kind: CephBlockPool
metadata: {name: replicapool}
spec: {replicated: {size: 3}}""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: longhorn}
provisioner: driver.longhorn.io
parameters: {numberOfReplicas: "3"}""",
    ),
    exercised_by=frozenset({"StorageClass", "CephObjectStore", "CephBlockPool", "CephFilesystem"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
