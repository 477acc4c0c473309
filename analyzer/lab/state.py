"""The folder of a lab: what is known of it, and whether it lives.

`lab.json` (options, nodes, process), `control` (socket of the supervisor), `lock` (held by the supervisor
as long as it lives), `share/` (for all nodes), `disk/` (disks of nodes), `*.console`, `supervisor.log`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: Unix socket paths hold 107 bytes: the folder must be short.
ROOT: Final = Path("/run/storage-analyzer/labs")


def root() -> Path:
    """Where labs are, `STORAGE_ANALYZER_LABS` if that is set."""
    return Path(os.environ.get("STORAGE_ANALYZER_LABS") or ROOT)


@dataclass(frozen=True, slots=True)
class State:
    """The folder of one lab."""

    folder: Path

    @classmethod
    def of(cls, name: str) -> State:
        """The folder for a name."""
        return cls(root() / name)

    @property
    def name(self) -> str:
        """Of the lab."""
        return self.folder.name

    @property
    def control(self) -> Path:
        """Socket of the supervisor."""
        return self.folder / "control"

    @property
    def share(self) -> Path:
        """Seen by the host and by all nodes, under this path."""
        return self.folder / "share"

    @property
    def log(self) -> Path:
        """What the supervisor says."""
        return self.folder / "supervisor.log"

    def exists(self) -> bool:
        """Whether there is such a lab, or what is left of one."""
        return self.folder.is_dir()

    def alive(self) -> bool:
        """Whether the supervisor lives: it holds the lock."""
        try:
            with (self.folder / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def read(self) -> dict[str, Any]:
        """What lab.json says; empty if there is none yet."""
        try:
            found = json.loads((self.folder / "lab.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, facts: dict[str, Any]) -> None:
        """Replace lab.json."""
        with tempfile.NamedTemporaryFile("w", dir=self.folder, prefix=".lab", delete=False) as file:
            json.dump(facts, file, indent=1)
        Path(file.name).replace(self.folder / "lab.json")

    def remove(self) -> None:
        """Remove the folder. The lab's mounts are in a namespace of its own: nothing is mounted here."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for parent in (self.folder.parent, self.folder.parent.parent):
            try:
                if parent.is_relative_to(ROOT.parent):
                    parent.rmdir()
            except OSError:
                break  # other labs


def every() -> Iterator[State]:
    """All labs, living or not."""
    folder = root()
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.is_dir():
                yield State(path)
