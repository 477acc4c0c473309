"""Monitor commands for the lab's Ceph, over one connection: run by the system's Python, which has rados.

    python3 -I ceph_admin.py CONF init OSD-UUID     registers the OSD, makes pools and the file system
    python3 -I ceph_admin.py CONF active [GID]      waits until a metadata server is active, and not the one
                                                    with this number; prints its number
    python3 -I ceph_admin.py CONF mon JSON          one monitor command, its answer on standard output

Each `ceph` command would cost 0.2 s of start and a connection of its own.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import rados  # of the package python3-rados, for the system's Python alone

_PATIENCE_S = 30.0


def main() -> None:
    """See above; an error is one line on standard error and exit code 1."""
    conf, what, *rest = sys.argv[1:]
    try:
        with rados.Rados(conffile=conf, rados_id="admin") as cluster:
            if what == "init":
                initialise(cluster, rest[0])
            elif what == "active":
                print(wait_active(cluster, rest))
            else:
                sys.stdout.write(command(cluster, **json.loads(rest[0])))
    except (rados.Error, RuntimeError) as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None


def command(cluster: Any, **words: Any) -> str:
    """One monitor command. Raises `RuntimeError` with what the monitor said."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        code, out, said = cluster.mon_command(json.dumps({"format": "json", **words}), b"")
        # a connection that doesn't know the cluster's map yet: it will in a moment
        if "wrong fsid" not in said or time.monotonic() > end:
            break
        time.sleep(0.05)
    if code:
        raise RuntimeError(f"{words.get('prefix')}: {said or code}")
    return str(out.decode("utf-8", "replace"))


def initialise(cluster: Any, osd: str) -> None:
    """Everything between a monitor that answers and daemons that can start."""
    command(cluster, prefix="osd new", uuid=osd)
    for pool in ("meta", "data"):
        command(cluster, prefix="osd pool create", pool=pool, pg_num=8)
    command(cluster, prefix="fs new", fs_name="cephfs", metadata="meta", data="data")


def wait_active(cluster: Any, gone: list[str]) -> str:
    """Until a metadata server is active that isn't one of `gone`; its number."""
    end = time.monotonic() + _PATIENCE_S
    state = "none"
    while time.monotonic() < end:
        found = json.loads(command(cluster, prefix="fs dump"))
        ranks = [info for fs in found["filesystems"] for info in fs["mdsmap"]["info"].values()]
        state = ", ".join(info["state"] for info in ranks) or "none"
        for info in ranks:
            if info["state"] == "up:active" and str(info["gid"]) not in gone:
                return str(info["gid"])
        time.sleep(0.05)
    raise RuntimeError(f"no metadata server was active after {_PATIENCE_S:.0f} s: {state}")


if __name__ == "__main__":
    main()
