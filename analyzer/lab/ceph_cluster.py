"""A CephFS cluster: the daemons beside the nodes, at the server's address, and client nodes.

Both kinds of clients run in nodes: the kernel's, and ceph-fuse. So both can be frozen, cut off and killed
alike, have a clock and a host name of their own, and none names this machine.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from analyzer.lab import agent, network
from analyzer.lab.ceph_daemons import ADDRESS, PORTS, CephDaemons
from analyzer.lab.cluster import Machine, Say, hurt, no_fault, together
from analyzer.lab.host import LabError
from analyzer.lab.node import Send, UmlNode
from analyzer.lab.options import CephOptions
from analyzer.lab.state import State

MOUNT: Final = "/cephfs"
_MDS: Final = "mds.a"


@dataclass(slots=True)
class CephServer:
    """The daemons as one machine; commands run beside them, with CEPH_CONF set."""

    daemons: CephDaemons
    name: str = "server"
    frozen: bool = False
    cut: bool = False

    @property
    def address(self) -> str:
        """On the storage network."""
        return ADDRESS

    @property
    def alive(self) -> bool:
        """Whether the metadata server runs."""
        return self.daemons.alive(_MDS)

    def ask(self, request: dict[str, Any], send: Send) -> None:
        """Run a command, or tell the clock."""
        env = {"CEPH_CONF": str(self.daemons.conf), **request.get("env", {})}
        agent.answer({**request, "env": env}, send)


class CephCluster:
    """`server` and `client1` ... `clientN`, the latter with the file system mounted at /cephfs."""

    mount = MOUNT

    def __init__(self, options: CephOptions, state: State) -> None:
        self._options = options
        self._daemons = CephDaemons(state.folder / "ceph", options)
        self._server = CephServer(self._daemons)
        self._clients = [
            UmlNode(f"client{n}", n + 1, state, options.node_memory_mb)
            for n in range(1, options.clients + 1)
        ]

    @property
    def machines(self) -> Mapping[str, Machine]:
        """By name."""
        every: list[Machine] = [self._server, *self._clients]
        return {machine.name: machine for machine in every}

    def up(self, say: Say) -> None:
        """Start the daemons, boot the clients, mount."""
        say(f"starting Ceph and {len(self._clients)} nodes")
        network.run("ip", "addr", "add", f"{ADDRESS}/24", "dev", network.STORAGE)
        for node in self._clients:
            node.cable.plug()
            node.boot()
        together([self._daemons.up, *(partial(self._ready, node) for node in self._clients)])
        say(f"the metadata server is active, mounting ({self._options.client})")
        together([partial(self._mount, node) for node in self._clients])

    def _ready(self, node: UmlNode) -> None:
        node.await_agent()
        module = "ceph" if self._options.client == "kernel" else "fuse"
        node.run(f'modprobe -d "$LAB_STATE/modules" {module}; mkdir -p {MOUNT}')

    def _mount(self, node: UmlNode) -> None:
        if self._options.client == "fuse":
            node.run(f"ceph-fuse -c {self._daemons.client_conf} {MOUNT}")
            return
        mode = "legacy" if self._options.messenger == "v1" else "crc"
        words = ["name=admin", f"ms_mode={mode}"]
        words += [self._options.mount_options] if self._options.mount_options else []
        port = PORTS[self._options.messenger]
        node.run(f"mount -i -t ceph {ADDRESS}:{port}:/ {MOUNT} -o {','.join(words)}")

    def fault(self, name: str, what: str, amount: float | None) -> None:
        """Faults of nodes; of a client also `evict`; of the server (its MDS) restart, stop, kill, start."""
        if name == self._server.name:
            self._fault_server(what)
            return
        node = next((n for n in self._clients if n.name == name), None)
        if node is None:
            raise LabError(f"no node {name!r}: there are {', '.join(self.machines)}")
        if what == "evict":
            self._evict(name)
        elif what == "start":
            if node.alive:
                raise LabError(f"node {name} runs")
            node.boot()
            self._ready(node)
            self._mount(node)
        elif not hurt(node, what, amount):
            raise no_fault(what, name, ("evict",))

    def _fault_server(self, what: str) -> None:
        before = self._daemons.admin("active") if self._server.alive else ""
        if what in ("restart", "stop", "kill"):
            self._daemons.stop(_MDS, signal.SIGTERM if what == "stop" else signal.SIGKILL)
        elif what != "start":
            raise LabError(
                f"no fault {what!r} for server: restart, stop, kill and start are those of its MDS"
            )
        if what in ("restart", "start"):
            if self._daemons.alive(_MDS):
                raise LabError("the metadata server runs")
            self._daemons.start(_MDS)
            self._daemons.admin("active", *before.split())

    def _evict(self, name: str) -> None:
        """Evict the session of a client, by its host name."""
        sessions = self._daemons.mds("session", "ls")
        found = [s["id"] for s in sessions if s["client_metadata"].get("hostname") == name]
        if not found:
            raise LabError(f"{name} has no session at the metadata server")
        for ident in found:
            self._daemons.mds("session", "evict", str(ident))

    def down(self) -> None:
        """Unmount where the node can."""

        def leave(node: UmlNode) -> None:
            if node.alive and not node.frozen and not node.cut:
                with contextlib.suppress(LabError):
                    node.run(f"umount {MOUNT} || umount -l {MOUNT}", timeout_s=5)

        if self._server.alive:
            together([partial(leave, node) for node in self._clients])
