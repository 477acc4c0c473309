"""A key in `parameters` of a class that the driver doesn't know, close to one that it does.

Drivers differ in what they do: EBS takes an unknown key without a word, others refuse to make the volume.
The limit isn't there in either case. Capitals count for ceph-csi, whose keys also changed their spelling
between releases; and the right key of OpenEBS LVM really is `qosBandwith...`, with one d.

It is wrong where a newer release of the driver has a key of that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.inventory import StorageClass
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per key that is nearly a known one."""
    for storage in case.rows(StorageClass):
        driver = storage.driver
        if driver is None or not driver.class_keys:
            continue
        known = {key.name.lower(): key.name for key in driver.class_keys}
        for name in storage.parameters:
            if driver.key(name) or "/" in name:
                continue
            near = get_close_matches(name.lower(), known, n=1, cutoff=0.85)
            if near:
                right = known[near[0]]
                yield Hit(
                    subject=subject_of(storage.obj),
                    message=f"{storage.obj.label} sets {name}, which {driver.name} doesn't know;"
                    f" {right} was probably meant",
                    evidence=(storage.obj.source.reference(("parameters", name)),),
                    facts={"key": name, "meant": right, "path": f"parameters.{name}"},
                    remedy=f"Write `{right}` instead of `{name}`.",
                    key=name,
                )


RULE = Rule(
    id="qos-key-misspelled",
    title="A performance key of a class looks misspelled",
    severity=Severity.MEDIUM,
    confidence=Confidence.MEDIUM,
    blame=Blame.CONFIGURATION,
    reads=(StorageClass,),
    check=check,
    remedy="Correct the spelling; `storage-analyzer drivers NAME` lists the keys.",
    references=("AWS EBS CSI driver: parameters", "ceph-csi: QoS of RBD"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: ebs}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, thruoghput: "500"}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: ebs}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, Throughput: "500", encrypted: "true"}""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
