"""The command line: parses arguments, calls the pipeline, turns the outcome into an exit code."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from analyzer import __version__, pipeline
from analyzer.core.errors import AnalyzerError
from analyzer.core.finding import Severity

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


class ListFormat(StrEnum):
    """How a list is printed."""

    TERMINAL = "terminal"
    JSON = "json"


class Level(StrEnum):
    """Severities, as options name them."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


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
    typer.echo(pipeline.list_rules(as_json=output is ListFormat.JSON), nl=False)


@app.command(short_help="Explain one rule, with examples and what to do.")
def explain(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="Id of a rule, as `rules` lists it.")],
) -> None:
    """Explain one rule: what it checks, why it matters, when it is wrong, what to do, with examples.

    \b
    Examples:
      storage-analyzer explain lock-long-wait
    """
    typer.echo(pipeline.explain(rule, decorated=sys.stdout.isatty()), nl=False)


@app.command(short_help="Analyse packet captures: who waited for whom, what was lost, and why.")
def capture(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="pcap or pcapng, gzip or zstd, a folder, or - for stdin."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Folder for report.json, report.html, *.parquet."
        ),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="terminal, json, html, markdown, sarif or junit."),
    ] = None,
    fail_on: Annotated[
        Level, typer.Option(help="Exit with 1 if a finding is at least this severe.")
    ] = Level.MEDIUM,
    redact: Annotated[bool, typer.Option(help="Mask paths, names and addresses in every report.")] = False,
    since: Annotated[
        str | None,
        typer.Option(help="Only frames from this time on: 2026-12-01T10:00:00 (UTC) or +90 (seconds)."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only frames up to this time; as --since.")] = None,
    client: Annotated[
        str | None, typer.Option(metavar="ADDR", help="Only connections of this client.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="RULE.OPTION=VALUE", help="Change a rule's threshold; see `explain RULE`."
        ),
    ] = None,
) -> None:
    """Analyse packet captures of NFSv4.0, 4.1 and 4.2: locks, waits, restarts, lost writes, latency.

    \b
    Examples:
      storage-analyzer capture incident.pcapng
      storage-analyzer capture ring/ -o report            (a folder of a ring buffer's files)
      zstdcat big.pcap.zst | storage-analyzer capture - --format json
      storage-analyzer capture a.pcap --client 10.0.0.7 --since +60 --fail-on high
    """
    job = pipeline.CaptureJob(
        inputs=tuple(files),
        output=output,
        formats=tuple(formats or ["terminal"]),
        fail_on=Severity.parse(fail_on.value),
        redact=redact,
        settings=tuple(settings or ()),
        since=pipeline.parse_time(since),
        until=pipeline.parse_time(until),
        client=client,
    )
    raise typer.Exit(pipeline.run_capture(job))


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
    raise typer.Exit(pipeline.run_filter(expression))


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
