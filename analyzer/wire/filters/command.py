"""The command behind `storage-analyzer filter [EXPR]`: what it found, and its exit code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from analyzer.core.finding import ExitCode
from analyzer.wire.filters.catalogue import CATALOGUE, Entry, entry
from analyzer.wire.filters.compiling import Compiled, compile_filter
from analyzer.wire.filters.fault import Fault, Level
from analyzer.wire.filters.linter import Lint, glossary, lint, needs
from analyzer.wire.filters.syntax import Span

Compiler = Callable[[str], Compiled]

#: A text that is no filter at all: nothing to compile.
_UNUSABLE: Final = "unusable"
#: A text that can't be read to its end; often a filter with a slip, which is then corrected.
_SYNTAX: Final = "syntax"

#: Rule → questions of the catalogue that a person with this fault probably asks.
_RELATED: Final = {
    "lock-opcode": ("lock-failed", "lock-denied", "open-failed"),
    "status-not-equal-zero": ("failed",),
    "op-status-untied": ("failed",),
    "open-confirm": ("open-confirm",),
    "frame-reference": ("unanswered",),
    "ceph-and-nfs": ("failed",),
    "call-and-reply": ("lock-denied",),
}


@dataclass(frozen=True, slots=True)
class FilterReport:
    """What `filter` has to say. Without an expression `entries` is the whole catalogue and `lint` is
    None; with one, `entries` are the related questions."""

    lint: Lint | None
    entries: tuple[Entry, ...]
    compiled: Compiled | None = None
    corrected_compiled: Compiled | None = None
    reads: tuple[str, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """0 the filter is right (or none was given), 1 faults were found, 2 it is no filter at all."""
        if self.lint is None:
            return ExitCode.CLEAN
        rules = {fault.rule for fault in self.lint.faults}
        if _UNUSABLE in rules or (_SYNTAX in rules and not self.lint.corrected):
            return ExitCode.USAGE
        return ExitCode.FINDINGS if self.lint.wrong else ExitCode.CLEAN


def filter_command(expression: str | None, compiler: Compiler | None = compile_filter) -> FilterReport:
    """Lint the expression, or list the catalogue if there is none.

    `compiler` asks tshark whether it takes a filter; None leaves that out.
    """
    if expression is None:
        return FilterReport(None, CATALOGUE)
    result = lint(expression)
    unusable = any(fault.rule == _UNUSABLE for fault in result.faults)
    compiled = compiler(expression) if compiler and not unusable else None
    if compiled is not None and compiled.ok is False and not _explained(result):
        result = replace(result, faults=(*result.faults, _refused(expression, compiled)))
    corrected = compiler(result.corrected) if compiler and result.corrected else None
    if corrected is not None and corrected.ok is False:
        faults = result.faults
        if not any(fault.rule == "refused" for fault in faults):
            faults = (*faults, _still_refused(expression, corrected))
        result = replace(result, faults=faults, corrected="", leftover=())
    wanted = dict.fromkeys(name for fault in result.faults for name in _RELATED.get(fault.rule, ()))
    return FilterReport(
        result,
        tuple(entry(name) for name in wanted),
        compiled,
        corrected if result.corrected else None,
        glossary(result.reading),
        needs(lint(result.corrected).reading if result.corrected else result.reading),
    )


def _explained(result: Lint) -> bool:
    """True if an error was found that may be the reason for tshark's refusal."""
    return any(fault.level is Level.ERROR for fault in result.faults)


def _still_refused(expression: str, compiled: Compiled) -> Fault:
    message = f"With all that repaired tshark still refuses it: {compiled.message}"
    return Fault("refused", Level.ERROR, Span(0, len(expression)), message, f"tshark {compiled.version}")


def _refused(expression: str, compiled: Compiled) -> Fault:
    start = min(max(compiled.column or 0, 0), len(expression))
    span = Span(start, min(start + max(compiled.width, 1), len(expression)))
    return Fault(
        "refused", Level.ERROR, span, f"tshark refuses it: {compiled.message}", f"tshark {compiled.version}"
    )
