"""Display filters: the catalogue, or what is wrong with one."""

from __future__ import annotations

from analyzer.pipeline.output import Screen
from analyzer.wire.filters.command import filter_command
from analyzer.wire.filters.render import render


def run_filter(expression: str | None) -> int:
    """Print the catalogue of display filters, or what is wrong with one; returns the exit code."""
    report = filter_command(expression)
    render(report, Screen())
    return int(report.exit_code)
