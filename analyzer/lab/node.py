"""A node: a user-mode-linux kernel as one process, with an agent that runs commands in it."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from analyzer.lab import agent, network
from analyzer.lab.host import MODULES, LabError, program
from analyzer.lab.state import State

_BOOT_S: Final = 40.0
_CONSOLE_LINES: Final = 12
Send = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class UmlNode:
    """`number` gives its addresses; `disk_mb` > 0 gives it a disk /dev/ubda that survives `kill`."""

    name: str
    number: int
    state: State
    memory_mb: int
    disk_mb: int = 0
    process: subprocess.Popen[bytes] | None = None
    frozen: bool = False
    cut: bool = False
    cable: network.Cable = field(init=False)

    def __post_init__(self) -> None:
        self.cable = network.Cable(self.number)

    @property
    def address(self) -> str:
        """On the storage network."""
        return network.storage_address(self.number)

    @property
    def control(self) -> str:
        """On the control network."""
        return network.control_address(self.number)

    @property
    def console(self) -> Path:
        """What its kernel says."""
        return self.state.folder / f"{self.name}.console"

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    def boot(self) -> None:
        """Start the kernel; `await_agent` says when it is up."""
        words = {
            "LAB_STATE": str(self.state.folder),
            "LAB_NODE": self.name,
            "LAB_ADDRESS": self.address,
            "LAB_CONTROL": self.control,
            "LAB_PYTHON": str(Path(sys.executable).resolve()),
            "LAB_AGENT": str(Path(agent.__file__).resolve()),
        }
        disks = [f"ubd0={self._disk()}"] if self.disk_mb else []
        with self.console.open("ab") as console:
            self.process = subprocess.Popen(
                [
                    program("linux.uml"),
                    f"mem={self.memory_mb}M",
                    "rootfstype=hostfs",
                    "rootflags=/",
                    "ro",
                    f"init={self.state.folder}/node.sh",
                    "con=null",
                    "con0=null,fd:2",
                    "ssl=null",
                    self._device("vec0", self.cable.storage, 0x99),
                    self._device("vec1", self.cable.control, 0x98),
                    f"umid={self.name}",
                    f"uml_dir={self.state.folder}/umid",
                    *disks,
                    *(f"{name}={value}" for name, value in words.items()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={**os.environ, "TMPDIR": f"{self.state.folder}/memory"},
                start_new_session=True,
            )
        self.frozen = False

    def _device(self, name: str, tap: str, net: int) -> str:
        return (
            f"{name}:transport=tap,ifname={tap},depth=128,gro=1,mac=02:00:00:00:{net:02x}:{self.number:02x}"
        )

    def _disk(self) -> Path:
        path = self.state.folder / "disk" / f"{self.name}.img"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as file:
                file.truncate(self.disk_mb << 20)
            network.run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", str(path))
        return path

    def await_agent(self) -> None:
        """Until commands can be run. Raises `LabError` with the last lines of the console."""
        end = time.monotonic() + _BOOT_S
        while time.monotonic() < end:
            if not self.alive:
                raise LabError(f"node {self.name} ended while it booted. {self.last_words()}")
            try:
                socket.create_connection((self.control, agent.PORT), 0.5).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise LabError(f"node {self.name} did not boot in {_BOOT_S:.0f} s. {self.last_words()}")

    def last_words(self) -> str:
        """The end of its console."""
        text = self.console.read_text("utf-8", "replace") if self.console.exists() else ""
        lines = [line.rstrip() for line in text.splitlines() if line.strip()][-_CONSOLE_LINES:]
        return "The last lines of its console:\n  " + "\n  ".join(lines or ["(nothing)"])

    def ask(self, request: dict[str, Any], send: Send) -> None:
        """Pass a request to the agent, and its answer on. Says so if the node is dead or frozen."""
        if not self.alive:
            send({"error": f"node {self.name} is not running: `lab fault {self.name} start` boots it"})
            return
        if self.frozen:
            send({"error": f"node {self.name} is frozen: `lab fault {self.name} thaw` first"})
            return
        patience = float(request.get("timeout_s", 600)) + 10
        try:
            with socket.create_connection((self.control, agent.PORT), 10) as connection:
                connection.settimeout(patience)
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as lines:
                    for line in lines:
                        send(json.loads(line))
        except OSError as error:
            send({"error": f"node {self.name} doesn't answer: {error}"})

    def run(self, script: str, timeout_s: float = 60) -> str:
        """A shell script that has to succeed; returns what it printed."""
        out, err = bytearray(), bytearray()
        last: dict[str, Any] = {"error": "no answer"}

        def take(line: dict[str, Any]) -> None:
            nonlocal last
            out.extend(decoded(line.get("out")))
            err.extend(decoded(line.get("err")))
            if "exit" in line or "error" in line:
                last = line

        self.ask({"do": "run", "argv": ["/bin/sh", "-ec", script], "timeout_s": timeout_s}, take)
        if last.get("exit") != 0:
            why = (
                last.get("error")
                or err.decode("utf-8", "replace").strip()
                or f"exit code {last.get('exit')}"
            )
            raise LabError(f"node {self.name}: {why}")
        return out.decode("utf-8", "replace")

    def freeze(self) -> None:
        """Stop it and its clock, as a paused virtual machine."""
        self._signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)
        self.frozen = False

    def kill(self) -> None:
        """As a power cut: what is in its memory is gone."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.frozen = False

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None or self.process.poll() is not None:
            raise LabError(f"node {self.name} is not running")
        os.kill(self.process.pid, number)


def decoded(text: str | None) -> bytes:
    """Octets of a line's `out` or `err`."""
    return base64.b64decode(text or "")


def modules(target: Path) -> None:
    """A module tree for the nodes' kernel, with an index, at `target`/lib/modules."""
    release = next(path.parent.name for path in MODULES.glob("*/modules.builtin"))
    folder = target / "lib" / "modules" / release
    folder.mkdir(parents=True)
    for entry in (MODULES / release).iterdir():
        keep = not entry.name.startswith("modules.") or entry.name in (
            "modules.builtin", "modules.order", "modules.builtin.modinfo",
        )  # fmt: skip
        if keep:
            (folder / entry.name).symlink_to(entry)
    network.run("depmod", "-b", str(target), release)
