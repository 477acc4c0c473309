"""`storage-analyzer rules`."""

from __future__ import annotations

from typing import Annotated

import typer

from analyzer.cli.app import app
from analyzer.cli.options import ListFormat


@app.command()
def rules(
    output: Annotated[ListFormat, typer.Option("--format", help="What to print.")] = ListFormat.TERMINAL,
) -> None:
    """List every rule: id, severity and what a finding says.

    \b
    Examples:
      storage-analyzer rules
      storage-analyzer rules --format json
    """
    from analyzer.pipeline.rules import list_rules

    typer.echo(list_rules(as_json=output is ListFormat.JSON), nl=False)
