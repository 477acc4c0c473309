"""What every job does with its findings: print, write, and tell the exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from analyzer.core.coverage import Coverage
from analyzer.core.errors import InputError
from analyzer.core.finding import ExitCode, Severity, Verdict
from analyzer.core.rule import Outcome
from analyzer.core.store import RunFolder
from analyzer.report import terminal
from analyzer.report.format import formats
from analyzer.report.view import ReportView


class Screen(Console):
    """Standard output. A reader that goes away (`| head`) mustn't look like exit code 1, findings."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which knows the exit code for it."""
        raise BrokenPipeError


def show(view: ReportView, name: str) -> None:
    """Print one format: the terminal's fits the screen, the others are as they would be in a file."""
    if name == "terminal":
        terminal.show(view, Screen())
        return
    content = formats()[name].render(view)
    sys.stdout.flush()
    sys.stdout.buffer.write(content if isinstance(content, bytes) else content.encode())
    sys.stdout.buffer.flush()


def write_reports(folder: RunFolder, view: ReportView, wanted: Sequence[str]) -> tuple[Path, ...]:
    """Write report.json, report.html and whatever else is wanted; returns the files."""
    known = formats()
    written = []
    for name in dict.fromkeys(["json", "html", *(f for f in wanted if f != "terminal")]):
        form = known[name]
        content = form.render(view)
        octets = content if isinstance(content, bytes) else content.encode()
        written.append(folder.write(f"report.{form.extension}", octets))
    return tuple(written)


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


def check_formats(wanted: Sequence[str], output: Path | None) -> None:
    """Raises `InputError` if a format isn't known, or several are asked for and there is no folder."""
    known = formats() if tuple(wanted) != ("terminal",) else {"terminal": None}
    for name in wanted:
        if name not in known and "," in name:
            parts = " ".join(f"--format {part.strip()}" for part in name.split(",") if part.strip())
            raise InputError(f"--format {name}: one format each, repeat the option: {parts}")
        if name not in known:
            raise InputError(f"--format {name}: no such format. Known: {', '.join(sorted(known))}")
    if len(wanted) > 1 and output is None:
        raise InputError("several formats need a folder to write to: add -o DIR")
