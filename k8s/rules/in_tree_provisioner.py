"""A class of a `kubernetes.io/...` plugin.

The plugins were moved out into CSI drivers. For some a translation to the CSI driver is left, others are
gone for good (GlusterFS, RBD). VolumeAttributesClass and the newer keys of the driver don't work through
the old name, and defaults differ: `kubernetes.io/aws-ebs` makes gp2 volumes, the CSI driver gp3.

It is wrong on a cluster old enough to have the plugin.
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
        driver = storage.driver
        if driver is None or not driver.in_tree or storage.provisioner == "pxd.portworx.com":
            continue
        after = (
            f"; {driver.replaced_by} took its place" if driver.replaced_by else "; nothing took its place"
        )
        yield Hit(
            subject=subject_of(storage.obj),
            message=f"{storage.obj.label} uses {storage.provisioner}, which is no longer in"
            f" Kubernetes{after}",
            evidence=(storage.obj.source.reference(("provisioner",)),),
            facts={"provisioner": storage.provisioner, "replaced_by": driver.replaced_by},
            severity=Severity.MEDIUM if driver.replaced_by else Severity.HIGH,
        )


RULE = Rule(
    id="in-tree-provisioner",
    title="A class uses an in-tree plugin that Kubernetes has dropped",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(StorageClass,),
    check=check,
    remedy="Make a class of the CSI driver and move the claims to it.",
    references=("Kubernetes: storage classes, removed in-tree plugins",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: old}
provisioner: kubernetes.io/aws-ebs
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: g}
provisioner: kubernetes.io/glusterfs
""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
