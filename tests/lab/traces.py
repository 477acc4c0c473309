"""Names for labs in tests, and what such labs might leave behind on this machine."""

from __future__ import annotations

import os
from pathlib import Path

#: Labs of this process: tests of another checkout may run beside these.
MINE = f"t{os.getpid()}-"
_DEVICES = ("tap", "ctl", "br0")


def named(name: str) -> str:
    """A name for a lab that no other process takes."""
    return MINE + name


def traces(*names: str) -> set[str]:
    """Processes and mounts of labs whose names begin so, and network devices as labs make them."""
    marks = [f"/labs/{name}" for name in names]
    lines = {f"mount {line}" for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.add("process " + path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue  # it ended
    found = {line for line in lines if any(mark in line for mark in marks)}
    devices = {path.name for path in Path("/sys/class/net").iterdir()}
    return found | {f"device {name}" for name in devices if name.startswith(_DEVICES)}
