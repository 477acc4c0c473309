#!/usr/bin/env python3
"""Records the captures kernel-*, ganesha-* and cephfs-*.pcap again, with their truth: what clients did.

    python captures/recipes/record.py WORK-FOLDER [SCENARIO ...]

Runs in the project's virtual environment, as root, on a machine that can have a lab (`storage-analyzer lab
up nfs` says what is missing): one NFS server and two clients, Linux kernels of their own, and a capture of
all their traffic with one clock. Each client runs calls.py and writes down its own calls.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from analyzer.lab import CephOptions, Lab, NfsOptions, Options  # noqa: E402 - the project need not be installed

DEADLINE_S = 150.0
ROLES = {"clienta": "client1", "clientb": "client2"}


@dataclass(frozen=True, slots=True)
class Stage:
    """A lab in which a scenario is played."""

    lab: Lab
    mount: str

    def wait(self, mark: str) -> None:
        """Until somebody set this mark."""
        end = time.monotonic() + DEADLINE_S
        while not (self.lab.share / mark).exists():
            if time.monotonic() > end:
                raise TimeoutError(f"nobody came to {mark!r}")
            time.sleep(0.01)

    def mark(self, mark: str) -> None:
        """Set a mark."""
        (self.lab.share / mark).touch()

    @contextmanager
    def told(self, what: str, who: str = "host", **facts: object) -> Iterator[None]:
        """Writes down something that is done to the clients."""
        wall, mono = time.time_ns(), time.monotonic_ns()
        yield
        line = {"who": who, "process": "lab", "what": what, **facts}
        line |= {"wall_start_ns": wall, "wall_end_ns": time.time_ns()}
        line |= {"mono_start_ns": mono, "mono_end_ns": time.monotonic_ns(), "result": "ok"}
        with (self.lab.share / f"truth.{who}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def hurt(self, role: str, what: str) -> None:
        """A fault of the lab, written down."""
        with self.told(what, node=role):
            self.lab.fault(ROLES.get(role, role), what)

    def restart(self) -> None:
        """Stop the NFS server, and start it again."""
        with self.told("restart", who="server"):
            self.lab.fault("server", "stop")
            time.sleep(0.5)
            self.lab.fault("server", "start")
        self.mark("restarted")


def nothing(stage: Stage) -> None:
    """The clients alone."""


def regain(stage: Stage) -> None:
    """As `freeze_holder`; client A's kernel takes lost locks again without a word."""
    path = "/sys/module/nfs/parameters/recover_lost_locks"
    stage.lab.node("client1").run(["sh", "-c", f"echo Y >{path}"])
    freeze_holder(stage)


def freeze_holder(stage: Stage) -> None:
    """Client A freezes while it holds a lock, and thaws 2 s after client B got it."""
    stage.wait("a-holds")
    time.sleep(0.5)
    stage.hurt("clienta", "freeze")
    stage.mark("a-frozen")
    stage.wait("b-holds")
    time.sleep(2)
    stage.hurt("clienta", "thaw")
    stage.mark("a-thawed")


def restart_when_told(stage: Stage) -> None:
    """The server restarts when the clients are ready."""
    stage.wait("please-restart")
    stage.restart()


def restart_in_flight(stage: Stage) -> None:
    """Slow answers, so that the restart falls between WRITE and COMMIT."""
    stage.lab.fault("server", "delay", 200)
    stage.mark("slow")
    restart_when_told(stage)
    stage.wait("done.clienta")
    stage.lab.fault("server", "heal")


def late_reclaim(stage: Stage) -> None:
    """Client A is cut off while the server restarts, and back after the grace period."""
    stage.wait("please-restart")
    stage.hurt("clienta", "partition")
    stage.restart()
    stage.wait("b-holds")
    stage.hurt("clienta", "heal")
    stage.mark("a-back")


def no_reclaim(stage: Stage) -> None:
    """Client A loses power, then the server restarts: nobody reclaims A's lock."""
    stage.wait("please-restart")
    stage.hurt("clienta", "kill")
    stage.mark("done.clienta")
    stage.restart()


def cut_off(stage: Stage) -> None:
    """Client A is cut off while it holds a lock, and back 2 s after client B got it."""
    stage.wait("a-holds")
    stage.hurt("clienta", "partition")
    stage.mark("a-frozen")
    stage.wait("b-holds")
    time.sleep(2)
    stage.hurt("clienta", "heal")
    stage.mark("a-thawed")


def evict_when_told(stage: Stage) -> None:
    """Client A's session is ended by the metadata server."""
    stage.wait("please-evict")
    stage.hurt("clienta", "evict")
    stage.mark("evicted")


OPTIONS = NfsOptions(clients=2)
Play = Callable[[Stage], None]
SCENARIOS: dict[str, tuple[Options, Play]] = {
    "demo": (OPTIONS, restart_when_told),
    "kernel-lock-contention": (OPTIONS, nothing),
    "kernel-lost-lock-zombie": (OPTIONS, freeze_holder),
    "kernel-lost-lock-regained": (OPTIONS, regain),
    "kernel-lost-lock-partition": (OPTIONS, cut_off),
    "kernel-restart-reclaim": (OPTIONS, restart_when_told),
    "kernel-restart-late-reclaim": (OPTIONS, late_reclaim),
    "kernel-restart-no-reclaim": (OPTIONS, no_reclaim),
    "kernel-delegation-recall": (OPTIONS, nothing),
    "kernel-deadlock": (OPTIONS, nothing),
    "kernel-fsync-storm": (OPTIONS, nothing),
    "kernel-append": (OPTIONS, nothing),
    "kernel-small-files": (OPTIONS, nothing),
    "kernel-readdir": (OPTIONS, nothing),
    "kernel-unstable-restart": (replace(OPTIONS, mount_options="wsize=4096"), restart_in_flight),
    "kernel-nfs40": (replace(OPTIONS, version="4.0"), nothing),
    "ganesha-lock-polling": (replace(OPTIONS, server="ganesha"), nothing),
    "cephfs-lock-contention-fuse-v1": (CephOptions(client="fuse", messenger="v1"), nothing),
    "cephfs-lock-contention-fuse-v2": (CephOptions(client="fuse", messenger="v2"), nothing),
    "cephfs-lock-contention-kernel-v1": (CephOptions(client="kernel", messenger="v1"), nothing),
    "cephfs-lock-contention-kernel-v2": (CephOptions(client="kernel", messenger="v2"), nothing),
    "cephfs-mds-restart": (CephOptions(client="kernel"), restart_when_told),
    "cephfs-eviction-fuse": (CephOptions(client="fuse"), evict_when_told),
    "cephfs-eviction-kernel": (CephOptions(client="kernel"), evict_when_told),
    "cephfs-capabilities": (CephOptions(client="fuse", messenger="v1"), nothing),
    "cephfs-metadata-storm": (CephOptions(client="kernel"), nothing),
}


def record(work: Path, scenario: str) -> Path:
    """Play one scenario; returns its capture."""
    options, play = SCENARIOS[scenario]
    pcap = work / f"{scenario}.pcap"
    with Lab(f"record-{os.getpid()}", replace(options, capture=pcap)) as lab:
        shutil.copy(HERE / "calls.py", lab.share)
        stage = Stage(lab, lab.status()["mount"])
        clients = [threading.Thread(target=_client, args=(stage, role, scenario)) for role in ROLES]
        for client in clients:
            client.start()
        play(stage)
        for role in ROLES:
            stage.wait(f"done.{role}")
        lines = []
        for path in lab.share.glob("truth.*.jsonl"):
            lines += [json.loads(line) for line in path.read_text().splitlines()]
        clocks = lab.status()["clocks"]
    lines.sort(key=lambda line: (line["wall_start_ns"], line["who"], line["process"]))
    names = {node: role for role, node in ROLES.items()}
    lines += [{"who": names.get(c["node"], c["node"]), "what": "clock", **c} for c in clocks]
    with (work / f"{scenario}.truth.jsonl").open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return pcap


def _client(stage: Stage, role: str, scenario: str) -> None:
    """One client's part."""
    share = stage.lab.share
    argv = [sys.executable, "-I", "-S", str(share / "calls.py"), role, scenario, stage.mount, str(share)]
    said = []
    for line in stage.lab.node(ROLES[role]).stream(argv, timeout_s=DEADLINE_S):
        said.append(base64.b64decode(line.get("err", "")).decode("utf-8", "replace"))
        if line.get("exit"):
            print(f"{role}: exit code {line['exit']} {''.join(said)}", file=sys.stderr)
    stage.mark(f"done.{role}")


def main() -> None:
    """Records all scenarios, or those named."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    work = Path(sys.argv[1]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    for scenario in sys.argv[2:] or SCENARIOS:
        pcap = record(work, scenario)
        print(f"{scenario}: {pcap.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
