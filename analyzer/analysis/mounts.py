"""What is mounted on the nodes of a run: type, version, options, server."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from analyzer.core.operations import operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables


@dataclass(frozen=True, slots=True)
class MountRow:
    """The mount of one node. `family`: `nfs`, `cephfs`, `ceph-fuse`, `local` or `other`; `version` as in
    the protocol's name (`4.1`), "" if unknown; `options` as the kernel shows them."""

    client: str
    family: str
    fstype: str
    version: str
    server: str
    path: str
    options: str

    def option(self, name: str) -> str | None:
        """The value of an option, "" for one without value, None where it isn't set."""
        for part in self.options.split(","):
            key, _, value = part.partition("=")
            if key == name:
                return value
        return None


_LOCAL = frozenset({"ext4", "ext3", "ext2", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs"})


def family_of(fstype: str) -> str:
    """Which file system a type of /proc/self/mountinfo stands for."""
    if fstype in ("nfs", "nfs4"):
        return "nfs"
    if fstype == "ceph":
        return "cephfs"
    if fstype in ("fuse.ceph-fuse", "fuse.ceph"):
        return "ceph-fuse"
    return "local" if fstype in _LOCAL else "other"


class _Mounts:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(MountRow)
        self._seen: set[str] = set()

    def feed(self, batch: pa.RecordBatch) -> None:
        for row in operations(batch):
            if row.client in self._seen:
                continue
            self._seen.add(row.client)
            fstype = row.value or ""
            mount = MountRow(
                client=row.client or "",
                family=family_of(fstype),
                fstype=fstype,
                version="",
                server=row.endpoint or "",
                path=row.path or "",
                options=row.options or "",
            )
            version = mount.option("vers") or (row.protocol or "").removeprefix("nfs")
            known = version if mount.family == "nfs" else ""
            self._rows.append(
                MountRow(mount.client, mount.family, fstype, known, mount.server, mount.path, mount.options)
            )

    def finish(self) -> None:
        """Nothing is left open."""


FOLD = Fold(
    name="mounts",
    reads=("client", "protocol", "endpoint", "path", "value", "options"),
    produces=(MountRow,),
    start=_Mounts,
    kinds=frozenset({"mount"}),
    witness="client",
)
