#!/usr/bin/env python3
"""Records the captures kernel-*.pcap again, each with its truth: what the clients did and what they got.

    python3 captures/recipes/record.py WORK-FOLDER [SCENARIO ...]

Needs root and, on Debian 12: user-mode-linux nfs-kernel-server nfs-common kmod iproute2 tshark. Three
Linux kernels run as ordinary processes (one NFS server, two clients) on a bridge in a network namespace
of their own; a capture on that bridge sees every packet with one clock. Everything is taken down again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = Path("/usr/lib/uml/modules")
ROLES = ("server", "clienta", "clientb")
DEADLINE_S = 150.0


class Lab:
    """One server and two clients; `share` is the folder that all of them see."""

    def __init__(self, work: Path, scenario: str, version: str, options: str) -> None:
        self.work = work
        self.share = work / "share"
        self.scenario, self.version, self.options = scenario, version, options
        self.namespace = "nfs-" + hashlib.sha256(str(work).encode()).hexdigest()[:8]
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.capture: subprocess.Popen[bytes] | None = None

    def run(self, *words: str) -> None:
        """A command that has to succeed."""
        subprocess.run(words, check=True)

    def inside(self, *words: str) -> list[str]:
        """A command line that runs in the lab's network."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def up(self) -> None:
        """Network, capture, nodes."""
        shutil.rmtree(self.share, ignore_errors=True)
        self.share.mkdir(parents=True)
        for name in ("server.sh", "client.sh", "calls.py"):
            shutil.copy(HERE / name, self.share)
        shutil.copy(HERE / "node.sh", self.work)
        (self.work / "node.sh").chmod(0o755)
        self._modules()
        self.run("ip", "netns", "add", self.namespace)
        self.run(*self.inside("ip", "link", "set", "lo", "up"))
        self.run(*self.inside("ip", "link", "add", "br0", "type", "bridge"))
        self.run(*self.inside("ip", "link", "set", "br0", "up"))
        for number in range(len(ROLES)):
            self.run(*self.inside("ip", "tuntap", "add", f"tap{number}", "mode", "tap"))
            self.run(*self.inside("ip", "link", "set", f"tap{number}", "master", "br0", "up"))
        pcap = str(self.work / f"{self.scenario}.pcap")
        self.capture = subprocess.Popen(
            self.inside("dumpcap", "-q", "-P", "-i", "br0", "-w", pcap),
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1.5)
        for number, role in enumerate(ROLES):
            self._node(number, role)

    def _modules(self) -> None:
        (release,) = (p.name for p in MODULES.iterdir())
        target = self.work / "modules" / "lib" / "modules" / release
        if not target.exists():
            target.mkdir(parents=True)
            for entry in (MODULES / release).iterdir():
                (target / entry.name).symlink_to(entry)
            for index in target.glob("modules.*"):
                if index.name not in ("modules.builtin", "modules.order", "modules.builtin.modinfo"):
                    index.unlink()
            self.run("depmod", "-b", str(self.work / "modules"), release)

    def _node(self, number: int, role: str) -> None:
        words = {
            "WORK": str(self.work),
            "ROLE": role,
            "ADDRESS": f"10.99.0.{number + 1}",
            "VERSION": self.version,
            "OPTIONS": self.options,
            "SCENARIO": self.scenario,
        }
        network = f"transport=tap,ifname=tap{number},depth=128,gro=1,mac=02:00:00:00:00:0{number}"
        with (self.share / f"{role}.console").open("wb") as console:
            self.nodes[role] = subprocess.Popen(
                self.inside(
                    "linux.uml",
                    "mem=512M",
                    "rootfstype=hostfs",
                    "rootflags=/",
                    "ro",
                    f"init={self.work}/node.sh",
                    "con=null",
                    "con0=null,fd:2",
                    "ssl=null",
                    f"vec0:{network}",
                    f"umid={self.namespace}-{role}",
                    f"uml_dir={self.work}/umid",
                    *(f"{name}={value}" for name, value in words.items() if value),
                ),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def wait(self, mark: str) -> None:
        """Until somebody set this mark."""
        end = time.monotonic() + DEADLINE_S
        while not (self.share / mark).exists():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.scenario}: nobody came to {mark!r}")
            if (self.share / "failed").exists():
                raise RuntimeError(f"{self.scenario}: a client could not mount, see {self.share}")
            time.sleep(0.01)

    def mark(self, mark: str) -> None:
        """Set a mark."""
        (self.share / mark).touch()

    @contextmanager
    def told(self, what: str, **facts: object) -> Iterator[None]:
        """Writes down something that the host does."""
        wall, mono = time.time_ns(), time.monotonic_ns()
        yield
        line = {"who": "host", "process": "lab", "what": what, **facts}
        line |= {"wall_start_ns": wall, "wall_end_ns": time.time_ns()}
        line |= {"mono_start_ns": mono, "mono_end_ns": time.monotonic_ns(), "result": "ok"}
        with (self.share / "truth.host.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def freeze(self, role: str) -> None:
        """Stop a node's clock and all of it, as a paused virtual machine."""
        with self.told("freeze", node=role):
            os.kill(self.nodes[role].pid, signal.SIGSTOP)

    def thaw(self, role: str) -> None:
        """Let it go on."""
        with self.told("thaw", node=role):
            os.kill(self.nodes[role].pid, signal.SIGCONT)

    def restart(self) -> None:
        """Stop the NFS server, and start it 0.5 s later."""
        self.mark("restart")
        self.wait("restarted")

    def down(self) -> None:
        """Stop what was started, and only that."""
        self.mark("stop")
        for node in self.nodes.values():
            try:
                node.wait(5)
            except subprocess.TimeoutExpired:
                os.kill(node.pid, signal.SIGCONT)
                os.killpg(node.pid, signal.SIGKILL)
                node.wait()
        if self.capture is not None:
            time.sleep(0.5)
            self.capture.send_signal(signal.SIGINT)
            self.capture.wait()
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False)

    def truth(self) -> None:
        """All that was written down, by time."""
        lines = []
        for path in self.share.glob("truth.*.jsonl"):
            lines += [json.loads(line) for line in path.read_text().splitlines()]
        lines.sort(key=lambda line: (line["wall_start_ns"], line["who"], line["process"]))
        with (self.work / f"{self.scenario}.truth.jsonl").open("w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


def nothing(lab: Lab) -> None:
    """The clients alone."""


def freeze_holder(lab: Lab) -> None:
    """Client A freezes while it holds a lock, and thaws 2 s after client B got it."""
    lab.wait("a-holds")
    time.sleep(0.5)
    lab.freeze("clienta")
    lab.mark("a-frozen")
    lab.wait("b-holds")
    time.sleep(2)
    lab.thaw("clienta")
    lab.mark("a-thawed")


def restart_when_told(lab: Lab) -> None:
    """The server restarts when the clients are ready."""
    lab.wait("please-restart")
    lab.restart()


SCENARIOS: dict[str, tuple[str, str, Callable[[Lab], None]]] = {
    "kernel-lock-contention": ("4.1", "", nothing),
    "kernel-lost-lock-zombie": ("4.1", "", freeze_holder),
    "kernel-lost-lock-regained": ("4.1", "", freeze_holder),
    "kernel-restart-reclaim": ("4.1", "", restart_when_told),
    "kernel-delegation-recall": ("4.1", "", nothing),
    "kernel-deadlock": ("4.1", "", nothing),
    "kernel-fsync-storm": ("4.1", "", nothing),
    "kernel-append": ("4.1", "", nothing),
    "kernel-small-files": ("4.1", "", nothing),
    "kernel-readdir": ("4.1", "", nothing),
    "kernel-unstable-restart": ("4.1", ",wsize=4096", restart_when_told),
    "kernel-nfs40": ("4.0", "", nothing),
}


def main() -> None:
    """Records all scenarios, or those named."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an interrupted run cleans up too
    work = Path(sys.argv[1]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    for scenario in sys.argv[2:] or SCENARIOS:
        version, options, host = SCENARIOS[scenario]
        lab = Lab(work, scenario, version, options)
        try:
            lab.up()
            host(lab)
            lab.wait("done.clienta")
            lab.wait("done.clientb")
        finally:
            lab.down()
            lab.truth()
        pcap = work / f"{scenario}.pcap"
        print(f"{scenario}: {pcap.stat().st_size} bytes")


if __name__ == "__main__":
    main()
