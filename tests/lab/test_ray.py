"""Ray in a lab: an actor runs in the node where the mount is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from analyzer.lab import Lab, NfsOptions
from tests.lab.conftest import possible
from tests.lab.traces import named

pytestmark = [
    pytest.mark.xdist_group("lab"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray isn't installed"),
]

DRIVER = """
import ray
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_cpus=0)
class Writer:
    def write(self):
        import os, socket
        open("/nfs/" + socket.gethostname(), "w").write("x")
        return socket.gethostname()
names = ("client1", "client2")
print(*ray.get([Writer.options(resources={name: 1}).remote().write.remote() for name in names]))
"""


def test_actors_run_where_the_mount_is_and_their_traffic_is_not_captured(tmp_path: Path) -> None:
    options = NfsOptions(clients=2, ray=True, capture=tmp_path / "c.pcapng")
    possible(options)
    with Lab(named("ray"), options) as lab:
        address = lab.status()["ray"]["address"]
        done = lab.node("host").run(
            [sys.executable, "-c", DRIVER], env={"RAY_ADDRESS": address}, timeout_s=120
        )
        assert done.text.split() == ["client1", "client2"]
        assert lab.node("client1").run(["ls", "/nfs"]).text == "client1\nclient2\n"
    ports = ["-T", "fields", "-e", "tcp.srcport", "-e", "tcp.dstport"]
    told = subprocess.run(
        ["tshark", "-n", "-r", str(tmp_path / "c.pcapng"), *ports],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout and all("2049" in line.split() for line in told.stdout.splitlines())
