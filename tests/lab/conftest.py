"""Real labs for tests: skipped with the reason where this machine can't have one, a failure in CI."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer.lab import Lab, LabError, NfsOptions
from analyzer.lab.host import check
from analyzer.lab.lab import needed


def possible(options: NfsOptions) -> None:
    """Skip (in CI: fail) if this machine can't have such a lab."""
    try:
        check(needed(options), Path("/run"))
    except LabError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def traces() -> set[str]:
    """What a lab might leave: processes, mounts, network devices, namespaces."""
    words = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
    found = {
        "process " + w.decode("utf-8", "replace")
        for w in words
        if b"analyzer.lab" in w or b"linux.uml" in w
    }
    found |= {"mount " + line for line in Path("/proc/self/mounts").read_text().splitlines()}
    found |= {"device " + path.name for path in Path("/sys/class/net").iterdir()}
    netns = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=False).stdout
    return found | {"namespace " + line for line in netns.splitlines()}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the capture of `nfs` goes."""
    return tmp_path_factory.mktemp("lab") / "lab.pcapng"


@pytest.fixture(scope="session")
def nfs(recorded: Path) -> Iterator[Lab]:
    """A kernel server and two kernel clients, with a capture. Tests mend what they hurt."""
    options = NfsOptions(clients=2, capture=recorded, mount_options="noac")
    possible(options)
    with Lab("test-nfs", options) as lab:
        yield lab
