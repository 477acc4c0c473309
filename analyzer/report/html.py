"""One HTML file: works offline, reads without JavaScript, loads nothing.

Jinja2 with autoescape and StrictUndefined. Styles and script are inline and allowed by their hash in a
Content-Security-Policy; no style attribute is used, so nothing that slips into a value can be styled or
run.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from analyzer.analysis.latency import LatencyRow
from analyzer.core.finding import Finding, Severity, Verdict
from analyzer.report import charts
from analyzer.report.format import Format
from analyzer.report.text import byte_range, duration, number, plural, seconds, utc
from analyzer.report.verdict import losses
from analyzer.report.view import ReportView

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).with_name("templates")
MAX_FINDINGS_PER_RULE = 50
MAX_EVIDENCE = 12
MAX_FILTER_FRAMES = 200
MAX_SEGMENT_ROWS = 100
#: what needs attention comes first
_ORDER = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.NOT_EXERCISED, Verdict.UPHELD)


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one rule; `shown` are drawn, `hidden` counts the rest."""

    rule: str
    title: str
    worst: Finding
    shown: tuple[Finding, ...]
    hidden: int
    filters: tuple[tuple[str, str], ...]  # file, display filter of the cited frames

    @property
    def total(self) -> int:
        """How many findings the rule has."""
        return len(self.shown) + self.hidden


def render(view: ReportView) -> str:
    """The whole page."""
    css, script = _asset("report.css"), _asset("report.js")
    file = _only_file(view)
    drawings = [charts.draw_timeline(t, view.start_ns, file) for t in view.timelines]
    overall = [row for row in view.latency if not row.client]
    low, high = _scale(view.latency)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            view=view,
            only_file=file,
            css=Markup(css),
            script=Markup(script),
            policy=_policy(css, script),
            state=_state(view),
            severities=_severities(view),
            verdicts=[(v, sum(j.verdict is v for j in view.judgements)) for v in Verdict],
            judgements=sorted(view.judgements, key=lambda j: _ORDER.index(j.verdict)),
            groups=[_group(rule, found, view) for rule, found in view.by_rule().items()],
            drawings=drawings,
            latency=overall,
            many_servers=len({row.endpoint for row in view.latency}) > 1,
            latency_by_client=[row for row in view.latency if row.client],
            scale=(low, high),
            status_charts=charts.status_charts(view.rates, view.start_ns, view.end_ns),
            latency_charts=charts.latency_charts(view.rates, view.start_ns, view.end_ns),
            lost=losses(view.coverage),
        )
    )


def _policy(css: str, script: str) -> str:
    def hashed(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    return (
        f"default-src 'none'; style-src {hashed(css)}; script-src {hashed(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _asset(name: str) -> str:
    text = (_TEMPLATES / name).read_text(encoding="utf-8")
    if "</" in text:
        raise ValueError(f"{name}: a closing tag would end the inline element")
    return text


@cache
def _environment() -> Environment:
    # slow to load, and only this format needs it
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        duration=duration, seconds=seconds, utc=utc, number=number, references=charts.references,
        prose=prose, pixels=_pixels,
    )  # fmt: skip
    environment.globals.update(
        plural=plural, byte_range=byte_range, distribution=charts.distribution, limits=_limits()
    )
    return environment


def _limits() -> dict[str, int]:
    return {
        "evidence": MAX_EVIDENCE,
        "segments": MAX_SEGMENT_ROWS,
        "chart": charts.CHART_HEIGHT,
    }


def prose(text: str) -> Markup:
    """Escaped text; what stands between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return Markup.escape(text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(p) if i % 2 else Markup.escape(p) for i, p in enumerate(parts))


def _pixels(value: float) -> str:
    """A number as SVG wants it, without needless digits."""
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _state(view: ReportView) -> tuple[str, str]:
    """CSS class and word of the whole report."""
    if view.findings:
        worst = max(f.severity for f in view.findings)
        return str(worst), str(worst)
    upheld = any(j.verdict is Verdict.UPHELD for j in view.judgements)
    unknown = any(j.verdict is Verdict.UNKNOWN for j in view.judgements)
    if view.coverage.severe or not upheld:
        return "unknown", "unknown"
    if unknown or view.coverage.degraded:
        return "unknown", "no fault seen"
    return "clean", "no fault found"


def _severities(view: ReportView) -> list[tuple[Severity, int]]:
    counts = Counter(f.severity for f in view.findings)
    return [(s, counts[s]) for s in sorted(Severity, reverse=True)]


def _group(rule: str, found: list[Finding], view: ReportView) -> Group:
    shown = tuple(found[:MAX_FINDINGS_PER_RULE])
    frames: dict[str, set[int]] = {}
    for finding in found:
        for reference in finding.evidence:
            file, mark, frame = reference.rpartition("#")
            if mark and frame.isdecimal() and len(frames.setdefault(file, set())) < MAX_FILTER_FRAMES:
                frames[file].add(int(frame))
    filters = tuple(
        (file, f"frame.number in {{{', '.join(str(n) for n in sorted(numbers))}}}")
        for file, numbers in sorted(frames.items())
    )
    return Group(rule, view.rule_title(rule), found[0], shown, len(found) - len(shown), filters)


def _only_file(view: ReportView) -> str | None:
    """The name of the file that all evidence is in, None if there are several."""
    cited = [r for f in view.findings for r in f.evidence] + [r for w in view.waits for r in w.evidence]
    files = {file for file, mark, _ in (r.rpartition("#") for r in cited) if mark}
    return files.pop() if len(files) == 1 else None


def _scale(rows: tuple[LatencyRow, ...]) -> tuple[int, int]:
    """The span of latencies in the table, for a log scale that all rows share."""
    low = max(1, min((r.p50_ns for r in rows), default=1))
    return low, max(low * 10, max((r.max_ns for r in rows), default=10))


FORMAT = Format("html", "html", render)
