"""Ray in a lab: a head beside the nodes, a worker in each client, all on the control network.

Only Ray's own command is used: the workload package is the one that imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from analyzer.lab import network
from analyzer.lab.cluster import together
from analyzer.lab.host import LabError
from analyzer.lab.node import UmlNode
from analyzer.lab.state import State

PORT: Final = 6379
_START_S: Final = 180
_QUIET: Final = "RAY_USAGE_STATS_ENABLED=0 RAY_DISABLE_DOCKER_CPU_WARNING=1 RAY_memory_monitor_refresh_ms=0"


def command() -> Path:
    """`ray`, beside the interpreter. Raises `LabError` where it isn't installed."""
    found = Path(sys.executable).with_name("ray")
    if not found.exists():
        raise LabError("Ray isn't installed: pip install 'storage-analyzer[workload]'")
    return found


def start(state: State, nodes: Sequence[UmlNode]) -> dict[str, Any]:
    """Head and workers; each client node has a resource of its own name. Returns how to reach it."""
    ray = command()
    address = network.control_address(network.HOST)
    folder = state.folder / "ray"
    common = "--disable-usage-stats --object-store-memory=80000000"
    network.run(
        "/bin/sh",
        "-ec",
        f"export {_QUIET}; exec {ray} start --head --node-ip-address={address} --port={PORT} --num-cpus=1 "
        f"--include-dashboard=false --temp-dir={folder} {common} </dev/null >{state.folder}/ray.log 2>&1",
    )

    def join(node: UmlNode) -> None:
        node.run(
            # Ray's sockets: a worker looks for them where the head has them, and hostfs can't hold any
            f"mkdir -p {folder}; mount -t tmpfs ray {folder}; "
            f"export {_QUIET}; {ray} start --address={address}:{PORT} --node-ip-address={node.control} "
            f"--num-cpus=8 --resources='{{\"{node.name}\": 64}}' {common} </dev/null >/tmp/ray.log 2>&1 "
            "|| { tail -5 /tmp/ray.log >&2; exit 1; }",
            timeout_s=_START_S,
        )

    together([partial(join, node) for node in nodes if node.name != "server"])
    return {"address": f"{address}:{PORT}", "resources": [n.name for n in nodes if n.name != "server"]}
