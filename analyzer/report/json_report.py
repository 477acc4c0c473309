"""The report for machines: JSON with a versioned schema (`docs/report-v1.schema.json`).

Within one version fields are only added. Times are integer ns since 1970 (`*_ns`); every finding and
judgement is there; lists that the view bounds are named in `left_out`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from analyzer.core.finding import Finding
from analyzer.report.format import Format
from analyzer.report.text import utc
from analyzer.report.view import ReportView

SCHEMA = "storage-analyzer/report/v1"
_INT64 = 2**63


def render(view: ReportView) -> bytes:
    """The view as indented JSON that ends with a newline."""
    coverage = view.coverage
    document = {
        "schema": SCHEMA,
        "tool": {"name": "storage-analyzer", "version": view.version},
        "title": view.title,
        "about": view.about,
        "redacted": view.redacted,
        "verdict": view.verdict,
        "start_ns": view.start_ns,
        "end_ns": view.end_ns,
        "start_utc": utc(view.start_ns),
        "coverage": {
            "inputs": coverage.inputs,
            "seen": dict(coverage.seen),
            "first_ns": coverage.first_ns,
            "last_ns": coverage.last_ns,
            "severe": coverage.severe,
            "blind": coverage.blind,
            "degraded": coverage.degraded,
            "notes": _rows(coverage.notes),
        },
        "judgements": _rows(view.judgements),
        "findings": [_finding(finding) for finding in view.findings],
        "rules": [{**_plain(rule), "severity": str(rule.severity)} for rule in view.rules],
        "clients": _rows(view.clients),
        "timelines": _rows(view.timelines),
        "waits": _rows(view.waits),
        "latency": _rows(view.latency),
        "rates": _rows(view.rates),
        "frames": _rows(view.frames),
        "left_out": dict(view.left_out),
    }
    return orjson.dumps(_fit(document), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "fingerprint": finding.fingerprint,
        "rule": finding.rule,
        "severity": str(finding.severity),
        "confidence": str(finding.confidence),
        "blame": finding.blame.value,
        "verdict": finding.verdict.value,
        "subject": _plain(finding.subject),
        "title": finding.title,
        "when_ns": finding.when,
        "evidence": finding.evidence,
        "explanation": finding.explanation,
        "remedy": finding.remedy,
        "docs": finding.docs,
        "facts": dict(finding.facts),
        "key": finding.key,
    }


def _plain(row: Any) -> dict[str, Any]:
    return {f.name: getattr(row, f.name) for f in dataclasses.fields(row)}


def _rows(rows: Iterable[Any]) -> list[dict[str, Any]]:
    return [_plain(row) for row in rows]


def _fit(value: Any) -> Any:
    """Only what JSON readers agree on: an integer beyond 64 bits (a fact of a rule) becomes a text."""
    if isinstance(value, int) and not isinstance(value, bool) and not -_INT64 <= value < _INT64:
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _fit(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fit(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fit(_plain(value))
    return value


FORMAT = Format("json", "json", render)
