"""Labs as the command line and the tests use them."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from analyzer.lab import ray_cluster
from analyzer.lab.host import LabError, check, program
from analyzer.lab.options import CephOptions, NfsOptions, Options, checked_name
from analyzer.lab.state import State, every

_DOWN_S: Final = 20.0
_COMMON: Final = ("linux.uml", "ip", "depmod", "unshare")
_SERVERS: Final = {
    "knfsd": ("rpc.nfsd", "mount.nfs4", "mkfs.ext4"),
    "ganesha": ("ganesha.nfsd", "mount.nfs4", "mkfs.ext4"),
}
_CEPH: Final = ("ceph-mon", "ceph-osd", "ceph-mds", "ceph")

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended. `stuck`: not even SIGKILL ended it, it hangs in the kernel."""

    exit_code: int
    out: bytes
    err: bytes
    timed_out: bool = False
    stuck: bool = False

    @property
    def text(self) -> str:
        """What it printed."""
        return self.out.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a lab, by name; `host` is the lab's own side."""

    lab: Lab
    name: str

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float = 60.0,
        text: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
    ) -> Done:
        """Run a command in the node. Raises `LabError` if the node can't, or if `check` and it failed."""
        out, err = bytearray(), bytearray()
        last: Line = {}
        for line in self.stream(argv, timeout_s=timeout_s, text=text, env=env, cwd=cwd):
            out += base64.b64decode(line.get("out", ""))
            err += base64.b64decode(line.get("err", ""))
            last = line
        done = Done(int(last["exit"]), bytes(out), bytes(err), last["timed_out"], last["stuck"])
        if check and done.exit_code:
            said = done.err.decode("utf-8", "replace").strip()
            raise LabError(
                f"{self.name}: {' '.join(argv)}: exit code {done.exit_code}{': ' + said if said else ''}"
            )
        return done

    def stream(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        text: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
    ) -> Iterator[Line]:
        """As `run`, line by line as agent.py tells it; the last one has `exit`, `timed_out`, `stuck`."""
        request = {"do": "run", "node": self.name, "argv": list(argv), "timeout_s": timeout_s, "cwd": cwd}
        request |= {"input": base64.b64encode(text).decode("ascii"), "env": dict(env or {})}
        for line in self.lab.ask(request, timeout_s + 30):
            yield {"timed_out": False, "stuck": False, **line} if "exit" in line else line


class Lab:
    """A lab. As a context manager it comes up, and goes down with this process, however that ends:

    with Lab("test", NfsOptions(clients=2)) as lab:
        lab.node("client1").run(["touch", "/nfs/f"])
        lab.fault("client1", "freeze")
    """

    def __init__(self, name: str, options: Options | None = None) -> None:
        self.state = State.of(checked_name(name))
        self.options: Options = options or NfsOptions()
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None

    @property
    def name(self) -> str:
        """Of the lab."""
        return self.state.name

    @property
    def share(self) -> Path:
        """A folder that the host and all nodes see under this path; no storage under test."""
        return self.state.share

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(self, say: Callable[[str], None] = lambda _: None, detach: bool = False) -> None:
        """Bring it up; with `detach` it outlives this process. Raises `LabError`, leaving nothing."""
        check(needed(self.options), self.state.folder.parent)
        if self.options.ray:
            ray_cluster.command()
        lock = self._take()
        try:
            with lock:
                self._start(lock)
            self._await_socket()
            for line in self.ask({"do": "await"}, 300):
                if "phase" in line:
                    say(line["phase"])
            if detach:
                list(self.ask({"do": "keep"}, 10))
        except BaseException:
            self._kill()
            raise

    def _take(self) -> IO[bytes]:
        """Make the folder, and lock it: the lock goes on to the supervisor."""
        if self.state.exists():
            if self.state.alive():
                raise LabError(
                    f"lab {self.name} is already up: `storage-analyzer lab down {self.name}` ends it,"
                    " --name gives another name"
                )
            self.state.remove()  # what a killed lab left
        self.state.folder.mkdir(parents=True, mode=0o700)
        lock = (self.state.folder / "lock").open("wb")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock

    def _start(self, lock: IO[bytes]) -> None:
        facts = dataclasses.asdict(self.options)
        if self.options.capture is not None:
            target = self.options.capture.resolve()
            if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
                raise LabError(
                    f"{target.parent} is no folder that can be written to: choose another --capture FILE"
                )
            facts["capture"] = str(target)
        kind = "cephfs" if isinstance(self.options, CephOptions) else "nfs"
        self.state.write({"name": self.name, "kind": kind, "options": facts})
        read_end, self._lifeline = os.pipe()
        os.set_inheritable(read_end, True)
        with self.state.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program("unshare"),
                    *(
                        "--net",
                        "--mount",
                        "--pid",
                        "--ipc",
                        "--uts",
                        "--fork",
                        "--kill-child",
                        "--mount-proc",
                    ),
                    *(
                        sys.executable,
                        "-m",
                        "analyzer.lab.supervisor",
                        str(self.state.folder),
                        str(read_end),
                    ),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[2],
                pass_fds=(read_end, lock.fileno()),
                start_new_session=True,
            )
        os.close(read_end)
        self.state.write({**self.state.read(), "pid": self._process.pid})

    def _await_socket(self) -> None:
        assert self._process is not None
        end = time.monotonic() + 30
        while not self.state.control.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                raise LabError(f"the lab did not start: {_last_line(self.state.log)}")
            time.sleep(0.02)

    def ask(self, request: Line, timeout_s: float) -> Iterator[Line]:
        """A request to the supervisor, and its answer line by line. Raises `LabError` if it is an error."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(timeout_s)
                connection.connect(str(self.state.control))
                connection.sendall(json.dumps(request).encode() + b"\n")
                last: Line = {}
                with connection.makefile("rb") as lines:
                    for text in lines:
                        last = json.loads(text)
                        if "error" in last:
                            raise LabError(last["error"])
                        yield last
        except (ConnectionError, FileNotFoundError):
            raise LabError(self._gone()) from None
        except TimeoutError:
            raise LabError(f"lab {self.name} did not answer in {timeout_s:.0f} s") from None
        if "exit" not in last:
            raise LabError(self._gone())

    def _gone(self) -> str:
        if not self.state.exists():
            return f"no lab is named {self.name}: `storage-analyzer lab status` lists them"
        said = _last_line(self.state.log)
        return f"lab {self.name} has ended ({said}): `storage-analyzer lab down {self.name}` tidies up"

    def node(self, name: str) -> Node:
        """A machine by name: server, client1 ..., or host."""
        return Node(self, name)

    def fault(self, node: str, what: str, amount: float | None = None) -> None:
        """Hurt a node or mend it: see `cluster.NODE_FAULTS`. Raises `LabError`."""
        list(self.ask({"do": "fault", "node": node, "what": what, "amount": amount}, 120))

    def status(self) -> dict[str, Any]:
        """What is known of it: options, nodes, clocks. Raises `LabError` if it has ended."""
        (line,) = self.ask({"do": "status"}, 60)
        found: dict[str, Any] = line["status"]
        return found

    def down(self) -> None:
        """Take it down, whatever state it is in; nothing of it is left."""
        if not self.state.exists():
            return
        if self.state.alive():
            with contextlib.suppress(LabError):
                list(self.ask({"do": "down"}, _DOWN_S))
        self._kill()

    def _kill(self) -> None:
        """End the supervisor, and with it everything; then remove the folder."""
        pid = self.state.read().get("pid") if self._process is None else self._process.pid
        if self.state.alive() and isinstance(pid, int) and _is_lab(pid, self.state):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        end = time.monotonic() + _DOWN_S
        while self.state.alive():
            if time.monotonic() > end:
                raise LabError(f"lab {self.name} can't be ended: see {self.state.log}")
            time.sleep(0.02)
        self.state.remove()


def needed(options: Options) -> list[str]:
    """Programs that a lab of this kind needs."""
    own: tuple[str, ...]
    if isinstance(options, CephOptions):
        own = (*_CEPH, "ceph-fuse") if options.client == "fuse" else _CEPH
    else:
        own = _SERVERS[options.server]
    return [*_COMMON, *own, *(["dumpcap"] if options.capture else [])]


def running() -> list[Lab]:
    """All labs that live."""
    return [Lab(state.name) for state in every() if state.alive()]


def remains() -> list[State]:
    """What labs left that were killed: folders without a process."""
    return [state for state in every() if not state.alive()]


def _is_lab(pid: int, state: State) -> bool:
    """Whether a process is this lab's: its number may have been given to another."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return str(state.folder).encode() in words


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it said nothing"


__all__ = ["Done", "Lab", "LabError", "Node", "remains", "running"]
