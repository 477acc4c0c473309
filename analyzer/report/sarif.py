"""SARIF 2.1.0 (OASIS standard, errata 01): findings for code-scanning and log viewers.

A result's location names the input file; the frame stands in the location's message, for SARIF has no
region for packets. Rules that could not be judged are notifications of the run, not results: viewers
show every result as an alert.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson

from analyzer.core.finding import Finding, Severity, Verdict
from analyzer.report.format import Format
from analyzer.report.view import ReportView

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
#: section 3.27.10 `level`
LEVEL = {
    Severity.CRITICAL: "error",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "note",
    Severity.INFO: "note",
}
#: the number that code-scanning viewers sort by, of 10
_SCORE = {
    Severity.CRITICAL: "9.5",
    Severity.HIGH: "8.0",
    Severity.MEDIUM: "5.5",
    Severity.LOW: "3.0",
    Severity.INFO: "0.1",
}
_LOCATIONS = 100


def render(view: ReportView) -> bytes:
    """One SARIF run."""
    rules = [j.rule for j in view.judgements]
    rules += sorted({f.rule for f in view.findings} - set(rules))
    index = {rule: number for number, rule in enumerate(rules)}
    groups = view.by_rule()
    run = {
        "tool": {
            "driver": {
                "name": "storage-analyzer",
                "version": view.version,
                "rules": [_rule(rule, groups.get(rule, []), view) for rule in rules],
            }
        },
        "invocations": [
            {"executionSuccessful": True, "toolExecutionNotifications": _notifications(view, index)}
        ],
        "artifacts": [{"location": {"uri": _uri(path)}} for path in _artifacts(view)],
        "results": [_result(finding, index[finding.rule]) for finding in view.findings],
        "columnKind": "unicodeCodePoints",
        "properties": {
            "title": view.title,
            "verdict": view.verdict,
            "incomplete": view.coverage.degraded,
            "judgements": {j.rule: j.verdict.value for j in view.judgements},
        },
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return orjson.dumps(log, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _artifacts(view: ReportView) -> list[str]:
    """The files of the input; of a folder of manifests those that findings cite."""
    if view.about == "operation":
        return list(view.coverage.inputs)
    cited = (reference.rpartition(":") for f in view.findings for reference in f.evidence)
    return sorted({name for name, _, line in cited if line.isdigit()})


def _rule(rule: str, findings: list[Finding], view: ReportView) -> dict[str, Any]:
    info = next((r for r in view.rules if r.id == rule), None)
    severity = info.severity if info else findings[0].severity if findings else Severity.INFO
    title = view.rule_title(rule)
    found: dict[str, Any] = {
        "id": rule,
        "shortDescription": {"text": title},
        "fullDescription": {"text": info.documentation if info and info.documentation else title},
        "defaultConfiguration": {"level": LEVEL[severity]},
        "properties": {"security-severity": _SCORE[severity], "docs": f"docs/rules/{rule}.md"},
    }
    if findings:
        found["help"] = {"text": findings[0].remedy or title}
    return found


def _notifications(view: ReportView, index: dict[str, int]) -> list[dict[str, Any]]:
    """What was lost, and which rules could therefore not be judged."""
    found: list[dict[str, Any]] = [
        {"level": "warning" if note.loss else "note", "message": {"text": note.text}}
        for note in view.coverage.notes
    ]
    found += [
        {
            "level": "warning",
            "message": {"text": f"{j.rule} could not be judged: {j.reason}"},
            "associatedRule": {"id": j.rule, "index": index[j.rule]},
        }
        for j in view.judgements
        if j.verdict is Verdict.UNKNOWN
    ]
    return found


def _result(finding: Finding, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "kind": "fail",
        "level": LEVEL[finding.severity],
        "message": {"text": finding.title},
        "partialFingerprints": {"storageAnalyzer/v1": finding.fingerprint},
        "properties": {
            "severity": str(finding.severity),
            "confidence": str(finding.confidence),
            "blame": finding.blame.value,
            "explanation": finding.explanation,
            "remedy": finding.remedy,
            "facts": {name: str(value) for name, value in finding.facts.items()},
        },
    }
    locations = [_location(reference, finding) for reference in finding.evidence[:_LOCATIONS]]
    if locations:
        result["locations"] = locations[:1]
        if len(locations) > 1:
            related: dict[bytes, dict[str, Any]] = {}
            for location in locations[1:]:
                related.setdefault(orjson.dumps(location), location)
            result["relatedLocations"] = list(related.values())
    return result


def _location(reference: str, finding: Finding) -> dict[str, Any]:
    file, mark, frame = reference.rpartition("#")
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(file if mark else reference)}}
    name, colon, line = reference.rpartition(":")
    if not mark and colon and line.isdigit() and 0 < int(line) < 2**31:
        place = {"artifactLocation": {"uri": _uri(name)}, "region": {"startLine": int(line)}}
    subject = str(finding.subject)
    return {
        "physicalLocation": place,
        "logicalLocations": [{"name": subject, "fullyQualifiedName": f"{finding.subject.kind} {subject}"}],
        "message": {"text": f"frame {frame}" if mark else reference},
    }


def _uri(path: str) -> str:
    """A relative or absolute file name as a URI reference (RFC 3986)."""
    return quote(path.encode("utf-8", "replace"), safe="/")


FORMAT = Format("sarif", "sarif", render)
