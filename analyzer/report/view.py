"""The view: all that a report shows, built once; the only thing that a renderer gets.

Every text in it is masked (if asked) and harmless, every list is bounded (except findings and
judgements, which are all there), and `left_out` counts what the bounds dropped. Times are ns of the
input's clock; renderers show them relative to `start_ns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyzer.analysis.clients import ClientRow
from analyzer.analysis.latency import LatencyRow, RateRow
from analyzer.analysis.locks import LockWait
from analyzer.core.coverage import Coverage
from analyzer.core.finding import Finding, Judgement, Severity
from analyzer.core.rule import Outcome, Rule
from analyzer.core.table import Tables
from analyzer.report.longest import Numbers, numbers, span, top
from analyzer.report.redact import Redactor
from analyzer.report.text import cleaned, map_text
from analyzer.report.timeline import Labels, Timeline, build_timelines
from analyzer.report.verdict import paragraph

MAX_WAITS = 50
MAX_CLIENTS = 200
MAX_LATENCY = 500
MAX_INTERVALS = 120
MAX_RATES = 8000


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """What a report says of a rule beside its verdict."""

    id: str
    title: str
    severity: Severity
    documentation: str
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CitedFrame:
    """A frame that findings or waits cite, in words; `reference` is `file#frame`."""

    reference: str
    text: str


@dataclass(frozen=True, slots=True)
class ReportView:
    """One report. `verdict` is a paragraph of plain words; `left_out` maps a plural noun to how many of
    them the bounds of the view dropped. `client` fields of rows hold the client's label. `about` is what
    the rules looked at: a report on objects has no clients, waits, latencies, rates, frames and times."""

    version: str
    title: str
    redacted: bool
    verdict: str
    start_ns: int
    end_ns: int
    coverage: Coverage
    findings: tuple[Finding, ...]
    judgements: tuple[Judgement, ...]
    rules: tuple[RuleInfo, ...]
    clients: tuple[ClientRow, ...]
    timelines: tuple[Timeline, ...]
    waits: tuple[LockWait, ...]
    latency: tuple[LatencyRow, ...]
    rates: tuple[RateRow, ...]
    frames: tuple[CitedFrame, ...]
    left_out: Mapping[str, int]
    about: Literal["operation", "object"] = "operation"

    def rule_title(self, rule: str) -> str:
        """The rule's title, or its id in words if the rule isn't known."""
        return next((r.title for r in self.rules if r.id == rule), rule.replace("-", " "))

    def by_rule(self) -> dict[str, list[Finding]]:
        """Findings grouped by rule; the groups in order of their worst finding."""
        groups: dict[str, list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault(finding.rule, []).append(finding)
        return groups


def build_view(
    outcome: Outcome,
    coverage: Coverage,
    tables: Tables,
    *,
    version: str,
    title: str,
    redact: bool = False,
    rules: Iterable[Rule] = (),
    frames: Mapping[str, str] | None = None,
    about: Literal["operation", "object"] = "operation",
    names: Iterable[tuple[str, str]] = (),
) -> ReportView:
    """The view of one run. With `redact` paths, names, addresses and identities are masked, and the `names`
    (name, what it is one of) that no table holds. `frames` holds what cited frames say, by reference."""
    mask = Redactor.of(outcome, coverage, tables, names).mask if redact else _unmasked
    labels = Labels.of(tables)
    left_out: dict[str, int] = {}
    start_ns, end_ns = _span(coverage, tables)
    outcome = Outcome(map_text(outcome.findings, mask), map_text(outcome.judgements, mask))
    files = tuple(path.rstrip("/").rsplit("/", 1)[-1] for path in coverage.inputs)  # no path of the machine
    coverage = map_text(replace(coverage, inputs=files), mask)
    view = ReportView(
        version=version,
        title=mask(title, "title"),
        redacted=redact,
        verdict=paragraph(outcome, coverage),
        start_ns=start_ns,
        end_ns=end_ns,
        coverage=coverage,
        findings=outcome.findings,
        judgements=outcome.judgements,
        rules=tuple(_info(rule) for rule in sorted(rules, key=lambda r: r.id)),
        clients=map_text(_clients(tables, left_out), mask),
        timelines=map_text(build_timelines(tables, labels, end_ns, left_out), mask),
        waits=map_text(_waits(tables, labels, left_out), mask),
        latency=map_text(_latency(tables, labels, left_out), mask),
        rates=_rates(tables),
        frames=map_text(tuple(CitedFrame(r, t) for r, t in (frames or {}).items()), mask),
        left_out={noun: count for noun, count in left_out.items() if count},
        about=about,
    )
    return map_text(view, cleaned)


def joined(first: ReportView, *others: ReportView) -> ReportView:
    """One report of several witnesses. Waits, latencies and times are those of `first`."""
    views = (first, *others)
    findings = tuple(sorted((f for view in views for f in view.findings), key=Finding.sort_key))
    judgements = tuple(sorted((j for view in views for j in view.judgements), key=lambda j: j.rule))
    coverage = replace(
        first.coverage,
        seen={noun: count for view in views for noun, count in view.coverage.seen.items()},
        inputs=tuple(name for view in views for name in view.coverage.inputs),
        notes=tuple(note for view in views for note in view.coverage.notes),
        severe=any(view.coverage.severe for view in views),
        blind=any(view.coverage.blind for view in views),
    )
    return replace(
        first,
        title=" + ".join(view.title for view in views),
        redacted=all(view.redacted for view in views),
        verdict=paragraph(Outcome(findings, judgements), coverage),
        coverage=coverage,
        findings=findings,
        judgements=judgements,
        rules=tuple(sorted((rule for view in views for rule in view.rules), key=lambda r: r.id)),
    )


def _unmasked(text: str, _field: str) -> str:
    return text


def _info(rule: Rule) -> RuleInfo:
    return RuleInfo(rule.id, rule.title, rule.severity, rule.documentation, rule.references)


def _span(coverage: Coverage, tables: Tables) -> tuple[int, int]:
    """First and last moment of the input, from coverage or else from what the tables hold."""
    first, last = coverage.first_ns, coverage.last_ns
    if first is None or last is None:
        moments = [m for r in tables.of(ClientRow) for m in (r.first_ns, r.last_ns)]
        moments += [m for w in tables.of(LockWait) for m in (w.asked_ns, w.last_ns)]
        moments += [m for f in (first, last) if (m := f) is not None]
        first, last = (min(moments), max(moments)) if moments else (0, 0)
    return first, max(first, last)


def _clients(tables: Tables, left_out: dict[str, int]) -> tuple[ClientRow, ...]:
    """The busiest clients, in order of label."""
    table = tables.of(ClientRow)
    left_out["clients"] = max(0, len(table) - MAX_CLIENTS)
    busiest = top(table, lambda batch: numbers(batch, "operations"), MAX_CLIENTS)
    return tuple(sorted(busiest, key=lambda r: (r.label, r.endpoint, r.client)))


def _waits(tables: Tables, labels: Labels, left_out: dict[str, int]) -> tuple[LockWait, ...]:
    """The longest waits, longest first."""
    table = tables.of(LockWait)
    left_out["waits"] = max(0, len(table) - MAX_WAITS)
    longest = top(table, lambda batch: span(batch, "asked_ns", "last_ns"), MAX_WAITS)
    return tuple(
        replace(
            wait,
            client=labels.name(wait.endpoint, wait.client),
            holder_client=labels.name(wait.endpoint, wait.holder_client) if wait.holder_client else None,
        )
        for wait in longest
    )


def _latency(tables: Tables, labels: Labels, left_out: dict[str, int]) -> tuple[LatencyRow, ...]:
    """Rows over all clients first, by count; then those of single clients with the highest p99."""
    table = tables.of(LatencyRow)

    def scored(batch: pa.RecordBatch, name: str, overall: bool) -> Numbers:
        of_all = np.asarray(pc.equal(batch.column("client"), "").to_numpy(zero_copy_only=False))
        return np.where(of_all == overall, numbers(batch, name), -1)

    rows = top(table, lambda batch: scored(batch, "count", True), MAX_LATENCY)
    rows += top(table, lambda batch: scored(batch, "p99_ns", False), MAX_LATENCY - len(rows))
    left_out["latency rows"] = len(table) - len(rows)
    return tuple(replace(r, client=labels.name(r.endpoint, r.client) if r.client else "") for r in rows)


def _rates(tables: Tables) -> tuple[RateRow, ...]:
    """Rates in at most `MAX_INTERVALS` intervals of equal width, merged from narrower ones."""
    batches = list(tables.of(RateRow).batches())
    if not batches:
        return ()
    rows = pa.Table.from_batches(batches)
    starts, widths = rows["start_ns"].to_numpy(), rows["width_ns"].to_numpy()
    first, last, width = int(starts.min()), int((starts + widths).max()), max(1, int(widths.max()))
    while last - first > width * MAX_INTERVALS:
        width *= 2
    merged = _merge(rows, first, width)
    while merged.num_rows > MAX_RATES and width < last - first:
        width *= 2
        merged = _merge(rows, first, width)
    found = []
    for row in merged.to_pylist():
        count, time = row["count_sum"], row["time_sum"]
        mean = time // max(1, count)
        found.append(RateRow(row["start"], width, row["op"], row["status"], count, mean, row["max_ns_max"]))
    return tuple(found)


def _merge(rows: pa.Table, first: int, width: int) -> pa.Table:
    """Sums by interval, operation and status, in that order."""
    start = first + (rows["start_ns"].to_numpy() - first) // width * width
    merged = (
        rows.select(["op", "status", "count", "max_ns"])
        .append_column("start", pa.array(start))
        .append_column("time", pc.multiply(rows["mean_ns"], rows["count"]))
        .group_by(["start", "op", "status"])
        .aggregate([("count", "sum"), ("time", "sum"), ("max_ns", "max")])
    )
    return merged.sort_by([("start", "ascending"), ("op", "ascending"), ("status", "ascending")])
