"""The networks of a lab, inside its own network namespace.

`br0`, 10.99.0.0/24, carries storage traffic: its capture is the third witness. `ctl0`, 10.98.0.0/24,
carries everything else (commands, Ray), so that the capture holds nothing but storage. The addresses mean
something in the lab's namespace only: two labs use the same ones and never meet.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Final

from analyzer.lab.host import LabError, program

STORAGE: Final = "br0"
CONTROL: Final = "ctl0"
HOST: Final = 254


def storage_address(number: int) -> str:
    """Address of node `number` (1 is the server) on the storage network."""
    return f"10.99.0.{number}"


def control_address(number: int) -> str:
    """Address of node `number` on the control network."""
    return f"10.98.0.{number}"


def run(*words: str) -> str:
    """Run a command that has to succeed; returns what it printed."""
    done = subprocess.run([program(words[0]), *words[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def make() -> None:
    """Both bridges, with the host's own address on each."""
    run("ip", "link", "set", "lo", "up")
    for bridge, address in ((STORAGE, storage_address(HOST)), (CONTROL, control_address(HOST))):
        run("ip", "link", "add", bridge, "type", "bridge", "stp_state", "0", "forward_delay", "0")
        run("ip", "addr", "add", f"{address}/24", "dev", bridge)
        run("ip", "link", "set", bridge, "up")


@dataclass(frozen=True, slots=True)
class Cable:
    """How node `number` is connected: a tap device on each bridge."""

    number: int

    @property
    def storage(self) -> str:
        """Its tap on the storage network."""
        return f"tap{self.number}"

    @property
    def control(self) -> str:
        """Its tap on the control network."""
        return f"ctl{self.number}"

    def plug(self) -> None:
        """Make both taps."""
        for tap, bridge in ((self.storage, STORAGE), (self.control, CONTROL)):
            run("ip", "tuntap", "add", tap, "mode", "tap")
            run("ip", "link", "set", tap, "master", bridge, "up")

    def cut(self) -> None:
        """Take the node off the storage network. (With the tap down, the node doesn't recover.)"""
        run("ip", "link", "set", self.storage, "nomaster")

    def mend(self) -> None:
        """Put it back."""
        run("ip", "link", "set", self.storage, "master", STORAGE)
