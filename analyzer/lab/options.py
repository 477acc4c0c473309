"""What a lab is to be like."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from analyzer.core.errors import InputError

MAX_CLIENTS: Final = 16
SERVERS: Final = ("knfsd", "ganesha")
VERSIONS: Final = ("4.0", "4.1", "4.2")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
#: Characters of mount and export options; anything else could end the option.
_SETTING = re.compile(r"[a-z_0-9]+ ?= ?[A-Za-z0-9_.:/-]+")
_OPTIONS = re.compile(r"[A-Za-z0-9_=.,:/-]*")


@dataclass(frozen=True, slots=True)
class NfsOptions:
    """An NFS lab: one server and `clients` clients that mount it at /nfs.

    `lease_s` and `grace_s`: the server's. `exports` is sync or async, `delegations` whether the server
    gives any, `version` the newest one that clients ask for. `mount_options` are added to the clients'
    mounts (`actimeo=0`, `noac`, `nocto`, `lookupcache=none`, `soft,timeo=20` ...). `capture`: a pcapng file
    to write. `memory_mb` of each node; `ray` starts a Ray head beside the nodes, a worker in each client.
    """

    clients: int = 2
    server: str = "knfsd"
    version: str = "4.1"
    lease_s: int = 10
    grace_s: int = 10
    exports: str = "sync"
    delegations: bool = True
    mount_options: str = ""
    capture: Path | None = None
    ray: bool = False
    memory_mb: int = 0  # 0: 512, with Ray 1500

    def __post_init__(self) -> None:
        """Raises `InputError` for what can't be had."""
        if not 1 <= self.clients <= MAX_CLIENTS:
            raise InputError(f"{self.clients} clients: a lab has 1 to {MAX_CLIENTS}")
        _one_of("server", self.server, SERVERS)
        _one_of("version", self.version, VERSIONS)
        _one_of("exports", self.exports, ("sync", "async"))
        for name, value in (("lease", self.lease_s), ("grace", self.grace_s)):
            if not 1 <= value <= 3600:
                raise InputError(f"{name} {value}: use 1 to 3600 seconds")
        if not _OPTIONS.fullmatch(self.mount_options):
            raise InputError(f"mount options {self.mount_options!r}: use words such as noac,actimeo=3")

    @property
    def node_memory_mb(self) -> int:
        """Memory of a node."""
        return self.memory_mb or (1500 if self.ray else 512)


@dataclass(frozen=True, slots=True)
class CephOptions:
    """A CephFS lab: monitor, OSD and metadata server, and `clients` clients that mount it at /cephfs.

    `client` is kernel or fuse, `messenger` v1 or v2 (crc mode). `session_timeout_s`: seconds of silence
    after which a client's capabilities are stale (30 is the least that Ceph takes). `blocklist`: whether a
    client that is evicted is shut out by the OSDs too. `mount_options` are added to kernel mounts
    (`recover_session=clean` ...), `client_settings` are lines of ceph.conf for ceph-fuse
    (`fuse_disable_pagecache = true` ...). `capture`, `ray`, `memory_mb`: as `NfsOptions`.
    """

    clients: int = 2
    client: str = "fuse"
    messenger: str = "v2"
    session_timeout_s: int = 60
    blocklist: bool = True
    mount_options: str = ""
    client_settings: tuple[str, ...] = ()
    capture: Path | None = None
    ray: bool = False
    memory_mb: int = 0

    def __post_init__(self) -> None:
        """Raises `InputError` for what can't be had."""
        if not 1 <= self.clients <= MAX_CLIENTS:
            raise InputError(f"{self.clients} clients: a lab has 1 to {MAX_CLIENTS}")
        _one_of("client", self.client, ("fuse", "kernel"))
        _one_of("messenger", self.messenger, ("v1", "v2"))
        if not 30 <= self.session_timeout_s <= 3600:
            raise InputError(f"session timeout {self.session_timeout_s}: use 30 to 3600 seconds")
        if not _OPTIONS.fullmatch(self.mount_options):
            raise InputError(
                f"mount options {self.mount_options!r}: use words such as recover_session=clean"
            )
        for line in self.client_settings:
            if not _SETTING.fullmatch(line):
                raise InputError(f"client setting {line!r}: use NAME = VALUE, as in ceph.conf")

    @property
    def node_memory_mb(self) -> int:
        """Memory of a node."""
        return self.memory_mb or (1500 if self.ray else 640)


Options = NfsOptions | CephOptions


def checked_name(name: str) -> str:
    """The name of a lab. Raises `InputError` if it can't be one."""
    if not _NAME.fullmatch(name):
        raise InputError(f"lab name {name!r}: use up to 31 letters a-z, digits and -, such as nfs-2")
    return name


def _one_of(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{what} {value!r}: use {', '.join(known)}")
