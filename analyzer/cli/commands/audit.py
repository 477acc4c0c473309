"""`storage-analyzer audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analyzer.cli.app import app
from analyzer.cli.options import Level
from analyzer.core.finding import Severity


@app.command(short_help="Audit Kubernetes manifests or a cluster: limits, mounts, checkpoints.")
def audit(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH...]", help="Manifests, folders of them, or - for stdin."),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Read a cluster instead (list verbs only).")] = False,
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --live: the kubeconfig context.")
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        typer.Option("-n", "--namespace", metavar="NS", help="With --live: only this one; repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for report.json and report.html."),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="terminal, json, html, markdown, sarif, junit or policyreport."),
    ] = None,
    fail_on: Annotated[
        Level, typer.Option(help="Exit with 1 if a finding is at least this severe.")
    ] = Level.MEDIUM,
    fix: Annotated[
        bool, typer.Option("--fix", help="Print a patch for what can be mended; change nothing.")
    ] = False,
    known: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="Leave out findings that it holds.")
    ] = None,
    make_known: Annotated[
        Path | None,
        typer.Option("--write-baseline", metavar="FILE", help="Write the findings of today to a baseline."),
    ] = None,
    redact: Annotated[bool, typer.Option(help="Mask names and paths in every report.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="RULE.OPTION=VALUE", help="Change a rule's threshold; see `explain RULE`."
        ),
    ] = None,
) -> None:
    """Audit StorageClasses, volumes and the jobs that use them: missing I/O limits, mounts that drop
    locks or write barriers, checkpoints that die with the pod, databases that don't sync.

    A finding is accepted with an annotation on its object:
    storage-analyzer/ignore.RULE: "the reason".

    \b
    Examples:
      storage-analyzer audit k8s/
      helm template mychart | storage-analyzer audit -
      storage-analyzer audit k8s/ --fix | git apply
      storage-analyzer audit k8s/ --write-baseline known.json
      storage-analyzer audit k8s/ --baseline known.json --format sarif
      storage-analyzer audit --live --context prod -n ml -o report
    """
    from analyzer.pipeline.audit import AuditJob, run_audit

    job = AuditJob(
        inputs=tuple(paths or ()),
        live=live,
        context=context,
        namespaces=tuple(namespaces or ()),
        output=output,
        formats=tuple(formats or ["terminal"]),
        fail_on=Severity.parse(fail_on.value),
        redact=redact,
        settings=tuple(settings or ()),
        known=known,
        make_known=make_known,
        fix=fix,
    )
    raise typer.Exit(run_audit(job))
