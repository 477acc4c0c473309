"""A class whose provisioner is missing, or can't be the name of a driver.

The provisioner must be the exact name under which a driver registers, such as `ebs.csi.aws.com`.
`kubernetes.io/csi` is nobody's name, though articles show it: claims of such a class wait for ever. Names
that begin with `kubernetes.io/` are kept for the old in-tree plugins.

It is wrong where a driver was built with a name of its own that looks like a misspelled known one.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.catalogue import drivers
from k8s.inventory import StorageClass
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per class."""
    known = [driver.name for driver in drivers()]
    for storage in case.rows(StorageClass):
        name = storage.provisioner
        if storage.driver is not None or "{" in name or "$" in name:
            continue
        near = get_close_matches(name, known, n=1, cutoff=0.9)
        if not name:
            said = "has no provisioner"
        elif name.startswith("kubernetes.io/"):
            said = f"names the provisioner {name}, which no driver has: its claims wait for ever"
        elif near:
            said = f"names the provisioner {name}; {near[0]} was probably meant"
        else:
            continue
        yield Hit(
            subject=subject_of(storage.obj),
            message=f"{storage.obj.label} {said}",
            evidence=(storage.obj.source.reference(("provisioner",)),),
            facts={"provisioner": name, "path": "provisioner"},
            severity=Severity.MEDIUM if near and not name.startswith("kubernetes.io/") else Severity.HIGH,
            complete=not near,
        )


RULE = Rule(
    id="storageclass-provisioner-invalid",
    title="No driver answers to the provisioner of a class",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(StorageClass,),
    check=check,
    remedy="Write the name of the driver: `kubectl get csidrivers` lists those of a cluster.",
    references=("Kubernetes: StorageClass, provisioner",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: qos}
provisioner: kubernetes.io/csi
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.co
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
metadata: {name: own}
provisioner: storage.example.com
""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: old}
provisioner: kubernetes.io/aws-ebs
""",
    ),
    exercised_by=frozenset({"StorageClass"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
