"""However a lab ends, nothing of it is left; what can't be had is said in one sentence."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer.core.errors import InputError
from analyzer.lab import Lab, LabError, NfsOptions, host, remains, running
from analyzer.lab.state import State
from tests.lab.conftest import possible
from tests.lab.traces import MINE, named, traces

pytestmark = pytest.mark.xdist_group("lab")

ONE = NfsOptions(clients=1)
HOLDER = """
import sys, time
from analyzer.lab import Lab, NfsOptions
with Lab(sys.argv[1], NfsOptions(clients=1)) as lab:
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def before() -> Iterator[set[str]]:
    """What was there before the test; whatever is new must be gone after it."""
    possible(ONE)
    found = traces(MINE)
    yield found
    end = time.monotonic() + 10
    while (left := traces(MINE) - found) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == set()


def holder(name: str, until: str = "up") -> subprocess.Popen[bytes]:
    """A process that has a lab as context manager; returns when it is up."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, name], stdout=subprocess.PIPE)
    assert process.stdout is not None
    if until:
        assert process.stdout.readline() == b"up\n"
    return process


def gone(name: str) -> bool:
    """Whether the lab has ended, within a few seconds."""
    end = time.monotonic() + 10
    while State.of(name).alive():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_three_cycles_leave_nothing(before: set[str]) -> None:
    for _ in range(3):
        with Lab(named("cycle"), ONE) as lab:
            assert traces(MINE) - before
            assert lab.node("client1").run(["test", "-d", "/nfs"]).exit_code == 0
        assert not lab.state.exists()


def test_it_dies_with_its_parent(before: set[str]) -> None:
    with holder(named("parent")) as process:
        process.kill()
    assert gone(named("parent"))
    assert named("parent") in [state.name for state in remains()]
    Lab(named("parent")).down()
    assert not State.of(named("parent")).exists()


def test_it_survives_no_death_of_its_supervisor(before: set[str]) -> None:
    lab = Lab(named("supervisor"), ONE)
    lab.up()
    os.kill(lab.state.read()["pid"], signal.SIGKILL)
    assert gone(named("supervisor"))
    with pytest.raises(LabError, match="has ended"):
        lab.status()
    with Lab(named("supervisor"), ONE) as again:  # takes the place of what was left
        assert again.status()["ready"]
    lab.down()


def test_ctrl_c_while_it_comes_up(before: set[str]) -> None:
    with holder(named("interrupt"), until="") as process:
        end = time.monotonic() + 20
        while not list(State.of(named("interrupt")).folder.glob("client1.console")):
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) != 0
    assert not State.of(named("interrupt")).exists()


def test_a_crashed_node_is_no_obstacle(before: set[str]) -> None:
    with Lab(named("crash"), NfsOptions(clients=2)) as lab:
        lab.fault("client1", "kill")
        lab.fault("client2", "freeze")
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert not lab.state.exists()


def test_two_side_by_side_and_a_name_that_is_taken(before: set[str]) -> None:
    with Lab(named("left"), ONE) as left, Lab(named("right"), ONE) as right:
        left.node("client1").run(["sh", "-c", "echo left >/nfs/f"])
        right.node("client1").run(["sh", "-c", "echo right >/nfs/f"])
        assert left.node("client1").run(["cat", "/nfs/f"]).text == "left\n"
        assert {lab.name for lab in running()} >= {named("left"), named("right")}
        with pytest.raises(LabError, match=r"is already up: `storage-analyzer lab down \S+` ends it"):
            Lab(named("left"), ONE).up()
        assert left.status()["ready"]


def test_a_node_that_does_not_boot_shows_its_console(before: set[str]) -> None:
    with pytest.raises(LabError, match=r"ended while it booted[\s\S]*Too few physical memory"):
        Lab(named("boot"), NfsOptions(clients=1, memory_mb=1)).up()
    assert not State.of(named("boot")).exists()


def test_a_capture_that_can_not_be_written(before: set[str], tmp_path: Path) -> None:
    with pytest.raises(
        LabError, match="is no folder that can be written to: choose another --capture FILE"
    ):
        Lab(named("target"), NfsOptions(clients=1, capture=tmp_path / "none" / "c.pcapng")).up()
    assert not State.of(named("target")).exists()


# --- what this machine lacks -----------------------------------------------------------------------


def test_not_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="a lab needs root"):
        host.check(["sh"], tmp_path)


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        shutil, "which", lambda name, path=None: None if name == "linux.uml" else f"/bin/{name}"
    )
    with pytest.raises(LabError, match=r"missing linux.uml: sudo apt-get install -y user-mode-linux$"):
        host.check(["ip", "linux.uml"], tmp_path)


def test_no_tun_and_no_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda self: self != Path("/dev/net/tun") and exists(self))
    with pytest.raises(LabError, match=r"/dev/net/tun isn't there: modprobe tun"):
        host.check(["sh"], tmp_path)
    monkeypatch.setattr(Path, "exists", lambda self: True)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter([self]))
    usage = type(shutil.disk_usage("/"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1, 1, 100 << 20))
    with pytest.raises(LabError, match=r"100 MB free at .*, a lab needs 400: make room"):
        host.check(["sh"], tmp_path)


@pytest.mark.parametrize("name", ["", "UP", "a b", "../x", "a" * 40, "-x"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InputError, match="lab name"):
        Lab(name)


@pytest.mark.parametrize(
    "wrong",
    [{"clients": 0}, {"clients": 99}, {"server": "x"}, {"version": "3"}, {"lease_s": 0}, {"exports": "x"},
     {"mount_options": "noac; reboot"}],
)  # fmt: skip
def test_options_that_can_not_be_had(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        NfsOptions(**wrong)  # type: ignore[arg-type]
