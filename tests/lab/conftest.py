"""Real labs for tests: skipped with the reason where this machine can't have one, a failure in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer.lab import Lab, LabError, NfsOptions, Options
from analyzer.lab.host import check
from analyzer.lab.lab import needed
from tests.lab.traces import named


def possible(options: Options) -> None:
    """Skip (in CI: fail) if this machine can't have such a lab."""
    try:
        check(needed(options), Path("/run"))
    except LabError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the capture of `nfs` goes."""
    return tmp_path_factory.mktemp("lab") / "lab.pcapng"


@pytest.fixture(scope="session")
def nfs(recorded: Path) -> Iterator[Lab]:
    """A kernel server and two kernel clients, with a capture. Tests mend what they hurt."""
    options = NfsOptions(clients=2, capture=recorded, mount_options="noac")
    possible(options)
    with Lab(named("nfs"), options) as lab:
        yield lab
