"""The command `storage-analyzer`: help, version, and what becomes of an error."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from analyzer import __version__
from analyzer.cli import commands
from analyzer.core.errors import AnalyzerError

_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_DEFECT = 70  # EX_SOFTWARE of sysexits.h
_PIPE_CLOSED = 141  # 128 + SIGPIPE


class _Guard(TyperGroup):
    """Runs a command; an expected error becomes one line on standard error and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a defect of the tool still raises, so that it can be reported."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a closed pipe can still be handled, not at interpreter exit
        except AnalyzerError as error:
            typer.echo(f"storage-analyzer: {error}", err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            typer.echo("storage-analyzer: interrupted", err=True)
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            # what is still buffered has no reader: without this the interpreter would complain at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_PIPE_CLOSED) from None
        return result


app = typer.Typer(
    cls=_Guard,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"storage-analyzer {__version__}")
        raise typer.Exit


@app.callback()
def storage_analyzer(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Is this storage consistent, durable and fairly shared; if not, who is to blame, and what do I change?

    \b
    Exit codes:
      0  clean
      1  findings at or above the level of --fail-on
      2  bad usage or bad input
      3  nothing to check in the input
      4  something that was asked could not be judged
    """


def load_commands() -> None:
    """Register every command: a file of analyzer/cli/commands each."""
    for module in sorted(m.name for m in pkgutil.iter_modules(commands.__path__)):
        importlib.import_module(f"{commands.__name__}.{module}")


def _defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A traceback is a defect of the tool: an exit code of its own tells it from findings."""
    sys.__excepthook__(kind, error, trace)
    typer.echo("storage-analyzer: this is a defect of the tool; please report it", err=True)
    sys.stdout.flush()
    os._exit(_DEFECT)


def main() -> None:
    """Entry point of the console command `storage-analyzer` and of `python -m analyzer`."""
    sys.excepthook = _defect
    typer.main.get_command(app)(prog_name="storage-analyzer")  # app() would set a hook of its own
