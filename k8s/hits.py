"""Hits that several rules share."""

from __future__ import annotations

from analyzer.core.finding import Hit
from analyzer.core.rule import Case
from k8s.databases import DatabaseSetting, data_use
from k8s.inventory import inventory_of
from k8s.words import subject_of


def setting_hit(case: Case, row: DatabaseSetting) -> Hit:
    """The hit for a dangerous setting of a database, joined to the volume that its data is on."""
    owner, danger = row.setting.owner, row.danger
    place = data_use(inventory_of(case), row.workload, row.container)
    claim = place[1].claim if place and place[1] else None
    on = f", on {claim.storage.obj.label}" if claim and claim.storage else ""
    where = "" if owner is row.workload.obj else f" (in {owner.label})"
    value = row.value or "true"
    evidence = [owner.source.reference(row.setting.path)]
    if claim is not None:
        evidence.append((claim.storage.obj if claim.storage else claim.obj).source.reference())
    return Hit(
        subject=subject_of(row.workload.obj),
        message=f"{row.workload.obj.label} runs {danger.engine} with {danger.key}={value}{where}{on}:"
        f" {danger.lost}",
        evidence=tuple(evidence),
        facts={"engine": danger.engine, "setting": danger.key, "value": value},
        severity=danger.severity,
        remedy=f"Set `{danger.key}` to `{danger.right}`, or take it out.",
        key=f"{row.container.name} {danger.key}",
    )
