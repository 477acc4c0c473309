"""What the machine must have for a lab, and what to do where it doesn't."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from analyzer.core.errors import InputError

#: Program → Debian package.
PACKAGES: Final = {
    "linux.uml": "user-mode-linux",
    "ip": "iproute2",
    "depmod": "kmod",
    "dumpcap": "wireshark-common",
    "mkfs.ext4": "e2fsprogs",
    "unshare": "util-linux",
    "rpc.nfsd": "nfs-kernel-server",
    "mount.nfs4": "nfs-common",
    "ceph-mon": "ceph-mon",
    "ceph-osd": "ceph-osd",
    "ceph-mds": "ceph-mds",
    "ceph-fuse": "ceph-fuse",
    "ceph": "ceph-common python3-rados",
    "ganesha.nfsd": "nfs-ganesha nfs-ganesha-vfs",
}
MODULES: Final = Path("/usr/lib/uml/modules")
_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin"
_SPACE_MB: Final = 400


class LabError(InputError):
    """A lab can't be had or used; the message says what to do."""


def program(name: str) -> str:
    """Where a program is, sbin folders included. Raises `LabError` with the package to install."""
    found = _which(name)
    if found is None:
        raise LabError(_missing([name]))
    return found


def _which(name: str) -> str | None:
    if name == "ganesha.nfsd" and not any(Path("/usr/lib").glob("*/ganesha/libfsalvfs.so")):
        return None  # the server is there, and can't serve a file system
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")


def check(programs: Iterable[str], state: Path) -> None:
    """Raises `LabError` if a lab that needs these programs can't be had on this machine."""
    if sys.platform != "linux":
        raise LabError(
            "a lab needs Linux; `storage-analyzer capture captures/` shows the analysis without one"
        )
    if os.geteuid() != 0:
        raise LabError(
            "a lab needs root, for network and mount namespaces of its own: sudo storage-analyzer lab ..."
        )
    missing = [name for name in programs if _which(name) is None]
    if missing:
        raise LabError(_missing(missing))
    if not Path("/dev/net/tun").exists():
        raise LabError("/dev/net/tun isn't there: modprobe tun (in a container: --device /dev/net/tun)")
    if not any(MODULES.glob("*/modules.builtin")):
        raise LabError(f"no kernel modules in {MODULES}: apt-get install --reinstall user-mode-linux")
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    free_mb = shutil.disk_usage(state).free >> 20
    if free_mb < _SPACE_MB:
        raise LabError(
            f"{free_mb} MB free at {state}, a lab needs {_SPACE_MB}: make room, or set"
            " STORAGE_ANALYZER_LABS to a folder that has it"
        )


def _missing(programs: list[str]) -> str:
    packages = " ".join(sorted({PACKAGES.get(name, name) for name in programs}))
    return f"missing {', '.join(programs)}: sudo apt-get install -y {packages}"
