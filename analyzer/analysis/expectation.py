"""What a mount promises, by type of file system, version and options.

The table is data: for each promise and family of file systems whether it holds, within which bound, and
where that is written. What isn't in it is unknown. Bounds of Linux's NFS client are those of nfs(5): cached
attributes of a file are believed for acregmin (3 s) at first and up to acregmax (60 s), those of a
directory from acdirmin (30 s) to acdirmax (60 s); `actimeo` sets all four, `noac` believes none and writes
at once.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from analyzer.analysis.mounts import MountRow


class Level(enum.StrEnum):
    """Whether a mount has a property."""

    PROMISED = "promised"
    BOUNDED = "within a bound"
    NOT_PROMISED = "not promised"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What to expect of one promise on one mount. `bound_ns`: how old data may be, where bounded."""

    level: Level
    why: str
    bound_ns: int = 0


#: Every promise with a short name for tables.
PROMISES: Final = {
    "coherent": "reads see the last write, files open",
    "close-to-open": "open after close sees the data",
    "staleness": "how old data and names may be",
    "lock-exclusion": "locks exclude each other",
    "lock-families": "flock excludes fcntl",
    "lock-refusal": "locks are refused for a reason only",
    "deadlock": "EDEADLK only for a deadlock",
    "lost-update": "no update under a lock is lost",
    "append": "appends of many are all kept",
    "publish": "rename publishes whole and at once",
    "exclusive-create": "one winner of O_EXCL, mkdir, link",
    "readdir": "listings are complete",
    "mmap": "mappings see the last write",
    "torn-write": "no read mixes two writes",
    "durability": "what fsync acknowledged survives",
    "zombie-write": "no write after the lock was lost",
    "checkpoint": "a loaded checkpoint is whole",
    "fairness": "nobody starves for a lock",
    "isolation": "a tenant keeps its speed",
}

_YES, _NO, _BOUND = Level.PROMISED, Level.NOT_PROMISED, Level.BOUNDED
_NFS_CACHE = "NFS clients believe cached attributes for a while (nfs(5), ac*)"
_POSIX = "POSIX: one kernel sees all"

_TABLE: Final[dict[str, dict[str, tuple[Level, str]]]] = {
    "nfs": {
        "coherent": (_NO, "NFS checks at open and flushes at close, and promises nothing between"),
        "close-to-open": (_YES, "RFC 8881 section 10.3.1; nfs(5), close-to-open"),
        "staleness": (_BOUND, _NFS_CACHE),
        "lock-exclusion": (_YES, "RFC 8881 section 9"),
        "lock-families": (_YES, "Linux sends flock as a byte-range lock of the whole file"),
        "lock-refusal": (_YES, "RFC 8881 section 9"),
        "deadlock": (_YES, "fcntl(2)"),
        "lost-update": (_YES, "getting a lock revalidates the cache (nfs(5))"),
        "append": (_NO, "NFS has no append: the client writes where it believes the end to be (open(2))"),
        "publish": (_BOUND, _NFS_CACHE),
        "exclusive-create": (_YES, "RFC 8881 section 18.16 (EXCLUSIVE4_1)"),
        "readdir": (_BOUND, _NFS_CACHE),
        "mmap": (_NO, "mappings are coherent within one client only"),
        "torn-write": (_NO, "a write is split at wsize, and nothing joins the parts"),
        "durability": (_YES, "RFC 8881 section 18.3 (COMMIT)"),
        "zombie-write": (_YES, "writes carry the lock's stateid (RFC 8881 section 9.1)"),
        "checkpoint": (_BOUND, _NFS_CACHE),
        "fairness": (Level.UNKNOWN, "no standard orders waiters"),
        "isolation": (Level.UNKNOWN, "no standard shares bandwidth"),
    },
    "cephfs": {
        "coherent": (_YES, "capabilities: with mixed readers and writers I/O is synchronous"),
        "close-to-open": (_YES, "stronger: coherent"),
        "staleness": (_BOUND, "capabilities: cached data is recalled before it changes"),
        "lock-exclusion": (_YES, "the MDS keeps the locks"),
        "lock-families": (_NO, "flock and fcntl are kept apart"),
        "lock-refusal": (_YES, "the MDS keeps the locks"),
        "deadlock": (_YES, "fcntl(2)"),
        "lost-update": (_YES, "coherent"),
        "append": (_YES, "the writer needs the exclusive size capability"),
        "publish": (_YES, "rename is one transaction of the MDS"),
        "exclusive-create": (_YES, "one transaction of the MDS"),
        "readdir": (_YES, "dentry leases are recalled"),
        "mmap": (_NO, "shared mappings are not coherent over hosts (CephFS, differences from POSIX)"),
        "torn-write": (_NO, "writes across an object's boundary may mix (differences from POSIX)"),
        "durability": (_YES, "fsync waits for the OSDs"),
        "zombie-write": (_YES, "an evicted client is blocklisted at the OSDs"),
        "checkpoint": (_YES, "coherent"),
        "fairness": (_YES, "the MDS queues waiters"),
        "isolation": (Level.UNKNOWN, "QoS of the OSDs knows no tenants of a file system"),
    },
    "local": dict.fromkeys(PROMISES, (_YES, _POSIX)),
}
_TABLE["ceph-fuse"] = _TABLE["cephfs"]
_TABLE["local"]["torn-write"] = (_NO, "most local file systems don't make large writes atomic")
_TABLE["local"]["lock-families"] = (_NO, "Linux keeps flock and fcntl apart on local file systems")
_TABLE["local"]["isolation"] = (Level.UNKNOWN, "that is the kernel's scheduler's and the device's")
_TABLE["local"]["staleness"] = (_BOUND, _POSIX)

#: How late a change may be seen beside any cache: round trips and scheduling, not a promise of anybody.
ROUND_TRIP_NS: Final = 1_000_000_000
_S: Final = 1_000_000_000
_BY_CACHE: Final = frozenset({"staleness", "publish", "readdir", "checkpoint"})


def attribute_bound_ns(mount: MountRow, directory: bool) -> int:
    """How long an NFS client may believe cached attributes, in ns (nfs(5))."""
    if mount.option("noac") is not None:
        return 0
    own = mount.option("acdirmax" if directory else "acregmax")
    return int(float(own) * _S) if own and own.replace(".", "", 1).isdigit() else 60 * _S


def expectation(mount: MountRow, promise: str) -> Expectation:
    """What this mount promises; unknown for other file systems and promises that nobody wrote down."""
    level, why = _TABLE.get(mount.family, {}).get(promise, (Level.UNKNOWN, "nobody promises it"))
    if mount.family != "nfs":
        return Expectation(level, why)
    locks = promise in ("lock-exclusion", "lost-update", "lock-families", "zombie-write")
    if locks and (kept := mount.option("local_lock")) in ("all", "flock", "posix"):
        return Expectation(Level.NOT_PROMISED, f"local_lock={kept} keeps locks on the node (nfs(5))")
    if locks and mount.option("nolock") is not None:
        return Expectation(Level.NOT_PROMISED, "nolock keeps locks on the node (nfs(5))")
    if promise == "close-to-open" and mount.option("nocto") is not None:
        return Expectation(Level.NOT_PROMISED, "nocto skips the check at open (nfs(5))")
    if promise == "zombie-write" and mount.version.startswith("3"):
        return Expectation(Level.NOT_PROMISED, "NFSv3 writes carry no lock")
    if promise == "coherent" and mount.option("noac") is not None:
        return Expectation(Level.NOT_PROMISED, "noac narrows the window, and closes it for no reader")
    if promise in _BY_CACHE:
        bound = attribute_bound_ns(mount, directory=promise != "staleness")
        return Expectation(level, why, bound)
    return Expectation(level, why)


_RANK: Final = {Level.PROMISED: 0, Level.BOUNDED: 1, Level.NOT_PROMISED: 2, Level.UNKNOWN: 3}


def weakest(mounts: Sequence[MountRow], promise: str) -> Expectation:
    """What all of the mounts together promise: as much as the one that promises least."""
    if not mounts:
        return Expectation(Level.UNKNOWN, "the mount isn't known")
    each = [expectation(mount, promise) for mount in mounts]
    return max(each, key=lambda e: (_RANK[e.level], e.bound_ns))
