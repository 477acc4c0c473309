"""A key in `parameters` of a VolumeAttributesClass that isn't among those of the driver.

What becomes of it differs. EBS takes unknown keys without a word and the limit is just not there; GCP PD,
Alibaba and ceph-csi refuse the whole class, the claim's modification is Infeasible. The keys are not those
of StorageClass: GCP takes `iops` here and `provisioned-iops-on-create` there, and `iopsPerGB` of EBS works
in a StorageClass only. Drivers whose keys aren't known are left alone.

It is wrong where a newer release of the driver takes the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Attributes
from k8s.words import listed, subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per key."""
    for attributes in case.rows(Attributes):
        driver = attributes.driver
        if driver is None or not driver.vac_keys:
            continue
        known = {key.name.lower(): key.name for key in driver.vac_keys}
        for name in attributes.parameters:
            if driver.vac_key(name) or "/" in name or name.startswith("tagSpecification_"):
                continue
            near = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
            fate = {"accepted": "takes it without a word and ignores it", "rejected": "refuses the class"}
            meant = f"; {known[near[0]]} was probably meant" if near else ""
            yield Hit(
                subject=subject_of(attributes.obj),
                message=f"{attributes.obj.label} sets {name}, which isn't a key of {driver.name}: the"
                " driver"
                f" {fate.get(driver.vac_unknown_keys, 'refuses or ignores it')}{meant}",
                evidence=(attributes.obj.source.reference(("parameters", name)),),
                facts={"key": name, "meant": known[near[0]] if near else "", "path": f"parameters.{name}"},
                remedy=f"Keys of {driver.name}: {listed((k.name for k in driver.vac_keys), 12)}.",
                key=name,
            )


RULE = Rule(
    id="vac-unknown-key",
    title="A VolumeAttributesClass has a key that its driver does not take",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(Attributes,),
    check=check,
    remedy="Use the keys of the driver: `storage-analyzer drivers NAME` lists them.",
    references=(
        "AWS EBS CSI driver: modify-volume",
        "GCP PD CSI driver: volume attributes class",
        "ceph-csi: volume attributes class",
    ),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: ebs.csi.aws.com
parameters: {type: gp3, iop: "6000"}
""",
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: silver}
driverName: pd.csi.storage.gke.io
parameters: {provisioned-iops: "3000"}
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: ebs.csi.aws.com
parameters: {type: gp3, iops: "6000"}
""",
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: x}
driverName: csi.example.com
parameters: {anything: "1"}
""",
    ),
    exercised_by=frozenset({"VolumeAttributesClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
