#!/usr/bin/env python3
"""The demo: two clients fight over a lock on a real NFS server, which restarts; then the tool says so.

    python captures/recipes/demo.py OUT-FOLDER

Where this machine can't have a lab, a capture of this repository is analysed instead, and that is said.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(REPOSITORY))

from analyzer.lab import LabError  # noqa: E402 - the project need not be installed
from captures.recipes.record import record  # noqa: E402

SHIPPED = REPOSITORY / "captures" / "nfs41-ganesha-locks-restart-port20490.pcap"
MANIFESTS = REPOSITORY / "tests" / "manifests" / "bad"
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


def analyser(*words: str) -> int:
    """Run the tool; findings are what a demo wants, so 1 and 4 are no failure."""
    print(f"\n$ storage-analyzer {' '.join(words)}", flush=True)
    code = subprocess.run(
        [sys.executable, "-m", "analyzer", *words], cwd=REPOSITORY, check=False
    ).returncode
    if code not in (0, 1, 4):
        raise SystemExit(code)
    return code


def say(text: str) -> None:
    """One line for whoever watches."""
    print(text, flush=True)


def main() -> None:
    """All of it, and where the reports are."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo").resolve()
    out.mkdir(parents=True, exist_ok=True)
    pcap = traffic(out)
    analyser("capture", str(pcap), "-o", str(out / "capture"))
    analyser("audit", str(MANIFESTS / "article-class.yaml"), "-o", str(out / "audit"))
    say("\nReports for a browser:")
    for part in ("capture", "audit"):
        say(f"  {out / part / 'report.html'}")


if __name__ == "__main__":
    main()
