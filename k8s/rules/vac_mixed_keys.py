"""Two VolumeAttributesClasses of one driver, of which one sets a key that the other leaves out.

Moving a claim to another class changes the keys that the new one has; the others keep the value of the old
one. A volume that was moved from `gold` (iops and throughput) to `silver` (iops) keeps the throughput of
gold: what it has depends on its history, and no manifest shows it.

It is wrong where no claim is ever moved between the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Attributes
from k8s.words import listed, subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class that lacks keys of its siblings."""
    by_driver: dict[str, list[Attributes]] = defaultdict(list)
    for attributes in case.rows(Attributes):
        if attributes.driver_name:
            by_driver[attributes.driver_name].append(attributes)
    for driver_name, siblings in by_driver.items():
        every = sorted({key for sibling in siblings for key in sibling.parameters})
        for attributes in siblings:
            missing = [key for key in every if key not in attributes.parameters]
            if missing:
                yield Hit(
                    subject=subject_of(attributes.obj),
                    message=f"{attributes.obj.label} leaves out {listed(missing)}, which other classes of"
                    f" {driver_name} set: a volume that is moved to it keeps what it had before",
                    evidence=(attributes.obj.source.reference(("parameters",)),),
                    facts={"missing": ", ".join(missing), "classes": len(siblings)},
                )


RULE = Rule(
    id="vac-mixed-keys",
    title="VolumeAttributesClasses of one driver set different keys",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(Attributes,),
    check=check,
    remedy="Set the same keys in all classes of a driver.",
    references=("Kubernetes enhancement 3751: VolumeAttributesClass", "openshift-docs#103425"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: ebs.csi.aws.com
parameters: {iops: "6000", throughput: "500"}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: silver}
driverName: ebs.csi.aws.com
parameters: {iops: "3000"}
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: ebs.csi.aws.com
parameters: {iops: "6000", throughput: "500"}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: silver}
driverName: ebs.csi.aws.com
parameters: {iops: "3000", throughput: "125"}
""",
    ),
    exercised_by=frozenset({"VolumeAttributesClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
