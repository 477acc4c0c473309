"""Figures of labs: `python -m tests.bench.lab [--cycles 20]`.

Brings an NFS lab of a server and two clients up and down again and again, prints the times, and what is
left afterwards. Wanted: up in at most 15 s, and nothing left.
"""

from __future__ import annotations

import argparse
import statistics
import time

from analyzer.lab import Lab, NfsOptions
from tests.lab.traces import traces

WANTED_UP_S = 15


def cycle(options: NfsOptions) -> tuple[float, float]:
    """Seconds to mounted, with a file written and read, and seconds to gone."""
    began = time.monotonic()
    lab = Lab("bench", options)
    with lab:
        up = time.monotonic() - began
        lab.node("client1").run(["sh", "-c", "echo hello >/nfs/f"])
        lab.node("client2").run(["cat", "/nfs/f"])
        began = time.monotonic()
    return up, time.monotonic() - began


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Times of NFS labs, and what they leave.")
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--server", default="knfsd")
    parser.add_argument("--clients", type=int, default=2)
    chosen = parser.parse_args()
    before = traces("bench")
    times = [cycle(NfsOptions(chosen.clients, chosen.server)) for _ in range(chosen.cycles)]
    for name, values in zip(("up", "down"), zip(*times, strict=True), strict=True):
        wanted = f"     wanted: at most {WANTED_UP_S} s" if name == "up" else ""
        figures = f"median {statistics.median(values):5.2f} s, longest {max(values):5.2f} s"
        print(
            f"{chosen.server}, {chosen.clients} clients, {chosen.cycles} times {name:4} {figures}{wanted}"
        )
    left = traces("bench") - before
    print(f"left behind: {', '.join(sorted(left)) or 'nothing'}")


if __name__ == "__main__":
    main()
