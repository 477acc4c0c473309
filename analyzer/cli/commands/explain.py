"""`storage-analyzer explain`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from analyzer.cli.app import app


@app.command(name="explain", short_help="Explain one rule, with examples and what to do.")
def explain_rule(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="Id of a rule, as `rules` lists it.")],
) -> None:
    """Explain one rule: what it checks, why it matters, when it is wrong, what to do, with examples.

    \b
    Examples:
      storage-analyzer explain lock-long-wait
    """
    from analyzer.pipeline.rules import explain

    typer.echo(explain(rule, decorated=sys.stdout.isatty()), nl=False)
