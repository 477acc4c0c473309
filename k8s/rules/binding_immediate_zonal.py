"""A class of zonal or node-local volumes with `volumeBindingMode: Immediate` (the default).

The volume is made in some zone as soon as the claim is there. If the pod can run in another zone only
(its GPUs are there), it stays Pending for ever, and the volume must be deleted to get out. With
WaitForFirstConsumer the scheduler chooses first.

Volumes that are kept in several zones (ZRS, regional disks) are left alone. It is wrong on a cluster of one
zone.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Change, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import StorageClass
from k8s.objects import list_at, scalar_text, text_at
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class."""
    for storage in case.rows(StorageClass):
        driver = storage.driver
        mode = text_at(storage.obj.data, "volumeBindingMode") or "Immediate"
        if driver is None or driver.reach is None or mode != "Immediate":
            continue
        if list_at(storage.obj.data, "allowedTopologies") or _redundant(storage):
            continue
        yield Hit(
            subject=subject_of(storage.obj),
            message=f"{storage.obj.label} makes volumes of one {driver.reach} at once, before it is"
            " known where"
            " the pod can run",
            evidence=(storage.obj.source.reference(("volumeBindingMode",)),),
            facts={"reach": driver.reach, "path": "volumeBindingMode"},
            severity=Severity.HIGH if driver.reach == "node" else Severity.MEDIUM,
            changes=(
                Change(storage.obj.source.reference(), ("volumeBindingMode",), "WaitForFirstConsumer"),
            ),
        )


def _redundant(storage: StorageClass) -> bool:
    """Whether its volumes are in several zones: Azure's ZRS disks, regional disks of GCP."""
    texts = [scalar_text(value).lower() for value in storage.parameters.values()]
    return any(text.endswith("_zrs") or text == "regional-pd" for text in texts)


RULE = Rule(
    id="binding-immediate-zonal",
    title="A class binds volumes before it is known where the pod runs",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(StorageClass,),
    check=check,
    remedy="Set `volumeBindingMode: WaitForFirstConsumer`. It can't be changed on a class that exists:"
    " make it anew.",
    references=("Kubernetes: StorageClass, volumeBindingMode",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lvm}
provisioner: topolvm.io
volumeBindingMode: Immediate""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: nfs}
provisioner: nfs.csi.k8s.io
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: zrs}
provisioner: disk.csi.azure.com
parameters: {skuName: Premium_ZRS}
""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
