"""`storage-analyzer drivers`."""

from __future__ import annotations

from typing import Annotated

import typer

from analyzer.cli.app import app
from analyzer.cli.options import ListFormat


@app.command(short_help="What is known of CSI drivers: their limits, keys and defaults.")
def drivers(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A provisioner, or a part of its name.")
    ] = None,
    output: Annotated[ListFormat, typer.Option("--format", help="What to print.")] = ListFormat.TERMINAL,
) -> None:
    """List CSI drivers and how each limits I/O; with NAME all that is known of one, and its sources.

    \b
    Examples:
      storage-analyzer drivers
      storage-analyzer drivers ebs.csi.aws.com
      storage-analyzer drivers --format json
    """
    from analyzer.pipeline.drivers import drivers_text

    typer.echo(drivers_text(name, as_json=output is ListFormat.JSON), nl=False)
