"""`storage-analyzer capture`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analyzer.cli.app import app
from analyzer.cli.options import Level
from analyzer.core.finding import Severity


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
    from analyzer.pipeline.capture import CaptureJob, parse_time, run_capture

    job = CaptureJob(
        inputs=tuple(files),
        output=output,
        formats=tuple(formats or ["terminal"]),
        fail_on=Severity.parse(fail_on.value),
        redact=redact,
        settings=tuple(settings or ()),
        since=parse_time(since),
        until=parse_time(until),
        client=client,
    )
    raise typer.Exit(run_capture(job))
