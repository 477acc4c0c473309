"""Captures → operations → derived tables → findings → reports."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from rich.console import Console

import analyzer.analysis
from analyzer import __version__
from analyzer.analysis.clients import ClientRow
from analyzer.analysis.latency import LatencyRow, RateRow
from analyzer.analysis.locks import LockHold, LockWait
from analyzer.core.coverage import Coverage
from analyzer.core.errors import InputError, NothingToCheckError
from analyzer.core.finding import ExitCode, Severity
from analyzer.core.rule import Fold, discover, folds_for, judge, parse_options, run_folds
from analyzer.core.store import RunFolder
from analyzer.core.table import Tables
from analyzer.pipeline.output import check_formats, exit_code, show, write_reports
from analyzer.pipeline.rules import operation_rules
from analyzer.report.progress import progress_line
from analyzer.report.view import ReportView, build_view
from analyzer.wire.capture import Capture, CaptureOptions, TimePoint

#: What every capture report shows, whatever the rules read.
REPORT_ROWS: Final[tuple[type[Any], ...]] = (ClientRow, LockHold, LockWait, LatencyRow, RateRow)


@dataclass(frozen=True, slots=True)
class CaptureJob:
    """What `storage-analyzer capture` was asked. `output` is the run's folder, None for none."""

    inputs: tuple[str, ...]
    output: Path | None = None
    formats: tuple[str, ...] = ("terminal",)
    fail_on: Severity = Severity.MEDIUM
    redact: bool = False
    settings: tuple[str, ...] = ()
    since: TimePoint | None = None
    until: TimePoint | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """The outcome of a capture job: what to show, what was written, and the exit code."""

    view: ReportView
    written: tuple[Path, ...]
    exit_code: ExitCode


def analyse_capture(
    job: CaptureJob, progress: Callable[[str, int, int], None] = lambda _stage, _done, _total: None
) -> CaptureReport:
    """Captures → operations → derived tables → findings → reports.

    Raises `AnalyzerError` where an input, an option or tshark is not usable, and
    `NothingToCheckError` where there is no NFSv4 to judge.
    """
    # operations come by the million and form no cycles: searching for some costs a tenth of the time
    gc.set_threshold(200_000, 50, 100)
    check_formats(job.formats, job.output)
    options = parse_options(job.settings, operation_rules("wire")) if job.settings else {}
    folder = None if job.output is None else RunFolder(job.output)
    chosen = CaptureOptions(job.since, job.until, job.client)
    with (
        tempfile.TemporaryDirectory(prefix="storage-analyzer-") as scratch,
        Capture(job.inputs, Path(scratch), chosen, progress) as capture,
    ):
        # decoding has begun: what is loaded from here on costs no waiting
        view, code = _judged(job, capture, Tables(Path(scratch)), folder, options)
    if folder is None:
        return CaptureReport(view, (), code)
    written = write_reports(folder, view, job.formats)
    folder.write_manifest(
        {
            "version": __version__,
            "tshark": capture.tshark.version,
            "inputs": [] if job.redact else list(view.coverage.inputs),
            "redacted": job.redact,
            "settings": list(job.settings),
        }
    )
    return CaptureReport(view, written, code)


def _judged(
    job: CaptureJob,
    capture: Capture,
    tables: Tables,
    folder: RunFolder | None,
    options: dict[str, dict[str, int | float]],
) -> tuple[ReportView, ExitCode]:
    """Operations → derived tables → findings → view, and the exit code."""
    rules = operation_rules("wire")
    folds = folds_for(rules, discover(analyzer.analysis, "FOLD", Fold), REPORT_ROWS)
    # a masked report shows no payload, and keeps none
    keep = folder is not None and not job.redact
    batches = capture.batches()
    if folder is not None and keep:
        batches = folder.recorded(batches)
    kinds = run_folds(batches, folds, tables)
    coverage = capture.coverage
    if not kinds and not coverage.severe:
        raise NothingToCheckError(_nothing(coverage))
    outcome = judge(rules, tables, coverage, kinds, options)
    cited = (reference for finding in outcome.findings for reference in finding.evidence)
    view = build_view(
        outcome,
        coverage,
        tables,
        version=__version__,
        title=", ".join(coverage.inputs),
        redact=job.redact,
        rules=rules,
        frames=capture.cited(cited) if keep else None,
    )
    return view, exit_code(outcome, coverage, job.fail_on)


def run_capture(job: CaptureJob) -> ExitCode:
    """The command: progress on standard error, the first format on standard output."""
    with progress_line(Console(stderr=True)) as progress:
        report = analyse_capture(job, progress)
    show(report.view, job.formats[0] if job.output is None else "terminal")
    for path in report.written:
        print(f"wrote {path}", file=sys.stderr)
    return report.exit_code


def parse_time(text: str | None) -> TimePoint | None:
    """`2026-12-01T10:00:00` (UTC unless it says otherwise), seconds since the epoch, or `+SECONDS` after
    the first frame. Raises `InputError` for anything else."""
    if text is None:
        return None
    try:
        if text.startswith("+"):
            return TimePoint(int(Decimal(text[1:]) * 1_000_000_000), relative=True)
        if text.replace(".", "", 1).isdigit():
            return TimePoint(int(Decimal(text) * 1_000_000_000))
        moment = datetime.fromisoformat(text)
    except (ValueError, ArithmeticError):
        raise InputError(
            f"{text!r} is no time: use 2026-12-01T10:00:00 (UTC), or +90 for 90 s after the first frame"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return TimePoint(int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) * 1000)


def _nothing(coverage: Coverage) -> str:
    seen = "; ".join(note.text for note in coverage.notes) or "no RPC connection"
    return f"no NFSv4 to judge in {', '.join(coverage.inputs)}: {coverage.seen['frames']:,} frames; {seen}"
