"""Objects → findings: the inventory, the rules over it, and what was accepted on purpose.

A finding is accepted by an annotation of its object, `storage-analyzer/ignore.RULE: REASON`. Without a
reason it isn't.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from analyzer.core.coverage import Coverage, Loss, Note
from analyzer.core.finding import Finding, Judgement, Verdict
from analyzer.core.rule import Outcome, Rule, judge
from k8s.derive import inventory
from k8s.inventory import Inventory
from k8s.manifests import read_texts
from k8s.objects import Delivery, KubeObject

IGNORE = "storage-analyzer/ignore."
_KINDS_SHOWN = 12
_ACCEPTED_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found. `accepted` are findings that an annotation or a baseline takes for granted,
    each with the reason."""

    outcome: Outcome
    coverage: Coverage
    inventory: Inventory
    accepted: tuple[tuple[Finding, str], ...] = ()


def audit(
    delivery: Delivery,
    rules: Iterable[Rule],
    options: Mapping[str, Mapping[str, int | float]] | None = None,
    baseline: Mapping[str, str] | None = None,
) -> Audit:
    """Run the rules over what was delivered. `baseline` maps fingerprints of known findings to a reason."""
    found = inventory(delivery)
    coverage = _coverage(delivery, found)
    outcome = judge(rules, found, coverage, found.kinds, options)
    kept, accepted = _sorted_out(outcome.findings, _reasons(delivery.objects), baseline or {})
    if accepted:
        coverage = replace(coverage, notes=(*coverage.notes, *_accepted_notes(accepted)))
    outcome = Outcome(kept, _judgements(outcome.judgements, kept, accepted), outcome.withheld)
    return Audit(outcome, coverage, found, accepted)


def audit_text(rules: Iterable[Rule], text: str, name: str = "example.yaml") -> Audit:
    """The audit of one text, for examples and tests."""
    return audit(read_texts({name: text}), rules)


def _coverage(delivery: Delivery, found: Inventory) -> Coverage:
    seen = dict(delivery.seen)
    ranked = sorted(found.kinds.items(), key=lambda item: (-item[1], item[0]))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in ranked[:_KINDS_SHOWN])
    more = f" and {len(ranked) - _KINDS_SHOWN} more kinds" if len(ranked) > _KINDS_SHOWN else ""
    notes = [Note(f"kinds seen: {kinds}{more}")] if ranked else []
    broken = [p for p in delivery.problems if not p.duplicate]
    if broken:
        text = f"{len(broken):,} {'part' if len(broken) == 1 else 'parts'} of the input can't be read"
        evidence = tuple(p.reference for p in broken[:20])
        notes.append(
            Note(text, Loss.UNREADABLE, len(broken), "see the findings of manifest-unreadable", evidence)
        )
    notes += [Note(unseen.reason, Loss.UNSEEN, 1) for unseen in delivery.unseen]
    notes += [Note(text) for text in delivery.notes]
    unseen = {item.kind: item.reason for item in delivery.unseen}
    return Coverage(seen, delivery.inputs, notes=tuple(notes), unseen=unseen)


def _reasons(objects: Sequence[KubeObject]) -> Callable[[Finding], str]:
    """Finds the reason by which an object's annotation accepts a finding, empty if there is none."""
    annotated: dict[tuple[str, str], list[KubeObject]] = defaultdict(list)
    for obj in objects:
        if any(key.startswith(IGNORE) for key in obj.annotations):
            name = f"{obj.namespace}/{obj.name}" if obj.namespace else obj.name
            annotated[obj.kind, name].append(obj)

    def reason(finding: Finding) -> str:
        for obj in annotated.get((finding.subject.kind, finding.subject.name), ()):
            text = obj.annotations.get(IGNORE + finding.rule)
            here = any(
                place.startswith(obj.source.reference().rpartition(":")[0]) for place in finding.evidence
            )
            if isinstance(text, str) and text.strip() and here:
                return text.strip()
        return ""

    return reason


def _sorted_out(
    findings: Sequence[Finding], reason_of: Callable[[Finding], str], baseline: Mapping[str, str]
) -> tuple[tuple[Finding, ...], tuple[tuple[Finding, str], ...]]:
    kept: list[Finding] = []
    accepted: list[tuple[Finding, str]] = []
    for finding in findings:
        reason = reason_of(finding) or baseline.get(finding.fingerprint, "")
        if reason:
            accepted.append((finding, reason))
        else:
            kept.append(finding)
    return tuple(kept), tuple(accepted)


def _accepted_notes(accepted: Sequence[tuple[Finding, str]]) -> list[Note]:
    notes = [
        Note(f"accepted: {finding.rule} on {finding.subject}: {reason}", evidence=finding.evidence[:1])
        for finding, reason in accepted[:_ACCEPTED_SHOWN]
    ]
    left = len(accepted) - _ACCEPTED_SHOWN
    return [*notes, Note(f"{left:,} more findings are accepted")] if left > 0 else notes


def _judgements(
    judgements: Sequence[Judgement], kept: Sequence[Finding], accepted: Sequence[tuple[Finding, str]]
) -> tuple[Judgement, ...]:
    """The verdicts without what was accepted; a rule of which nothing is left says so."""
    left = Counter(finding.rule for finding in kept)
    gone = Counter(finding.rule for finding, _ in accepted)
    renewed = []
    for judgement in judgements:
        count = gone[judgement.rule]
        if count:
            verdict = judgement.verdict if left[judgement.rule] else Verdict.UPHELD
            reason = f"{count:,} {'finding is' if count == 1 else 'findings are'} accepted"
            renewed.append(Judgement(judgement.rule, verdict, left[judgement.rule], reason))
        else:
            renewed.append(judgement)
    return tuple(renewed)
