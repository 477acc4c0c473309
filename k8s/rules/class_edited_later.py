"""A volume whose mount options or limits differ from those of its class.

Kubernetes copies them when it makes the volume. Whoever mends the class later mends new volumes only: those
that hold the data keep the old options, and an audit of the class finds nothing.

It is wrong where the volume was changed on purpose, and the class wasn't.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Inventory, StorageClass, inventory_of
from k8s.objects import list_at, scalar_text
from k8s.options import parse_items
from k8s.words import listed, subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per volume."""
    inventory = inventory_of(case)
    for storage in case.rows(StorageClass):
        if storage.provisioner == "kubernetes.io/no-provisioner":
            continue
        wanted = {o.text for o in parse_items(list_at(storage.obj.data, "mountOptions"), ())}
        for volume in inventory.volumes_of_class.get(storage, ()):
            has = {o.text for o in parse_items(list_at(volume.obj.data, "spec", "mountOptions"), ())}
            differs = [f"+{text}" for text in sorted(has - wanted)] + [
                f"-{text}" for text in sorted(wanted - has)
            ]
            for name, value in storage.parameters.items():
                key = storage.driver.key(name) if storage.driver else None
                own = volume.attributes.get(name)
                if key is not None and own is not None and scalar_text(own) != scalar_text(value):
                    differs.append(f"{name}={scalar_text(own)}")
            if differs:
                yield Hit(
                    subject=subject_of(volume.obj),
                    message=f"{volume.obj.label} differs from its class {storage.obj.name}:"
                    f" {listed(differs, 6)}",
                    evidence=(
                        volume.obj.source.reference(("spec", "mountOptions")),
                        storage.obj.source.reference(("mountOptions",)),
                    ),
                    facts={"class": storage.obj.name, "differences": len(differs)},
                )


RULE = Rule(
    id="class-edited-later",
    title="A class was changed after its volumes were made",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(
        Inventory,
        StorageClass,
    ),
    check=check,
    remedy="Change `spec.mountOptions` of the volume and restart its pods, or move the data to a new"
    " volume.",
    references=("Kubernetes: PersistentVolume, mountOptions",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
mountOptions: [hard, nfsvers=4.1]
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1}
spec:
  storageClassName: shared
  accessModes: [ReadWriteMany]
  mountOptions: [soft, nfsvers=4.1]
  csi: {driver: nfs.csi.k8s.io, volumeHandle: a}
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
mountOptions: [hard, nfsvers=4.1]
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1}
spec:
  storageClassName: shared
  accessModes: [ReadWriteMany]
  mountOptions: ["hard,nfsvers=4.1"]
  csi: {driver: nfs.csi.k8s.io, volumeHandle: a}
""",
    ),
    exercised_by=frozenset({"PersistentVolume"}),
    needs=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
