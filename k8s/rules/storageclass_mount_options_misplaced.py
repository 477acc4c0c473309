"""`mountOptions` written below `parameters`.

It is a field of the class, beside `parameters`. Inside, it is a key that drivers refuse or ignore, and no
volume is mounted with the options. The documentation of at least one driver shows it in the wrong place.

It is wrong for a driver that takes a parameter of that name: those in the catalogue are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import StorageClass
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class."""
    for storage in case.rows(StorageClass):
        if storage.driver is not None and "mountOptions" in storage.driver.option_keys:
            continue
        if "mountOptions" in storage.parameters:
            yield Hit(
                subject=subject_of(storage.obj),
                message=f"{storage.obj.label} has its mountOptions inside parameters, where no mount"
                " gets them",
                evidence=(storage.obj.source.reference(("parameters", "mountOptions")),),
                facts={"path": "parameters.mountOptions"},
            )


RULE = Rule(
    id="storageclass-mount-options-misplaced",
    title="Mount options stand inside the parameters of a class",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(StorageClass,),
    check=check,
    remedy="Move `mountOptions` out of `parameters`, to the top of the class, as a list of texts.",
    references=("Kubernetes API: storage/v1 StorageClass, mountOptions",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lvm}
provisioner: local.csi.openebs.io
parameters: {volgroup: vg, mountOptions: noatime}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lvm}
provisioner: local.csi.openebs.io
parameters: {volgroup: vg}
mountOptions: [noatime]""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
