"""Figures of `storage-analyzer capture`, beside its rivals in the same run: `python -m tests.bench`.

A capture of a real cluster is replicated, each copy with addresses of its own, to the wanted number of
frames. The rival is what one would do by hand: `tshark -r FILE -Y nfs -T fields` with the same fields.
Runs alternate and medians are given, since machines are noisy. Writes to a temporary folder.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from analyzer.wire.columns import FIELDS
from tests import captures_tools as tools
from tests.bench.processes import Sampler

CAPTURES = Path(__file__).parents[2] / "captures"
DEFAULT = CAPTURES / "nfs41-two-kernel-clients.pcapng"
PYSHARK_FRAMES = 4000
_PYSHARK_LOOP = """
import sys, pyshark
capture = pyshark.FileCapture(sys.argv[1], display_filter="nfs", keep_packets=False)
count = 0
for packet in capture:
    count += 1
    str(packet.nfs.get_field("opcode")), str(packet.nfs.get_field("nfsstat4"))
capture.close()
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One finished command: seconds of wall time, and the most memory its Python processes held."""

    seconds: float
    sum_mb: float  # proportional set size, all Python processes together
    single_mb: float  # resident set size of the largest


def run(command: list[str], memory: bool = False) -> Run:
    """Run a command to its end; exit codes up to 4 are verdicts, not failures. Memory is sampled only
    where asked, since that costs time of its own."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        sampler = Sampler(process.pid)
        if memory:
            sampler.start()
        process.wait()
        seconds = time.monotonic() - began
        if memory:
            sampler.stop()
    if process.returncode not in (0, 1, 4):  # verdicts; a defect is 70
        raise SystemExit(f"{' '.join(command[:4])} ... ended with {process.returncode}")
    return Run(seconds, sampler.sum_mb, sampler.single_mb)


def ours(capture: Path) -> list[str]:
    """End to end, rules and JSON included."""
    return [sys.executable, "-m", "analyzer", "capture", str(capture), "--format", "json"]


def fields(capture: Path) -> list[str]:
    """One plain pass of tshark over the same fields."""
    command = ["tshark", "-n", "-r", str(capture), "-o", "tcp.try_heuristic_first:TRUE", "-Y", "nfs"]
    return [*command, "-T", "fields", *(part for field in FIELDS for part in ("-e", field))]


def replicate(source: Path, frames: int, target: Path) -> int:
    """`source` as often as it takes, one copy after the other; returns the number of frames."""
    packets = list(tools.read(source))
    count = -(-frames // len(packets))
    return tools.write_pcap(target, tools.copies(packets, count), link=packets[0].link)


def median(runs: list[Run], of: Callable[[Run], float]) -> float:
    """The median of one figure."""
    return statistics.median(of(r) for r in runs)


def compare(capture: Path, frames: int, runs: int) -> None:
    """Ours and the plain pass in turn."""
    mine, theirs = [], []
    for number in range(runs):
        theirs.append(run(fields(capture)))
        mine.append(run(ours(capture)))
        print(
            f"  run {number + 1}: capture {mine[-1].seconds:6.2f} s, tshark {theirs[-1].seconds:6.2f} s,"
            f" ratio {mine[-1].seconds / theirs[-1].seconds:.2f}",
            flush=True,
        )
    ratio = statistics.median(m.seconds / t.seconds for m, t in zip(mine, theirs, strict=True))
    seconds = median(mine, lambda r: r.seconds)
    print(f"  storage-analyzer capture   {seconds:8.2f} s   {frames / seconds:10,.0f} frames/s")
    print(f"  tshark -Y nfs -T fields    {median(theirs, lambda r: r.seconds):8.2f} s")
    print(f"  ratio (median of pairs)    {ratio:8.2f}     wanted: at most 0.60")


def pyshark(source: Path, folder: Path, rate: float) -> None:
    """A plain pyshark loop over a few thousand frames; its start is measured and taken off."""
    small, tiny = folder / "small.pcap", folder / "tiny.pcap"
    count = replicate(source, PYSHARK_FRAMES, small)
    packets = list(tools.read(source))
    tools.write_pcap(tiny, packets[:40], link=packets[0].link)
    command = [sys.executable, "-c", _PYSHARK_LOOP]
    start = run([*command, str(tiny)]).seconds
    theirs = count / max(0.01, run([*command, str(small)]).seconds - start)
    print(f"  pyshark loop               {theirs:10,.0f} frames/s over {count} frames, start taken off")
    print(f"  times faster               {rate / theirs:8.0f}     wanted: at least 25")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--capture", type=Path, default=DEFAULT, help="what to replicate")
    parser.add_argument("--frames", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--growth", type=int, default=4, help="also run on so many times the frames")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="storage-analyzer-bench-") as name:
        folder = Path(name)
        capture = folder / "big.pcap"
        frames = replicate(chosen.capture, chosen.frames, capture)
        size = capture.stat().st_size / 1e6
        print(f"{chosen.capture.name} replicated to {frames:,} frames, {size:,.0f} MB", flush=True)
        run(ours(capture))  # warms the page cache and the byte code
        compare(capture, frames, chosen.runs)
        first = run(ours(capture), memory=True)
        print(
            f"  our Python processes       {first.sum_mb:8.0f} MB together (PSS),"
            f" largest {first.single_mb:.0f} MB (RSS)     wanted: below 400"
        )
        pyshark(chosen.capture, folder, frames / first.seconds)
        capture.unlink()
        if chosen.growth > 1:
            large = folder / "large.pcap"
            more = replicate(chosen.capture, chosen.frames * chosen.growth, large)
            second = run(ours(large), memory=True)
            print(f"  growth to {more:,} frames")
            per = second.seconds / more / (first.seconds / frames)
            print(f"    time per frame           {per:8.2f} times that of {frames:,} frames")
            print(f"    memory                   {first.sum_mb:8.0f} MB -> {second.sum_mb:.0f} MB together")


if __name__ == "__main__":
    main()
