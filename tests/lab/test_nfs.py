"""A real NFS cluster: two kernel clients, a kernel server, a capture; what hurts it, what it survives."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analyzer.lab import Lab, LabError, NfsOptions
from tests.lab.conftest import possible
from tests.lab.traces import named

pytestmark = pytest.mark.xdist_group("lab")

HOLD = """
import fcntl, os, sys, time
fd = os.open("/nfs/lock", os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX)
open(sys.argv[1], "w").close()
time.sleep(float(sys.argv[2]))
"""
TRY = """
import fcntl, os
fd = os.open("/nfs/lock", os.O_RDWR | os.O_CREAT)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("free")
except OSError as error:
    print(error.strerror)
"""


def test_clients_are_kernels_of_their_own_with_the_storage_mounted(nfs: Lab) -> None:
    mount = nfs.node("client1").run(["grep", " /nfs ", "/proc/mounts"]).text
    assert mount.startswith("10.99.0.1:/ /nfs nfs4 rw") and "vers=4.1" in mount and "noac" in mount
    assert nfs.node("client1").run(["hostname"]).text == "client1\n"
    nfs.node("client1").run(["sh", "-c", "echo hello >/nfs/f"])
    assert nfs.node("client2").run(["cat", "/nfs/f"]).text == "hello\n"


def test_a_lock_on_one_client_excludes_the_other(nfs: Lab) -> None:
    mark = nfs.share / "held"
    python = shutil.which("python3") or sys.executable
    hold = ["sh", "-c", f"setsid {python} -c '{HOLD}' {mark} 4 >/dev/null 2>&1 &"]
    nfs.node("client1").run(hold)
    end = time.monotonic() + 10
    while not mark.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    tried = nfs.node("client2").run([python, "-c", TRY]).text
    assert tried == "Resource temporarily unavailable\n"


def test_commands_have_exit_codes_input_and_a_deadline(nfs: Lab) -> None:
    client = nfs.node("client1")
    assert client.run(["sh", "-c", "exit 3"], check=False).exit_code == 3
    assert client.run(["cat"], text=b"\x00\xff").out == b"\x00\xff"
    with pytest.raises(LabError, match="client1: false: exit code 1"):
        client.run(["false"])
    assert client.run(["no-such-program"], check=False).exit_code == 127
    began = time.monotonic()
    late = client.run(["sleep", "30"], timeout_s=1, check=False)
    assert (late.exit_code, late.timed_out, late.stuck) == (124, True, False)
    assert time.monotonic() - began < 5
    left_behind = client.run(["sh", "-c", "sleep 30 & echo done"], timeout_s=10)
    assert left_behind.text == "done\n"


def test_names_that_are_none(nfs: Lab) -> None:
    with pytest.raises(LabError, match=r"no node 'client9': there are server, client1, client2, host"):
        nfs.node("client9").run(["true"])
    with pytest.raises(LabError, match="no fault 'melt' for client1"):
        nfs.fault("client1", "melt")
    with pytest.raises(LabError, match="delay needs an amount in milliseconds"):
        nfs.fault("client1", "delay")


def test_clocks_are_related_to_the_capture_s(nfs: Lab) -> None:
    clocks = {clock["node"]: clock for clock in nfs.status()["clocks"]}
    assert set(clocks) == {"server", "client1", "client2"}
    for clock in clocks.values():
        assert 0 < clock["wall_hi_ns"] - clock["wall_lo_ns"] < 50_000_000
        assert abs(clock["wall_lo_ns"]) < 1_000_000_000


def test_a_frozen_node_is_said_to_be_frozen(nfs: Lab) -> None:
    nfs.fault("client2", "freeze")
    try:
        with pytest.raises(LabError, match="client2 is frozen"):
            nfs.node("client2").run(["true"])
        assert {n["name"]: n["frozen"] for n in nfs.status()["nodes"]}["client2"] is True
    finally:
        nfs.fault("client2", "thaw")
    assert nfs.node("client2").run(["echo", "again"]).text == "again\n"


def test_a_partition_hangs_a_client_until_it_heals(nfs: Lab) -> None:
    client = nfs.node("client1")
    nfs.fault("client1", "partition")
    try:
        hung = client.run(["sh", "-c", "echo 1 >/nfs/cut"], timeout_s=2, check=False)
        assert hung.timed_out
    finally:
        nfs.fault("client1", "heal")
    assert client.run(["sh", "-c", "echo 2 >/nfs/cut && cat /nfs/cut"], timeout_s=40).text == "2\n"


def test_a_delay_is_felt_and_ends(nfs: Lab) -> None:
    client = nfs.node("client2")

    def seconds() -> float:
        began = time.monotonic()
        client.run(["sh", "-c", "for n in 1 2 3 4 5; do ls /nfs/f >/dev/null; done"])
        return time.monotonic() - began

    before = seconds()
    nfs.fault("client2", "delay", 200)
    try:
        assert seconds() > before + 0.8  # noac: each asks the server
    finally:
        nfs.fault("client2", "heal")
    assert seconds() < before + 0.8


def test_what_was_synced_survives_a_power_cut_of_the_server(nfs: Lab) -> None:
    script = "echo kept >/nfs/synced; sync /nfs/synced"
    nfs.node("client1").run(["sh", "-c", script])
    nfs.fault("server", "kill")
    assert {n["name"]: n["alive"] for n in nfs.status()["nodes"]}["server"] is False
    with pytest.raises(LabError, match="server is not running"):
        nfs.node("server").run(["true"])
    nfs.fault("server", "start")
    assert nfs.node("server").run(["cat", "/export/synced"]).text == "kept\n"
    assert nfs.node("client1").run(["cat", "/nfs/synced"], timeout_s=60).text == "kept\n"


def test_a_client_that_lost_power_boots_and_mounts_again(nfs: Lab) -> None:
    nfs.fault("client2", "kill")
    nfs.fault("client2", "start")
    assert nfs.node("client2").run(["cat", "/nfs/synced"], timeout_s=60).text == "kept\n"


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark isn't installed")
def test_the_capture_holds_the_storage_traffic_from_the_first_mount_on(tmp_path: Path) -> None:
    options = NfsOptions(clients=1, capture=tmp_path / "c.pcapng")
    possible(options)
    with Lab(named("capture"), options) as lab:
        lab.node("client1").run(["sh", "-c", "echo hello >/nfs/f"])
    fields = ["-T", "fields", "-e", "ip.src", "-e", "ip.dst", "-e", "tcp.port", "-e", "nfs.opcode"]
    told = subprocess.run(
        ["tshark", "-n", "-r", str(tmp_path / "c.pcapng"), *fields],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    rows = [line.split("\t") for line in told]
    assert {row[0] for row in rows} | {row[1] for row in rows} == {"10.99.0.1", "10.99.0.2"}
    assert all("2049" in row[2].split(",") for row in rows)
    seen = {code for row in rows if len(row) > 3 for code in row[3].split(",")}
    assert {"42", "43", "18", "57"} <= seen  # EXCHANGE_ID, CREATE_SESSION, OPEN, DESTROY_CLIENTID
    done = subprocess.run(
        [sys.executable, "-m", "analyzer", "capture", str(tmp_path / "c.pcapng"), "--format", "json"],
        capture_output=True,
        check=False,
    )
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["coverage"]["seen"]["clients"] == 1
    assert not report["coverage"]["degraded"]


def test_ganesha_serves_too_and_keeps_state_over_a_restart() -> None:
    options = NfsOptions(clients=1, server="ganesha", version="4.2")
    possible(options)
    with Lab(named("ganesha"), options) as lab:
        client = lab.node("client1")
        client.run(["sh", "-c", "echo hello >/nfs/f; sync /nfs/f"])
        assert "vers=4.2" in client.run(["grep", " /nfs ", "/proc/mounts"]).text
        lab.fault("server", "restart")
        assert client.run(["cat", "/nfs/f"], timeout_s=60).text == "hello\n"
