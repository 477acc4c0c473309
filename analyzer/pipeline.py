"""The story of each job from top to bottom; the only module that knows all parts."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from rich.console import Console

import analyzer.analysis
import analyzer.rules
from analyzer import __version__
from analyzer.analysis.clients import ClientRow
from analyzer.analysis.latency import LatencyRow, RateRow
from analyzer.analysis.locks import LockHold, LockWait
from analyzer.core.coverage import Coverage
from analyzer.core.errors import InputError, NothingToCheckError
from analyzer.core.finding import ExitCode, Severity, Verdict
from analyzer.core.rule import Fold, Outcome, Rule, discover, folds_for, judge, parse_options, run_folds
from analyzer.core.store import RunFolder
from analyzer.core.table import Tables
from analyzer.report import rule_pages, terminal
from analyzer.report.format import formats
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


class _Screen(Console):
    """Standard output. A reader that goes away (`| head`) mustn't look like exit code 1, findings."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which knows the exit code for it."""
        raise BrokenPipeError


def analyse_capture(
    job: CaptureJob, progress: Callable[[str, int, int], None] = lambda _stage, _done, _total: None
) -> CaptureReport:
    """Captures → operations → derived tables → findings → reports.

    Raises `AnalyzerError` where an input, an option or tshark is not usable, and
    `NothingToCheckError` where there is no NFSv4 to judge.
    """
    # operations come by the million and form no cycles: searching for some costs a tenth of the time
    gc.set_threshold(200_000, 50, 100)
    _check_formats(job)
    options = parse_options(job.settings, all_rules()) if job.settings else {}
    folder = None if job.output is None else RunFolder(job.output)
    chosen = CaptureOptions(job.since, job.until, job.client)
    with (
        tempfile.TemporaryDirectory(prefix="storage-analyzer-") as scratch,
        Capture(job.inputs, Path(scratch), chosen, progress) as capture,
    ):
        # decoding has begun: what is loaded from here on costs no waiting
        view, code = _judged(job, capture, Tables(Path(scratch)), folder, options)
    written = () if folder is None else _write(folder, view, job, capture.tshark.version)
    return CaptureReport(view, written, code)


def _judged(
    job: CaptureJob,
    capture: Capture,
    tables: Tables,
    folder: RunFolder | None,
    options: dict[str, dict[str, int | float]],
) -> tuple[ReportView, ExitCode]:
    """Operations → derived tables → findings → view, and the exit code."""
    rules = all_rules()
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


def run_filter(expression: str | None) -> int:
    """Print the catalogue of display filters, or what is wrong with one; returns the exit code."""
    # slow to load, and only this command needs them
    from analyzer.wire.filters.command import filter_command  # noqa: PLC0415
    from analyzer.wire.filters.render import render  # noqa: PLC0415

    report = filter_command(expression)
    render(report, _Screen())
    return int(report.exit_code)


def show(view: ReportView, name: str) -> None:
    """Print one format: the terminal's fits the screen, the others are as they would be in a file."""
    if name == "terminal":
        terminal.show(view, _Screen())
        return
    content = formats()[name].render(view)
    sys.stdout.flush()
    sys.stdout.buffer.write(content if isinstance(content, bytes) else content.encode())
    sys.stdout.buffer.flush()


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


def exit_code(outcome: Outcome, coverage: Coverage, fail_on: Severity) -> ExitCode:
    """1 for findings at or above `fail_on`; 4 if the input lost so much that silence means nothing, a
    finding of that severity had to be withheld, or a rule failed; else 0."""
    if any(f.severity >= fail_on for f in outcome.findings):
        return ExitCode.FINDINGS
    failed = any(
        j.verdict is Verdict.UNKNOWN and j.reason.startswith("the rule failed") for j in outcome.judgements
    )
    failed = failed or any(f.severity >= fail_on for f in outcome.withheld)
    return ExitCode.UNKNOWN if coverage.severe or failed else ExitCode.CLEAN


def _check_formats(job: CaptureJob) -> None:
    known = formats() if job.formats != ("terminal",) else {"terminal": None}
    for name in job.formats:
        if name not in known and "," in name:
            parts = " ".join(f"--format {part.strip()}" for part in name.split(",") if part.strip())
            raise InputError(f"--format {name}: one format each, repeat the option: {parts}")
        if name not in known:
            raise InputError(f"--format {name}: no such format. Known: {', '.join(sorted(known))}")
    if len(job.formats) > 1 and job.output is None:
        raise InputError("several formats need a folder to write to: add -o DIR")


def _nothing(coverage: Coverage) -> str:
    seen = "; ".join(note.text for note in coverage.notes) or "no RPC connection"
    return f"no NFSv4 to judge in {', '.join(coverage.inputs)}: {coverage.seen['frames']:,} frames; {seen}"


def _write(folder: RunFolder, view: ReportView, job: CaptureJob, tshark: str) -> tuple[Path, ...]:
    known = formats()
    wanted = dict.fromkeys(["json", "html", *(f for f in job.formats if f != "terminal")])
    written = []
    for name in wanted:
        form = known[name]
        content = form.render(view)
        octets = content if isinstance(content, bytes) else content.encode()
        written.append(folder.write(f"report.{form.extension}", octets))
    folder.write_manifest(
        {
            "version": __version__,
            "tshark": tshark,
            "inputs": [] if job.redact else list(view.coverage.inputs),
            "redacted": job.redact,
            "settings": list(job.settings),
        }
    )
    return tuple(written)


def all_rules() -> list[Rule]:
    """Every rule of the tool, in order of id."""
    return sorted(discover(analyzer.rules, "RULE", Rule), key=lambda rule: rule.id)


def list_rules(as_json: bool = False) -> str:
    """The text of `storage-analyzer rules`: a table for people, or JSON."""
    known = all_rules()
    return rule_pages.to_json(known) if as_json else rule_pages.table(known)


def explain(name: str, decorated: bool = False) -> str:
    """The documentation page of a rule: Markdown, or with colours and boxes if `decorated`.

    Raises `InputError` naming the nearest rules if there is none of that name.
    """
    page = rule_pages.page(find_rule(name, all_rules()))
    return rule_pages.for_terminal(page) if decorated else page


def find_rule(name: str, known: list[Rule]) -> Rule:
    """The rule with that id; capitals and underscores are forgiven.

    Raises `InputError` naming the nearest rules if there is none of that name.
    """
    by_id = {rule.id: rule for rule in known}
    wanted = name.strip().lower().replace("_", "-")
    if wanted in by_id:
        return by_id[wanted]
    parts = set(wanted.split("-"))
    near = get_close_matches(wanted, by_id, n=3) or [i for i in by_id if parts & set(i.split("-"))][:3]
    guess = f" Nearest: {', '.join(near)}." if near else ""
    raise InputError(f"no rule is named {name!r}.{guess} `storage-analyzer rules` lists all.")
