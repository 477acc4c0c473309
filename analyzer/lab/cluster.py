"""What a storage cluster in a lab must offer the supervisor; `nfs_cluster.py` and the like are such."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from analyzer.lab.host import LabError
from analyzer.lab.node import Send, UmlNode

Say = Callable[[str], None]

#: Faults of any node, and what they take.
NODE_FAULTS = ("freeze", "thaw", "kill", "start", "partition", "heal", "delay MS", "loss PCT")


class Machine(Protocol):
    """Something in the lab that runs commands and can be hurt."""

    name: str

    @property
    def address(self) -> str:
        """On the storage network."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""

    frozen: bool
    cut: bool

    def ask(self, request: dict[str, Any], send: Send) -> None:
        """Run a command, or tell the clock."""


class Cluster(Protocol):
    """A storage cluster with its clients."""

    @property
    def machines(self) -> Mapping[str, Machine]:
        """By name."""

    @property
    def mount(self) -> str:
        """Where clients have it mounted."""

    def up(self, say: Say) -> None:
        """From nothing to mounted. Raises `LabError`."""

    def fault(self, name: str, what: str, amount: float | None) -> None:
        """Hurt a machine, or mend it. Raises `LabError` for what there is not."""

    def down(self) -> None:
        """Unmount what can be unmounted in a few seconds; whatever is left dies with the supervisor."""


def together(jobs: Sequence[Callable[[], None]]) -> None:
    """Run them side by side; the first error is raised when all have ended."""
    if not jobs:
        return
    with ThreadPoolExecutor(len(jobs)) as pool:
        for future in [pool.submit(job) for job in jobs]:
            future.result()


def hurt(node: UmlNode, what: str, amount: float | None) -> bool:
    """The faults that any node knows; False if it isn't one of them."""
    if what == "freeze":
        node.freeze()
    elif what == "thaw":
        node.thaw()
    elif what == "kill":
        node.kill()
    elif what == "partition":
        node.cable.cut()
        node.cut = True
    elif what == "heal":
        node.cable.mend()
        node.cut = False
        if node.alive and not node.frozen:
            _shape(node, "")
    elif what in ("delay", "loss"):
        if amount is None or amount < 0 or (what == "loss" and amount > 100):
            unit = "milliseconds" if what == "delay" else "percent, 0 to 100"
            raise LabError(f"{what} needs an amount in {unit}")
        _shape(node, f"delay {amount}ms" if what == "delay" else f"loss {amount}%")
    else:
        return False
    return True


def no_fault(what: str, name: str, own: Sequence[str]) -> LabError:
    """The error for a fault that there isn't; `own` are those that this machine has beside the usual."""
    return LabError(f"no fault {what!r} for {name}: there are {', '.join([*NODE_FAULTS, *own])}")


def _shape(node: UmlNode, netem: str) -> None:
    """What a node sends on the storage network is delayed or lost from now on."""
    node.run(
        'modprobe -d "$LAB_STATE/modules" sch_netem; '
        + (
            f"tc qdisc replace dev vec0 root netem limit 100000 {netem}"
            if netem
            else "tc qdisc del dev vec0 root 2>/dev/null || true"
        )
    )
