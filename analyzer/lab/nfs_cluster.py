"""An NFS cluster: one server node, several client nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial

from analyzer.lab import nfs
from analyzer.lab.cluster import Machine, Say, hurt, no_fault, together
from analyzer.lab.host import LabError
from analyzer.lab.node import UmlNode
from analyzer.lab.options import NfsOptions
from analyzer.lab.state import State


class NfsCluster:
    """`server` and `client1` ... `clientN`, the latter with the export mounted at /nfs."""

    mount = nfs.MOUNT

    def __init__(self, options: NfsOptions, state: State) -> None:
        self._options = options
        self._server = UmlNode("server", 1, state, max(512, options.memory_mb), nfs.DISK_MB)
        self._clients = [
            UmlNode(f"client{n}", n + 1, state, options.node_memory_mb)
            for n in range(1, options.clients + 1)
        ]

    @property
    def machines(self) -> Mapping[str, Machine]:
        """By name."""
        return {node.name: node for node in (self._server, *self._clients)}

    def up(self, say: Say) -> None:
        """Boot all, start the service, mount."""
        nodes = [self._server, *self._clients]
        say(f"booting {len(nodes)} nodes")
        for node in nodes:
            node.cable.plug()
            node.boot()
        together([self._serve, *(partial(self._ready, node) for node in self._clients)])
        say(f"{self._options.server} serves {self._server.address}, mounting")
        together([partial(self._mount, node) for node in self._clients])

    def _serve(self) -> None:
        self._server.await_agent()
        nfs.server_setup(self._server, self._options)
        nfs.server_start(self._server, self._options)

    def _ready(self, node: UmlNode) -> None:
        node.await_agent()
        nfs.client_setup(node)

    def _mount(self, node: UmlNode) -> None:
        nfs.client_mount(node, self._server.address, self._options)

    def fault(self, name: str, what: str, amount: float | None) -> None:
        """See `cluster.NODE_FAULTS`; for the server also restart and stop of the service alone."""
        node = next((n for n in (self._server, *self._clients) if n.name == name), None)
        if node is None:
            raise LabError(f"no node {name!r}: there are {', '.join(self.machines)}")
        if what == "start":
            self._start(node)
        elif node is self._server and what in ("restart", "stop"):
            nfs.server_stop(node, self._options)
            if what == "restart":
                nfs.server_start(node, self._options)
        elif not hurt(node, what, amount):
            raise no_fault(what, name, ("restart", "stop") if node is self._server else ())

    def _start(self, node: UmlNode) -> None:
        """Boot a node that was killed; a server that only stopped gets its service back."""
        if node.alive and node is not self._server:
            raise LabError(f"node {node.name} runs")
        booting = not node.alive
        if booting:
            node.boot()
        if node is not self._server:
            self._ready(node)
            self._mount(node)
        elif booting:
            self._serve()
        else:
            nfs.server_start(node, self._options)

    def down(self) -> None:
        """Unmount where the node can."""

        def leave(node: UmlNode) -> None:
            if node.alive and not node.frozen and not node.cut:
                with contextlib.suppress(LabError):
                    nfs.client_unmount(node)

        if self._server.alive and not self._server.frozen:
            together([partial(leave, node) for node in self._clients])
