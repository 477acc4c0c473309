"""A VolumeAttributesClass of a driver that is known not to modify volumes.

Claims that name it report an error, and the limit isn't there. Drivers of which it isn't known are left
alone.

It is wrong where a newer release of the driver has learned it.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import Attributes
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class."""
    for attributes in case.rows(Attributes):
        if attributes.driver is not None and attributes.driver.vac_supported is False:
            elsewhere = attributes.driver.elsewhere
            yield Hit(
                subject=subject_of(attributes.obj),
                message=f"{attributes.obj.label} has no effect, for {attributes.driver_name} doesn't take"
                " VolumeAttributesClasses",
                evidence=(attributes.obj.source.reference(("driverName",)),),
                facts={"driver": attributes.driver_name},
                remedy=f"Limit elsewhere: {elsewhere}." if elsewhere else None,
            )


RULE = Rule(
    id="vac-not-supported",
    title="The driver does not take VolumeAttributesClasses",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(Attributes,),
    check=check,
    remedy="Limit on the storage itself.",
    references=("the catalogue: `storage-analyzer drivers`",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: csi.trident.netapp.io
parameters: {iops: "1"}
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: ebs.csi.aws.com
parameters: {iops: "6000"}
""",
        """apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: csi.hpe.com
parameters: {iops: "1"}
""",
    ),
    exercised_by=frozenset({"VolumeAttributesClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
