"""The repository as a whole: layers hold, and the lock file names the public index alone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_lock_names_the_public_index_alone() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", (ROOT / "uv.lock").read_text("utf-8")))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}


def test_layers_and_walls_hold() -> None:
    tool = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    assert tool, "import-linter is part of the dev group: `make test` installs it"
    done = subprocess.run(
        [tool, "--no-logo"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_contracts_have_no_exceptions() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert "ignore_imports" not in text
    assert "exhaustive_ignores" not in text
