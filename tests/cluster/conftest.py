"""Fixtures: a control plane for all tests of a session (with xdist: of the group `cluster`)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cluster.binaries import Binaries, find
from tests.cluster.control_plane import Client, ControlPlane, control_plane


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    found = find()
    if found is not None:
        return found
    message = (
        "kube-apiserver and etcd are not there: `make cluster` builds them (needs Go or PyPI, 5 minutes)"
    )
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def plane(binaries: Binaries) -> Iterator[ControlPlane]:
    with control_plane(binaries) as started:
        yield started


@pytest.fixture(scope="session")
def admin(plane: ControlPlane) -> Client:
    return plane.client()
