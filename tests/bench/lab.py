"""Figures of labs: `python -m tests.bench.lab [--kind knfsd|ganesha|fuse|kernel] [--cycles 20]`.

Brings a lab of a server and two clients up and down again and again, prints the times, and what is left
afterwards. Wanted: up in at most 15 s (NFS) or 20 s (CephFS), and nothing left.
"""

from __future__ import annotations

import argparse
import statistics
import time

from analyzer.lab import CephOptions, Lab, NfsOptions, Options
from tests.lab.traces import traces

WANTED_UP_S = {"knfsd": 15, "ganesha": 15, "fuse": 20, "kernel": 20}


def cycle(options: Options) -> tuple[float, float]:
    """Seconds to mounted, with a file written and read, and seconds to gone."""
    began = time.monotonic()
    lab = Lab("bench", options)
    with lab:
        up = time.monotonic() - began
        mount = lab.status()["mount"]
        lab.node("client1").run(["sh", "-c", f"echo hello >{mount}/f"])
        lab.node("client2").run(["cat", f"{mount}/f"])
        began = time.monotonic()
    return up, time.monotonic() - began


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Times of labs, and what they leave.")
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--kind", choices=sorted(WANTED_UP_S), default="knfsd")
    parser.add_argument("--clients", type=int, default=2)
    chosen = parser.parse_args()
    before = traces("bench")
    options: Options
    if chosen.kind in ("fuse", "kernel"):
        options = CephOptions(chosen.clients, chosen.kind)
    else:
        options = NfsOptions(chosen.clients, chosen.kind)
    times = [cycle(options) for _ in range(chosen.cycles)]
    for name, values in zip(("up", "down"), zip(*times, strict=True), strict=True):
        wanted = f"     wanted: at most {WANTED_UP_S[chosen.kind]} s" if name == "up" else ""
        figures = f"median {statistics.median(values):5.2f} s, longest {max(values):5.2f} s"
        print(f"{chosen.kind}, {chosen.clients} clients, {chosen.cycles} times {name:4} {figures}{wanted}")
    left = traces("bench") - before
    print(f"left behind: {', '.join(sorted(left)) or 'nothing'}")


if __name__ == "__main__":
    main()
