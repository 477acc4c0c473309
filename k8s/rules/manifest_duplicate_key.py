"""A mapping in a manifest that has the same key twice.

The later one counts for most tools and the earlier is silently not there; the API server's strict decoding
refuses the object. Two `parameters`, two `volumes` or two `mountOptions` look as if both counted.

It is never wrong: YAML forbids it.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule
from k8s.objects import Problem


def check(case: Case) -> Iterator[Hit]:
    """One hit per key."""
    for problem in case.rows(Problem):
        if problem.duplicate:
            yield Hit(
                subject=Subject("file", problem.reference.rpartition(":")[0]),
                message=f"{problem.reference}: {problem.message}",
                evidence=(problem.reference,),
            )


RULE = Rule(
    id="manifest-duplicate-key",
    title="A key stands twice in one mapping",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(Problem,),
    check=check,
    remedy="Remove one of the two.",
    references=("YAML 1.2 specification, section 3.2.1.1", "Kubernetes: field validation"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
mountOptions: [discard]
mountOptions: [noatime]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
mountOptions: [discard, noatime]""",
    ),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
