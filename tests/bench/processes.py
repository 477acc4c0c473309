"""Time and memory of processes (Linux); of descendants, memory is sampled from /proc while they run."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

_INTERVAL_SECONDS = 0.25


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # the command may hold spaces and brackets: the parent comes after the last bracket
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    return found


def descendants(root: int) -> list[int]:
    """The process and all below it."""
    parents = _parents()
    family = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        if not more:
            return sorted(family)
        family |= more


def _python_memory(pid: int) -> tuple[int, int]:
    """(proportional, resident) KiB of a Python process, 0 for any other."""
    try:
        if "python" not in Path(f"/proc/{pid}/exe").readlink().name:
            return 0, 0
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = {line.split()[0]: int(line.split()[1]) for line in lines[1:]}
    return sizes.get("Pss:", 0), sizes.get("Rss:", 0)


class Sampler(threading.Thread):
    """Keeps the highest figures seen."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.sum_mb, self.single_mb = root, 0.0, 0.0
        self._end = threading.Event()

    def run(self) -> None:
        while not self._end.wait(_INTERVAL_SECONDS):
            memory = [_python_memory(pid) for pid in descendants(self.root)]
            self.sum_mb = max(self.sum_mb, sum(p for p, _ in memory) / 1024)
            self.single_mb = max(self.single_mb, max((r for _, r in memory), default=0) / 1024)

    def stop(self) -> None:
        """End sampling."""
        self._end.set()
        self.join()


def audited(*arguments: str, environment: Mapping[str, str] | None = None) -> tuple[float, float, float]:
    """(seconds of wall time, of processor time, MB of resident memory at most) of one `audit`."""
    command = [sys.executable, "-m", "analyzer", "audit", *arguments, "--format", "json"]
    began = time.monotonic()
    child = os.posix_spawn(
        command[0], command, {**os.environ, **(environment or {})},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )  # fmt: skip
    _, status, usage = os.wait4(child, 0)
    seconds = time.monotonic() - began
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):
        raise SystemExit(f"{' '.join(command[:4])} ended with {code}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
