"""The first process of a lab: brings it up, answers on its socket, and takes everything with it.

    python -m analyzer.lab.supervisor STATE [LIFELINE-FD]

Runs as PID 1 of a PID namespace, with network and mount namespaces of its own (`lab.py` starts it that
way). While the pipe LIFELINE is given it ends when the other side closes, so that a lab in a test dies
with the test, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from analyzer.lab import agent, clocks, network, ray_cluster
from analyzer.lab.ceph_cluster import CephCluster
from analyzer.lab.cluster import Cluster
from analyzer.lab.host import LabError
from analyzer.lab.nfs_cluster import NfsCluster
from analyzer.lab.node import Send, UmlNode, modules
from analyzer.lab.options import CephOptions, NfsOptions, Options
from analyzer.lab.recorder import Recorder
from analyzer.lab.state import State

HOST: Final = "host"


class Supervisor:
    """State of one lab. Requests come in threads; those that change something take turns."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.facts = state.read()
        self.cluster: Cluster | None = None
        self.recorder: Recorder | None = None
        self.ready = False
        self.error = ""
        self.phase = ""
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        self.detached = threading.Event()

    def up(self) -> None:
        """From an empty namespace to a mounted cluster. Raises `LabError`."""
        began = time.monotonic()
        options = _options(self.facts)
        self._say("making networks")
        _prepare(self.state)
        network.make()
        socket.sethostname("lab")  # daemons tell it to their clients, and it is nobody's business
        if options.capture is not None:
            self.recorder = Recorder(options.capture, self.state.folder / "capture.log")
        if isinstance(options, CephOptions):
            self.cluster = CephCluster(options, self.state)
        else:
            self.cluster = NfsCluster(options, self.state)
        self.cluster.up(self._say)
        if options.ray:
            self._say("starting Ray")
            self.facts["ray"] = ray_cluster.start(self.state, self._uml())
        self.facts |= {"up_s": round(time.monotonic() - began, 2), "mount": self.cluster.mount}
        self.facts["clocks"] = self._clocks()
        self._say("")
        self.state.write(self.facts)
        with self._changed:
            self.ready = True
            self._changed.notify_all()

    def fail(self, error: str) -> None:
        """Tell whoever waits that there will be no lab."""
        with self._changed:
            self.error = error
            self._changed.notify_all()

    def _say(self, phase: str) -> None:
        with self._changed:
            self.phase = phase
            self._changed.notify_all()

    def _uml(self) -> list[UmlNode]:
        machines = self.cluster.machines.values() if self.cluster else ()
        return [machine for machine in machines if isinstance(machine, UmlNode)]

    def _clocks(self) -> list[dict[str, Any]]:
        found = [clocks.measure(node) for node in self._uml() if node.alive and not node.frozen]
        return [offset.as_json() for offset in found if offset is not None]

    # --- requests ------------------------------------------------------------------------------------

    def handle(self, request: dict[str, Any], send: Send) -> None:
        """One request; what it may ask is the name of a method below."""
        jobs: dict[str, Callable[[dict[str, Any], Send], None]] = {
            "await": self._await,
            "keep": self._keep,
            "run": self._run,
            "clock": self._run,
            "fault": self._fault,
            "status": self._status,
            "down": self._down,
        }
        job = jobs.get(str(request.get("do")))
        try:
            if job is None:
                raise LabError(f"no such request: {request.get('do')!r}")
            job(request, send)
        except LabError as error:
            send({"error": str(error)})

    def _await(self, _: dict[str, Any], send: Send) -> None:
        told = ""
        while not self.ready:
            if self.error:
                raise LabError(self.error)
            if self.phase != told:
                told = self.phase
                send({"phase": told})
            with self._changed:
                self._changed.wait(0.05)
        send({"exit": 0})

    def _keep(self, _: dict[str, Any], send: Send) -> None:
        """The lab outlives whoever started it."""
        self.detached.set()
        send({"exit": 0})

    def _run(self, request: dict[str, Any], send: Send) -> None:
        name = request.pop("node")
        machines = self.cluster.machines if self.cluster else {}
        if name == HOST:
            agent.answer(request, send)
        elif name in machines:
            machines[name].ask(request, send)
        else:
            raise LabError(f"no node {name!r}: there are {', '.join([*machines, HOST])}")

    def _fault(self, request: dict[str, Any], send: Send) -> None:
        if self.cluster is None or not self.ready:
            raise LabError("the lab is still coming up")
        with self._turn:
            self.cluster.fault(request["node"], request["what"], request.get("amount"))
        send({"exit": 0})

    def _status(self, _: dict[str, Any], send: Send) -> None:
        machines = self.cluster.machines if self.cluster else {}
        nodes = [
            {
                "name": m.name,
                "address": m.address,
                "alive": m.alive,
                "frozen": m.frozen,
                "partitioned": m.cut,
            }
            for m in machines.values()
        ]
        facts = {**self.facts, "phase": self.phase, "ready": self.ready, "nodes": nodes}
        if self.ready:
            facts["clocks"] = self._clocks()
        send({"status": facts, "exit": 0})

    def _down(self, _: dict[str, Any], send: Send) -> None:
        with self._turn:
            self.end()
        with contextlib.suppress(OSError):
            send({"exit": 0})
        os._exit(0)

    def end(self) -> None:
        """The graceful part of going down: unmount, and a capture that is whole."""
        if self.cluster is not None:
            self.cluster.down()
        if self.recorder is not None:
            self.recorder.stop()


def _options(facts: dict[str, Any]) -> Options:
    """What `lab.py` wrote down."""
    known = dict(facts["options"])
    known["capture"] = Path(known["capture"]) if known["capture"] else None
    if facts["kind"] == "cephfs":
        return CephOptions(**{**known, "client_settings": tuple(known["client_settings"])})
    return NfsOptions(**known)


def _prepare(state: State) -> None:
    """Folders, the nodes' first program, and memory for nodes: all of it dies with the mount namespace."""
    state.share.mkdir(exist_ok=True)
    memory = state.folder / "memory"
    memory.mkdir(exist_ok=True)
    network.run("mount", "-t", "tmpfs", "-o", "size=90%,mode=700", "lab-memory", str(memory))
    script = state.folder / "node.sh"
    shutil.copyfile(Path(__file__).with_name("node.sh"), script)
    script.chmod(0o755)
    modules(state.folder / "modules")


def _watch(lifeline: int, supervisor: Supervisor) -> None:
    """End when whoever started the lab has ended, unless it was told to stay."""
    while os.read(lifeline, 1):
        pass
    if not supervisor.detached.is_set():
        os._exit(1)


def main() -> None:
    """Until `down`, or until it is killed."""
    state = State(Path(sys.argv[1]))
    supervisor = Supervisor(state)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os._exit(1))
    if len(sys.argv) > 2:
        threading.Thread(target=_watch, args=(int(sys.argv[2]), supervisor), daemon=True).start()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(state.control))
    state.control.chmod(0o600)
    listener.listen(64)
    threading.Thread(target=agent.listen, args=(listener, supervisor.handle), daemon=True).start()
    try:
        supervisor.up()
    except (LabError, OSError, subprocess.SubprocessError) as error:
        traceback.print_exc()
        supervisor.fail(str(error))
        time.sleep(2)  # whoever waits hears of it
        os._exit(1)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
