"""What a report format is, and how formats are found: a module of this package with a `FORMAT`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import analyzer.report
from analyzer.core.rule import discover
from analyzer.report.view import ReportView


@dataclass(frozen=True, slots=True)
class Format:
    """One report format. `render` is pure: the same view gives the same bytes.

    `name` is what `--format` takes, `extension` (without dot) names the file: `report.EXTENSION`.
    """

    name: str
    extension: str
    render: Callable[[ReportView], str | bytes]


def formats() -> dict[str, Format]:
    """Every format by name, in order of module name."""
    return {found.name: found for found in discover(analyzer.report, "FORMAT", Format)}
