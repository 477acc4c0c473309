"""Figures of the history checkers: `python -m tests.bench.checkers [--full]`.

* One million (`--full`: ten million, too) mixed operations through all folds and rules, in a process of its
  own: seconds, peak memory, and how both depend on concurrency and on the number of files.
* The register checker beside Porcupine on the same histories (needs Go; it runs with a limit of memory and
  of time, since it would take all there is).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import analyzer.analysis
from analyzer.analysis.breaches import Breach
from analyzer.analysis.register import Accesses, disorder, phantoms, seen_writes, stale_reads
from analyzer.core.coverage import Coverage
from analyzer.core.rule import Fold, discover, folds_for, judge, run_folds
from analyzer.core.table import Tables
from analyzer.pipeline.rules import operation_rules
from tests.bench.histories import mixed, registers

PORCUPINE = Path(__file__).parent / "porcupine"
LIMIT_S = 30
LIMIT_BYTES = 6 << 30
#: operations, registers, mean overlap, one read made stale
CASES = (
    (1_000, 1, 8, False),
    (10_000, 1, 8, False),
    (10_000, 1, 8, True),
    (10_000, 1, 64, False),
    (100_000, 1, 8, False),
    (100_000, 100, 64, False),
    (1_000_000, 100, 64, False),
    (1_000_000, 10_000, 64, False),
)


def measure(count: int, keys: int, concurrency: int) -> dict[str, float]:
    """Check one mixed history in this process."""
    batches = mixed(1, count, keys, concurrency)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rules = operation_rules("client")
    folds = folds_for(rules, discover(analyzer.analysis, "FOLD", Fold))
    tables = Tables()
    began = time.perf_counter()
    kinds = run_folds(batches, folds, tables)
    judge(rules, tables, Coverage(), kinds)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "before_mb": before, "peak_mb": peak, "breaches": len(tables.of(Breach))}


def apart(count: int, keys: int, concurrency: int) -> dict[str, float]:
    """The same in a process of its own, so that memory is that of one history."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.checkers",
        "--one",
        str(count),
        str(keys),
        str(concurrency),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def ours(a: Accesses) -> tuple[str, float]:
    """The verdict of the register checker, and its seconds."""
    began = time.perf_counter()
    seen = seen_writes(a)
    illegal = len(phantoms(a, seen)) or len(stale_reads(a, seen)) or len(disorder(a, seen))
    return "Illegal" if illegal else "Ok", time.perf_counter() - began


def spoiled(a: Accesses) -> Accesses:
    """The same history with one read, in its middle, of what had been overwritten long before."""
    writes = np.flatnonzero(a.write)
    reads = np.flatnonzero(~a.write)
    token = a.token.copy()
    token[reads[len(reads) // 2]] = a.token[writes[len(writes) // 4]]
    return Accesses(a.key, a.start, a.end, token, a.write)


def build(folder: Path) -> Path | None:
    """Compile the Go program; None (with the reason printed) where that isn't possible."""
    if shutil.which("go") is None:
        print("Porcupine: not measured, since Go is not installed")
        return None
    target = folder / "porcupine"
    done = subprocess.run(
        ["go", "build", "-o", str(target), "."], cwd=PORCUPINE, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"Porcupine: not measured, go build failed: {done.stderr.strip().splitlines()[-1]}")
        return None
    return target


def porcupine(program: Path, a: Accesses, folder: Path) -> str:
    """Verdict, seconds and memory of Porcupine on the same history."""
    history = folder / "history.txt"
    np.savetxt(history, np.stack([a.key, a.write, a.token, a.start, a.end], axis=1), fmt="%d")

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))

    try:
        done = subprocess.run(
            [str(program), str(history), f"{LIMIT_S}s"],
            capture_output=True,
            text=True,
            check=False,
            timeout=4 * LIMIT_S,
            preexec_fn=limited,
            env={**os.environ, "GOMAXPROCS": "2"},
        )
    except subprocess.TimeoutExpired:
        return f"no end after {4 * LIMIT_S} s"
    if done.returncode:
        return f"out of memory ({LIMIT_BYTES >> 30} GB)"
    verdict, seconds, memory = done.stdout.split()
    return f"{verdict:<8}{float(seconds):8.2f} s {int(memory):6} MB"


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="ten million operations, too (6 GB)")
    parser.add_argument("--one", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    print("mixed operations  files  overlap   seconds   memory (of it the history)")
    cases = [(1_000_000, 100, 8), (1_000_000, 100, 64), (1_000_000, 100, 512), (1_000_000, 1, 64),
             (1_000_000, 10_000, 64)]  # fmt: skip
    for count, keys, concurrency in [*cases, *([(10_000_000, 1000, 64)] if options.full else [])]:
        r = apart(count, keys, concurrency)
        print(
            f"{count:>16,} {keys:>6} {concurrency:>8} {r['seconds']:>8.2f} s {r['peak_mb']:>5.0f} MB "
            f"({r['before_mb']:.0f} MB) {'' if not r['breaches'] else 'FALSE FINDINGS'}"
        )
    print("\n   registers  files  overlap  stale   ours                Porcupine")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = build(folder)
        for count, keys, concurrency, stale in CASES:
            a = registers(np.random.default_rng(2), count, keys, concurrency)
            a = spoiled(a) if stale else a
            verdict, seconds = ours(a)
            rival = porcupine(program, a, folder) if program else "-"
            print(
                f"{count:>12,} {keys:>6} {concurrency:>8} {'one' if stale else '-':>6}   {verdict:<8}"
                f"{seconds:8.4f} s  {rival}",
                flush=True,
            )


if __name__ == "__main__":
    main()
