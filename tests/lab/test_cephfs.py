"""A real Ceph and real CephFS clients, of both kinds and over both messengers."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from analyzer.lab import CephOptions, Lab, LabError
from tests.lab.conftest import possible
from tests.lab.traces import named, traces

pytestmark = pytest.mark.xdist_group("lab")

LOCK = """
import fcntl, os, sys, time
fd = os.open("/cephfs/lock", os.O_RDWR | os.O_CREAT)
if sys.argv[1] == "hold":
    fcntl.lockf(fd, fcntl.LOCK_EX)
    open(sys.argv[2], "w").close()
    time.sleep(float(sys.argv[3]))
else:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("free")
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize("client", ["fuse", "kernel"])
@pytest.mark.parametrize("messenger", ["v1", "v2"])
def test_two_clients_share_files_and_locks(client: str, messenger: str, tmp_path: Path) -> None:
    options = CephOptions(client=client, messenger=messenger, capture=tmp_path / "c.pcapng")
    possible(options)
    with Lab(named("ceph"), options) as lab:
        one, two = lab.node("client1"), lab.node("client2")
        one.run(["sh", "-c", "echo hello >/cephfs/f"])
        assert two.run(["cat", "/cephfs/f"]).text == "hello\n"
        script, mark = lab.share / "lock.py", lab.share / "held"
        script.write_text(LOCK)
        one.run(["sh", "-c", f"setsid {sys.executable} -I -S {script} hold {mark} 4 >/dev/null 2>&1 &"])
        end = time.monotonic() + 10
        while not mark.exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        tried = two.run([sys.executable, "-I", "-S", str(script), "try"]).text
        assert tried == "Resource temporarily unavailable\n"
    fields = ["-T", "fields", "-e", "ip.src", "-e", "ip.dst", "-e", "tcp.payload"]
    command = ["tshark", "-n", "-r", str(tmp_path / "c.pcapng"), *fields]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    banner = b"ceph v2\n" if messenger == "v2" else b"ceph v027"
    assert banner.hex() in told
    assert {word for line in told.splitlines() for word in line.split("\t")[:2]} == {
        "10.99.0.1",
        "10.99.0.2",
        "10.99.0.3",
    }


def test_the_metadata_server_restarts_and_a_client_is_evicted() -> None:
    options = CephOptions(clients=1, client="kernel")
    possible(options)
    before = traces(named(""))
    with Lab(named("ceph-faults"), options) as lab:
        client = lab.node("client1")
        client.run(["sh", "-c", "echo kept >/cephfs/f; sync /cephfs/f"])
        lab.fault("server", "restart")
        assert client.run(["cat", "/cephfs/f"], timeout_s=60).text == "kept\n"
        lab.fault("server", "kill")
        assert not lab.status()["nodes"][0]["alive"]
        assert client.run(["touch", "/cephfs/g"], timeout_s=2, check=False).timed_out
        lab.fault("server", "start")
        assert client.run(["cat", "/cephfs/f"], timeout_s=60).text == "kept\n"
        lab.fault("client1", "evict")
        refused = client.run(["sh", "-c", "echo x >/cephfs/h"], timeout_s=30, check=False)
        assert refused.exit_code != 0 and not refused.timed_out
        with pytest.raises(LabError, match="no fault 'melt' for server"):
            lab.fault("server", "melt")
    assert traces(named("")) == before
