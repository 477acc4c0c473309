"""Kubernetes objects → inventory → findings → reports."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from analyzer import __version__
from analyzer.core.errors import InputError, NothingToCheckError
from analyzer.core.finding import ExitCode, Severity
from analyzer.core.rule import Rule, parse_options
from analyzer.core.store import RunFolder
from analyzer.core.table import Tables
from analyzer.pipeline.output import check_formats, exit_code, show, write_reports
from analyzer.pipeline.rules import object_rules
from analyzer.report.progress import progress_line
from analyzer.report.view import ReportView, build_view
from k8s import baseline
from k8s.audit import Audit, audit
from k8s.client import open_cluster
from k8s.fix import Mended, mend
from k8s.live import load_live
from k8s.manifests import load
from k8s.objects import Delivery

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class AuditJob:
    """What `storage-analyzer audit` was asked. `inputs` are files, folders and `-`; with `live` they are
    empty and a cluster is read. `known` is a baseline to read, `make_known` one to write."""

    inputs: tuple[str, ...]
    live: bool = False
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    output: Path | None = None
    formats: tuple[str, ...] = ("terminal",)
    fail_on: Severity = Severity.MEDIUM
    redact: bool = False
    settings: tuple[str, ...] = ()
    known: Path | None = None
    make_known: Path | None = None
    fix: bool = False


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The outcome of an audit: what to show, what was written, the patch if one was asked for, and the
    exit code."""

    view: ReportView
    written: tuple[Path, ...]
    mended: Mended | None
    exit_code: ExitCode


def run_audit(job: AuditJob) -> ExitCode:
    """The command: progress on standard error, the first format or the patch on standard output."""
    with progress_line(Console(stderr=True)) as progress:
        report = analyse_objects(job, progress)
    if report.mended is not None:
        sys.stdout.write(report.mended.patch)
        mended, every = report.mended.before - report.mended.after, len(report.view.findings)
        said = f"this patch mends {mended:,} of {every:,} findings (git apply, or patch -p1)"
        print(f"{said}; {every - mended:,} need a decision", file=sys.stderr)
    else:
        show(report.view, job.formats[0] if job.output is None else "terminal")
    for path in report.written:
        print(f"wrote {path}", file=sys.stderr)
    return report.exit_code


def analyse_objects(job: AuditJob, progress: Progress = lambda _stage, _done, _total: None) -> AuditReport:
    """Objects → inventory → findings → reports.

    Raises `AnalyzerError` where an input, an option or the cluster is not usable, and
    `NothingToCheckError` where there is no Kubernetes object.
    """
    # objects come by the hundred thousand and form no cycles: searching for some costs most of the time
    gc.set_threshold(200_000, 50, 100)
    _check(job)
    rules = object_rules()
    options = parse_options(job.settings, rules) if job.settings else {}
    known = baseline.read(job.known) if job.known else {}
    folder = None if job.output is None else RunFolder(job.output)
    texts: dict[str, str] | None = {} if job.fix else None
    delivery = _deliver(job, progress, texts)
    if not (delivery.objects or delivery.problems or delivery.unseen):
        raise NothingToCheckError(_nothing(delivery))
    found = audit(delivery, rules, options, known)
    view = _view(job, found, rules)
    mended = None
    if texts is not None:
        mended = mend(texts, lambda renewed: audit(renewed, rules, options, known).outcome.findings)
    written = _written(job, folder, view, found, mended)
    return AuditReport(view, written, mended, _exit_code(job, found))


def _check(job: AuditJob) -> None:
    check_formats(job.formats, job.output)
    if job.live and job.inputs:
        raise InputError("--live reads a cluster: leave out the files, or leave out --live")
    if not job.live and not job.inputs:
        raise InputError(
            "name manifests, folders of them, - for standard input, or use --live for a cluster"
        )
    if job.fix and job.live:
        raise InputError(
            "--fix writes a patch for manifests: audit the files that the cluster was made from"
        )
    if (job.context or job.namespaces) and not job.live:
        raise InputError("--context and --namespace go with --live")


def _deliver(job: AuditJob, progress: Progress, texts: dict[str, str] | None) -> Delivery:
    if not job.live:
        return load(job.inputs, progress, texts)
    with open_cluster(job.context) as api:
        return load_live(api, job.namespaces, progress=progress)


def _view(job: AuditJob, found: Audit, rules: list[Rule]) -> ReportView:
    return build_view(
        found.outcome,
        found.coverage,
        Tables(),
        version=__version__,
        title=", ".join(path.rstrip("/").rsplit("/", 1)[-1] or path for path in found.coverage.inputs),
        redact=job.redact,
        rules=rules,
        about="object",
        names=found.inventory.names() if job.redact else (),
    )


def _written(
    job: AuditJob, folder: RunFolder | None, view: ReportView, found: Audit, mended: Mended | None
) -> tuple[Path, ...]:
    written: list[Path] = []
    if job.make_known is not None:
        try:
            job.make_known.write_bytes(baseline.content(found.outcome.findings))
        except OSError as error:
            raise InputError(f"{job.make_known}: cannot be written: {error.strerror}") from None
        written.append(job.make_known)
    if folder is None:
        return tuple(written)
    written += write_reports(folder, view, job.formats)
    if mended is not None and not job.redact:
        written.append(folder.write("fixes.diff", mended.patch.encode()))
    folder.write_manifest(
        {
            "version": __version__,
            "inputs": [] if job.redact else list(view.coverage.inputs),
            "redacted": job.redact,
            "settings": list(job.settings),
        }
    )
    return tuple(written)


def _exit_code(job: AuditJob, found: Audit) -> ExitCode:
    """As for every job; what could not be listed is no all-clear. A baseline that was just written
    accepts everything in it."""
    if job.make_known is not None:
        return ExitCode.CLEAN
    code = exit_code(found.outcome, found.coverage, job.fail_on)
    return ExitCode.UNKNOWN if code is ExitCode.CLEAN and found.coverage.unseen else code


def _nothing(delivery: Delivery) -> str:
    seen = ", ".join(f"{count:,} {noun}" for noun, count in delivery.seen.items())
    notes = "".join(f"; {note}" for note in delivery.notes)
    return f"no Kubernetes object in {', '.join(delivery.inputs)}: {seen}{notes}"
