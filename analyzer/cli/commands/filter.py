"""`storage-analyzer filter`."""

from __future__ import annotations

from typing import Annotated

import typer

from analyzer.cli.app import app


@app.command(name="filter", short_help="The right Wireshark display filters, and a check of your own.")
def display_filter(
    expression: Annotated[
        str | None, typer.Argument(metavar="[EXPR]", help="A display filter to check, in quotes.")
    ] = None,
) -> None:
    """Without EXPR: the right display filter for each question. With EXPR: what is wrong with it, and the
    filter corrected. Exits with 0 if it is right, 1 if it has faults, 2 if it is no filter.

    \b
    Examples:
      storage-analyzer filter
      storage-analyzer filter 'nfs.opcode == 12 && nfs.nfsstat4 != 0'
    """
    from analyzer.pipeline.filters import run_filter

    raise typer.Exit(run_filter(expression))
