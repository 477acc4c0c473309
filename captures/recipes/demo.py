#!/usr/bin/env python3
"""The demo: two clients fight over a lock on a real NFS server, which restarts; then the tool says so.

    python captures/recipes/demo.py OUT-FOLDER

Where this machine can't have a lab, a capture of this repository is analysed instead, and that is said.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(REPOSITORY))

# ruff: noqa: E402 - the project need not be installed
from analyzer.lab import LabError
from analyzer.pipeline.audit import AuditJob, analyse_objects
from analyzer.pipeline.capture import CaptureJob, analyse_capture
from analyzer.pipeline.output import show
from analyzer.report.format import formats
from analyzer.report.view import joined
from captures.recipes.record import record

SHIPPED = REPOSITORY / "captures" / "nfs41-ganesha-locks-restart-port20490.pcap"
MANIFESTS = tuple(
    str(REPOSITORY / "tests" / "manifests" / "bad" / f"{name}.yaml")
    for name in ("article-class", "checkpoint-emptydir-pytorchjob", "nfs-nolock", "postgres-fsync")
)
SCENARIO = "demo"


def traffic(out: Path) -> Path:
    """A capture made now, or where that can't be, one made before."""
    began = time.monotonic()
    try:
        say("A Linux NFS server and two Linux clients are starting. Client A takes a lock, B waits for it,")
        say("the server restarts, and A holds on. This takes about a minute.")
        pcap = record(out, SCENARIO)
    except LabError as error:
        say(f"No lab on this machine, so a capture of this repository is taken instead: {error}")
        return SHIPPED
    say(f"Recorded in {time.monotonic() - began:.0f} s: {pcap}")
    return pcap


def say(text: str) -> None:
    """One line for whoever watches."""
    print(text, flush=True)


def main() -> None:
    """All of it, and where the reports are."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo").resolve()
    out.mkdir(parents=True, exist_ok=True)
    pcap = traffic(out)
    say(f"\n$ storage-analyzer capture {pcap}\n")
    capture = analyse_capture(CaptureJob((str(pcap),))).view
    show(capture, "terminal")
    say(f"\n$ storage-analyzer audit {' '.join(MANIFESTS)}\n")
    audit = analyse_objects(AuditJob(MANIFESTS)).view
    show(audit, "terminal")
    report = out / "report.html"
    report.write_text(str(formats()["html"].render(joined(capture, audit))), "utf-8")
    say(f"\nAll of it, for a browser: {report}")


if __name__ == "__main__":
    main()
