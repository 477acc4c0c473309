"""How findings name objects and those that use them."""

from __future__ import annotations

from collections.abc import Iterable

from analyzer.core.finding import Subject
from k8s.inventory import Use
from k8s.objects import KubeObject


def subject_of(obj: KubeObject) -> Subject:
    """The object as the subject of a finding. Its kind and name tell it apart; files may move."""
    name = f"{obj.namespace}/{obj.name}" if obj.namespace else obj.name
    return Subject(obj.kind, name or obj.source.origin, obj.label)


def used_by(uses: Iterable[Use]) -> str:
    """`; 3 workloads mount it, Job ml/train too`; empty if nobody does."""
    found = list(uses)
    labels = list(dict.fromkeys(use.workload.obj.label for use in found))
    if not labels:
        return ""
    first = next((u.workload.obj.label for u in found if u.workload.training), labels[0])
    return (
        f"; {first} mounts it" if len(labels) == 1 else f"; {len(labels)} workloads mount it, {first} too"
    )


def listed(names: Iterable[str], limit: int = 3) -> str:
    """`a, b, c and 4 more`, each name once."""
    found = list(dict.fromkeys(names))
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return ", ".join(found[:limit]) + more
