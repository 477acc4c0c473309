"""The control plane of the tests: it is seen by nobody else, and ends with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.binaries import Binaries
from tests.cluster.control_plane import ADMIN, Client, ControlPlane, control_plane

pytestmark = pytest.mark.xdist_group("cluster")

_CHILD = """
import sys, time
from pathlib import Path
from tests.cluster.binaries import Binaries
from tests.cluster.control_plane import control_plane
with control_plane(Binaries(Path(sys.argv[1]))) as plane:
    print(plane.folder, *plane.pids.values(), flush=True)
    time.sleep(120)
"""


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def sockets(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
    return {link[8:-1] for link in links if link.startswith("socket:[")}


def listening(pid: int) -> list[str]:
    """The addresses, as /proc writes them, on which a process listens for TCP."""
    own, found = sockets(pid), []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in own:
                found.append(fields[1].partition(":")[0])
    return found


def test_the_version_is_the_pinned_one(admin: Client) -> None:
    status, version = admin.call("GET", "/version")
    assert status == 200
    assert int(version["minor"]) >= 34, "VolumeAttributesClass v1 came with 1.34"


def test_the_programs_listen_on_loopback_alone(plane: ControlPlane) -> None:
    assert listening(plane.pids["kube-apiserver"]) == ["0100007F"]  # 127.0.0.1
    assert listening(plane.pids["etcd"]) == []


def test_the_programs_end_with_a_killed_parent(binaries: Binaries) -> None:
    command = [sys.executable, "-c", _CHILD, str(binaries.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        folder, *pids = parent.stdout.readline().split()
        assert pids and all(runs(int(pid)) for pid in pids)
        os.kill(parent.pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while any(runs(int(pid)) for pid in pids):
        assert time.monotonic() < end, "they still run"
        time.sleep(0.05)
    subprocess.run(["rm", "-rf", "--", folder], check=True)


def test_controllers_make_pods_of_jobs(binaries: Binaries) -> None:
    if not binaries.program("kube-controller-manager").exists():
        pytest.skip("KUBEBUILDER_ASSETS holds no kube-controller-manager")
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    job = {"metadata": {"name": "once"}, "spec": {"template": {"spec": pod}}}
    with control_plane(binaries, controllers=True) as plane:
        client = plane.client(ADMIN)
        client.create("/apis/batch/v1/namespaces/default/jobs", job)
        end = time.monotonic() + 60
        while True:
            _, pods = client.call("GET", "/api/v1/namespaces/default/pods?labelSelector=job-name=once")
            if pods["items"]:
                break
            assert time.monotonic() < end, "no pod was made"
            time.sleep(0.2)
        assert pods["items"][0]["spec"]["serviceAccountName"] == "default"
