"""The filter report as text: 80 columns, colours on a terminal, plain when piped."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import Final

from rich.console import Console
from rich.text import Text

from analyzer.wire.filters.catalogue import Entry
from analyzer.wire.filters.command import FilterReport
from analyzer.wire.filters.fault import Fault, Level
from analyzer.wire.filters.linter import Lint
from analyzer.wire.filters.syntax import Span
from analyzer.wire.filters.tokens import printable

WIDTH: Final = 80
_WINDOW: Final = 74
_STYLES: Final = {Level.ERROR: "bold red", Level.WARNING: "bold yellow", Level.NOTE: "bold cyan"}


def render(report: FilterReport, console: Console) -> None:
    """Print the report. Control characters of the expression never reach the terminal."""
    if report.lint is None:
        _catalogue(report.entries, console)
    else:
        _lint(report, report.lint, console)


def _catalogue(entries: tuple[Entry, ...], console: Console) -> None:
    _line(console, "Display filters for NFS, by question. FILE is your capture.", "bold")
    _prose(
        console,
        "Every command has -o tcp.try_heuristic_first:TRUE: a client's source port may belong to another "
        "protocol (705 is AgentX), which then hides the connection. -d tcp.port==PORT,rpc names a server's "
        "port instead.",
        0,
    )
    for topic, group in groupby(entries, key=lambda e: e.topic):
        console.print()
        _line(console, topic.upper(), "bold")
        for found in group:
            _entry(found, console)


def _entry(found: Entry, console: Console) -> None:
    console.print()
    _line(console, f"{found.question}  ({found.id})", "bold cyan")
    _verbatim(console, "  " + found.filter, "green")
    _prose(console, "Shows " + found.shows + ".", 2)
    for line in found.command(WIDTH - 4).splitlines():
        _verbatim(console, "  " + line, "dim")
    for caveat in found.caveats:
        _prose(console, "- " + caveat, 2)


def _lint(report: FilterReport, lint: Lint, console: Console) -> None:
    text = printable(lint.text)
    if not lint.faults:
        _line(console, "The filter is right.", "bold green")
        _verbatim(console, "  " + text, "")
    else:
        every = [*lint.faults, *(fault for _, faults in lint.uncovered for fault in faults)]
        errors = sum(fault.level is not Level.NOTE for fault in every)
        notes = len(every) - errors
        words = f"{errors} {'fault' if errors == 1 else 'faults'}"
        _line(
            console, words + (f" and {notes} {'note' if notes == 1 else 'notes'}" if notes else ""), "bold"
        )
    for number, fault in enumerate(lint.faults, 1):
        _fault(number, text, fault, console)
    told = len(lint.faults)
    for repaired, faults in lint.uncovered:
        console.print()
        _line(console, "With that repaired, there is more to say:", "bold")
        for number, fault in enumerate(faults, told + 1):
            _fault(number, printable(repaired), fault, console)
        told += len(faults)
    _correction(report, lint, console)
    if report.reads:
        console.print()
        _prose(console, "Numbers in it: " + "; ".join(report.reads) + ".", 0)
    for option, why in report.needs:
        _prose(console, f"Needs {option}: {why}.", 0)
    _compiled(report, console)
    for found in report.entries:
        _entry(found, console)


def _correction(report: FilterReport, lint: Lint, console: Console) -> None:
    if not lint.faults:
        return
    console.print()
    if not lint.corrected:
        if lint.wrong:
            _prose(console, "No filter can be given in its place: the text doesn't say what is meant.", 0)
        return
    state = report.corrected_compiled
    checked = f" (compiled by tshark {state.version})" if state and state.ok else ""
    _line(console, f"Corrected{checked}:", "bold green")
    _verbatim(console, printable(lint.corrected), "green")
    for fault in lint.leftover:
        if fault.level is not Level.NOTE:
            _prose(console, f"Still open: {fault.message}", 0)


def _compiled(report: FilterReport, console: Console) -> None:
    state = report.compiled
    if state is None or state.ok:
        return
    text = (
        state.message
        if state.ok is None
        else f"tshark {state.version} refuses the original: {state.message}"
    )
    _prose(console, printable(text).rstrip(".") + ".", 0)


def _fault(number: int, text: str, fault: Fault, console: Console) -> None:
    console.print()
    line = Text(f"{number}. {fault.level}", style=_STYLES[fault.level])
    line.append(f" at column {fault.span.start + 1} [{fault.rule}]", style="default not bold")
    console.print(line, soft_wrap=True, highlight=False)
    shown, caret = excerpt(text, fault.span)
    _verbatim(console, "   " + shown, "")
    _verbatim(console, "   " + caret, _STYLES[fault.level])
    _prose(console, printable(fault.message), 3)
    _prose(console, "Source: " + printable(fault.source) + ".", 3, "dim")


def excerpt(text: str, span: Span, width: int = _WINDOW) -> tuple[str, str]:
    """The part of the text around the span, and a line of carets under it; both at most `width` wide."""
    text = text.replace("\n", " ").replace("\t", " ").replace("\r", " ")
    low = 0
    if len(text) > width:
        low = max(0, min(span.start - width // 3, len(text) - width + 1))
    high = min(len(text), low + width)
    shown = text[low:high]
    if low:
        shown = "…" + shown[1:]
    if high < len(text):
        shown = shown[:-1] + "…"
    start = min(max(span.start - low, 0), width - 1)
    length = max(1, min(span.end, high) - max(span.start, low))
    return shown, " " * start + "^" * min(length, width - start)


def _prose(console: Console, text: str, indent: int, style: str = "") -> None:
    pad = " " * indent
    hang = pad + ("  " if text.startswith("- ") else "")
    wrapped = textwrap.fill(
        text, WIDTH - 1, initial_indent=pad, subsequent_indent=hang, break_on_hyphens=False
    )
    _verbatim(console, wrapped, style)


def _line(console: Console, text: str, style: str) -> None:
    console.print(Text(text, style=style), soft_wrap=True, highlight=False)


def _verbatim(console: Console, text: str, style: str) -> None:
    """Never wrapped: what is meant to be copied stays in one piece."""
    console.print(Text(text, style=style), soft_wrap=True, highlight=False)
