"""A file or document that is no YAML, a template that must be rendered first, a binary file, one that is
too large, or a folder without permission.

What stands in it was not checked: silence on it means nothing. The rest of the file and of the input was
read. A chart's templates are YAML only after Helm has rendered them.

It is wrong where the file isn't meant to be a manifest: name the folders that hold manifests instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule
from k8s.objects import Problem


def check(case: Case) -> Iterator[Hit]:
    """One hit per part."""
    for problem in case.rows(Problem):
        if problem.duplicate:
            continue
        name, colon, line = problem.reference.rpartition(":")
        file = name if colon and line.isdecimal() else problem.reference
        yield Hit(
            subject=Subject("file", file),
            message=f"{problem.reference}: {problem.message}",
            evidence=(problem.reference,),
            severity=Severity.LOW if problem.template else Severity.MEDIUM,
            remedy=f"{problem.remedy[:1].upper()}{problem.remedy[1:]}." if problem.remedy else None,
        )


RULE = Rule(
    id="manifest-unreadable",
    title="A part of the input can not be read",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(Problem,),
    check=check,
    remedy="Mend the file, or leave it out of the input.",
    references=("YAML 1.2 specification", "Helm: helm template"),
    bad=(
        """kind: [""",
        """apiVersion: v1
kind: {{ .Values.kind }}
metadata: {name: {{ .Release.Name }}}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: rbd}
provisioner: rook-ceph.rbd.csi.ceph.com
""",
    ),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
