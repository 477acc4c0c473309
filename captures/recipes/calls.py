"""The clients' parts: each call is timed and written down by the client that made it.

    python3 calls.py ROLE SCENARIO MOUNT SHARE

Runs in a client node. A scenario is a set of parts; a part is one process of one client. Parts wait for
each other by empty files in SHARE (a folder of the host, no NFS).
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

READ, WRITE, UNLOCK = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN
NAMES = {READ: "read", WRITE: "write", UNLOCK: "unlock"}


class Alarm(Exception):
    """The caller's patience ended."""


def _alarm(number: int, frame: object) -> None:
    raise Alarm


class Part:
    """One process of one client."""

    def __init__(self, who: str, process: str, mount: Path, share: Path) -> None:
        self.who, self.process, self.mount, self.share = who, process, mount, share
        self.random = random.Random(f"{who}/{process}")
        self.lines: list[dict[str, Any]] = []

    def call(self, what: str, action: Callable[[], Any], **facts: Any) -> Any:
        """Times a call and writes it down; returns what it returned, or None if it failed."""
        wall, mono = time.time_ns(), time.monotonic_ns()
        value, result = None, "ok"
        try:
            value = action()
        except Alarm:
            result = "EINTR"
        except OSError as error:
            result = errno.errorcode.get(error.errno or 0, str(error.errno))
        line = {"who": self.who, "process": self.process, "what": what, **facts}
        line |= {"wall_start_ns": wall, "wall_end_ns": time.time_ns()}
        line |= {"mono_start_ns": mono, "mono_end_ns": time.monotonic_ns(), "result": result}
        if isinstance(value, int):
            line["value"] = value
        self.lines.append(line)
        return value if result == "ok" else None

    def open(self, name: str, flags: int = os.O_RDWR | os.O_CREAT) -> int:
        """Opens a file of the mount; `flags` as os.open."""
        fd = self.call("open", lambda: os.open(self.mount / name, flags, 0o644), path=name, flags=flags)
        return -1 if fd is None else int(fd)

    def close(self, fd: int) -> None:
        """Closes it."""
        self.call("close", lambda: os.close(fd), fd=fd)

    def lock(
        self, fd: int, kind: int, offset: int, length: int, wait: bool = True, patience: int = 0
    ) -> bool:
        """fcntl lock on a range: F_SETLKW if `wait`, else F_SETLK; `patience` seconds until SIGALRM."""
        command = kind if wait or kind == UNLOCK else kind | fcntl.LOCK_NB
        before = len(self.lines)
        signal.alarm(patience)
        facts = {"fd": fd, "type": NAMES[kind], "offset": offset, "length": length}
        what = "unlock" if kind == UNLOCK else "lock"
        self.call(what, lambda: fcntl.lockf(fd, command, length, offset), blocking=wait, **facts)
        signal.alarm(0)
        return bool(self.lines[before]["result"] == "ok")

    def write(self, fd: int, data: bytes, offset: int) -> None:
        """Writes (as far as the page cache)."""
        self.call("write", lambda: os.pwrite(fd, data, offset), fd=fd, offset=offset, length=len(data))

    def fsync(self, fd: int) -> None:
        """Flushes."""
        self.call("fsync", lambda: os.fsync(fd), fd=fd)

    def read(self, fd: int, length: int, offset: int) -> bytes:
        """Reads (from the page cache if it may)."""
        facts = {"fd": fd, "offset": offset, "length": length}
        return self.call("read", lambda: os.pread(fd, length, offset), **facts) or b""

    def hold(self, low_ms: int, high_ms: int) -> None:
        """Sleeps for a while between two limits."""
        time.sleep(self.random.randint(low_ms, high_ms) / 1000)

    def mark(self, name: str) -> None:
        """Tells the others."""
        (self.share / name).touch()

    def wait(self, name: str) -> None:
        """Until somebody told."""
        while not (self.share / name).exists():
            time.sleep(0.005)

    def gate(self, name: str, *others: str) -> None:
        """Until all of these parts have come here, `role/process` each."""
        self.mark(f"gate.{name}.{self.who}.{self.process}")
        for other in others:
            self.wait(f"gate.{name}.{other.replace('/', '.')}")

    def finish(self) -> None:
        """Writes down the calls."""
        with (self.share / f"truth.{self.who}.{self.process}.jsonl").open("w") as file:
            file.writelines(json.dumps(line) + "\n" for line in self.lines)
            file.flush()
            os.fsync(file.fileno())


ALL = ("clienta/p1", "clientb/p1")
ALL4 = (*ALL, "clienta/p2", "clientb/p2")


def rounds(part: Part, fd: int, kind: int, offset: int, length: int, count: int) -> None:
    """Lock, write or read, unlock, think; `count` times."""
    for number in range(count):
        part.lock(fd, kind, offset, length)
        if kind == WRITE:
            part.write(fd, f"{part.who}{number:04d}".encode(), offset)
        part.hold(50, 300)
        part.lock(fd, UNLOCK, offset, length)
        part.hold(5, 40)


def contention(part: Part) -> None:
    """Phases, one behind the other; the second processes take part in the last one only."""
    first = part.who == "clienta"
    fd = part.open("data.db")
    if part.process == "p1":
        part.gate("exclusive", *ALL)
        rounds(part, fd, WRITE, 0, 100, 10)
        part.gate("overlap", *ALL)
        rounds(part, fd, WRITE, *((0, 100) if first else (50, 100)), 6)
        part.gate("shared", *ALL)
        rounds(part, fd, READ, 0, 100, 4)
        part.gate("upgrade", *ALL)
        upgrade(part, fd, first)
        part.gate("nonblocking", *ALL)
        nonblocking(part, fd, first)
    part.gate("four", *ALL4)
    rounds(part, fd, WRITE if part.process == "p1" else READ, 1000, 10, 5)
    part.close(fd)


def upgrade(part: Part, fd: int, first: bool) -> None:
    """Both hold a read lock; B upgrades behind A's; then B downgrades and A's read gets in."""
    part.lock(fd, READ, 200, 50)
    part.gate("both-read", *ALL)
    if first:
        time.sleep(0.2)
        part.lock(fd, UNLOCK, 200, 50)
        part.wait("b-wrote")
        part.lock(fd, READ, 200, 50)
        part.lock(fd, UNLOCK, 200, 50)
        return
    part.lock(fd, WRITE, 200, 50)
    part.mark("b-wrote")
    time.sleep(0.25)
    part.lock(fd, READ, 200, 50)
    time.sleep(0.1)
    part.lock(fd, UNLOCK, 200, 50)


def nonblocking(part: Part, fd: int, first: bool) -> None:
    """A holds for 0.3 s; B tries without waiting every 80 ms."""
    if first:
        part.lock(fd, WRITE, 400, 8)
        part.mark("a-has-400")
        time.sleep(0.3)
        part.lock(fd, UNLOCK, 400, 8)
        return
    part.wait("a-has-400")
    for _ in range(10):
        if part.lock(fd, WRITE, 400, 8, wait=False):
            break
        time.sleep(0.08)
    part.lock(fd, UNLOCK, 400, 8)


def zombie(part: Part) -> None:
    """A holds a lock and freezes beyond its lease; B gets the lock; A thaws, writes, unlocks."""
    fd = part.open("data.db")
    if part.who == "clienta":
        part.lock(fd, WRITE, 0, 100)
        part.write(fd, b"a-before", 0)
        part.fsync(fd)
        part.mark("a-holds")
        part.wait("a-thawed")
        part.write(fd, b"a-zombie", 0)
        part.fsync(fd)
        part.lock(fd, UNLOCK, 0, 100)
        part.lock(fd, WRITE, 0, 100)
        part.lock(fd, UNLOCK, 0, 100)
    else:
        part.wait("a-frozen")
        part.lock(fd, WRITE, 0, 100)
        part.mark("b-holds")
        part.write(fd, b"b-owner!", 0)
        part.fsync(fd)
        time.sleep(8)
        part.read(fd, 8, 0)
        part.lock(fd, UNLOCK, 0, 100)
    part.close(fd)


def regained(part: Part) -> None:
    """A holds a lock and freezes beyond its lease; B gets it, writes, gives it back; A thaws, goes on.

    A's kernel was told to take lost locks again (nfs.recover_lost_locks), without telling A's program."""
    fd = part.open("data.db")
    if part.who == "clienta":
        part.lock(fd, WRITE, 0, 100)
        part.write(fd, b"a-before", 0)
        part.fsync(fd)
        part.mark("a-holds")
        part.wait("a-thawed")
        part.write(fd, b"a-zombie", 0)
        part.fsync(fd)
        part.lock(fd, UNLOCK, 0, 100)
    else:
        part.wait("a-frozen")
        part.lock(fd, WRITE, 0, 100)
        part.write(fd, b"b-owner!", 0)
        part.fsync(fd)
        part.lock(fd, UNLOCK, 0, 100)
        part.mark("b-holds")
        part.wait("a-thawed")
        time.sleep(1)
        part.read(fd, 8, 0)
    part.close(fd)


def reclaim(part: Part) -> None:
    """A holds a lock over a restart of the server; B asks for another file's lock, then for A's."""
    fd = part.open("data.db")
    other = part.open(f"other-{part.who}.db")
    if part.who == "clienta":
        part.lock(fd, WRITE, 0, 100)
        part.write(fd, b"a-before", 0)
        part.fsync(fd)
        part.gate("held", *ALL)
        part.mark("please-restart")
        part.wait("restarted")
        part.write(fd, b"a-after!", 0)
        part.fsync(fd)
        part.mark("a-wrote-after")
        time.sleep(16)
        part.lock(fd, UNLOCK, 0, 100)
    else:
        part.gate("held", *ALL)
        part.wait("restarted")
        part.lock(other, WRITE, 0, 10)
        part.lock(other, UNLOCK, 0, 10)
        part.lock(fd, WRITE, 0, 100)
        part.read(fd, 8, 0)
        part.lock(fd, UNLOCK, 0, 100)
    part.close(fd)
    part.close(other)


def late(part: Part) -> None:
    """A holds a lock and is cut off while the server restarts; B has the lock when A is back."""
    fd = part.open("data.db")
    if part.who == "clienta":
        part.lock(fd, WRITE, 0, 100)
        part.write(fd, b"a-before", 0)
        part.fsync(fd)
        part.gate("held", *ALL)
        part.mark("please-restart")
        part.wait("a-back")
        part.write(fd, b"a-after!", 0)
        part.fsync(fd)
        part.lock(fd, UNLOCK, 0, 100)
    else:
        part.gate("held", *ALL)
        part.wait("restarted")
        part.lock(fd, WRITE, 0, 100)
        part.write(fd, b"b-owner!", 0)
        part.fsync(fd)
        part.mark("b-holds")
        part.wait("a-back")
        time.sleep(8)
        part.read(fd, 8, 0)
        part.lock(fd, UNLOCK, 0, 100)
    part.close(fd)


def unclaimed(part: Part) -> None:
    """A holds a lock and loses power, the server restarts, B asks for the lock."""
    fd = part.open("data.db")
    if part.who == "clienta":
        part.lock(fd, WRITE, 0, 100)
        part.write(fd, b"a-before", 0)
        part.fsync(fd)
        part.finish()  # nothing can be written down afterwards
        part.gate("held", *ALL)
        part.mark("please-restart")
        time.sleep(60)
        return
    part.gate("held", *ALL)
    part.wait("restarted")
    part.lock(fd, WRITE, 0, 100)
    part.read(fd, 8, 0)
    part.lock(fd, UNLOCK, 0, 100)
    part.close(fd)


def polling(part: Part) -> None:
    """Three times A holds a lock for a while and B waits for it; B asks again after 1, 2 and 4 s."""
    fd = part.open("data.db")
    for number, hold_s in enumerate((0.3, 1.8, 3.6)):
        part.gate(f"round{number}", *ALL)
        if part.who == "clienta":
            part.lock(fd, WRITE, 0, 100)
            part.mark(f"a-holds{number}")
            time.sleep(hold_s)
            part.lock(fd, UNLOCK, 0, 100)
        else:
            part.wait(f"a-holds{number}")
            part.lock(fd, WRITE, 0, 100)
            part.write(fd, b"b-owner!", 0)
            part.lock(fd, UNLOCK, 0, 100)
    part.close(fd)


def demo(part: Part) -> None:
    """Rounds of one lock; then A holds it over a restart of the server, while B waits."""
    fd = part.open("checkpoint.index")
    part.gate("rounds", *ALL)
    rounds(part, fd, WRITE, 0, 100, 5)
    part.gate("done", *ALL)
    if part.who == "clienta":
        part.lock(fd, WRITE, 0, 100)
        part.write(fd, b"a-before", 0)
        part.fsync(fd)
        part.mark("please-restart")
        part.wait("restarted")
        part.write(fd, b"a-after!", 0)
        part.fsync(fd)
        time.sleep(3)
        part.lock(fd, UNLOCK, 0, 100)
    else:
        part.wait("restarted")
        part.lock(fd, WRITE, 0, 100)
        part.read(fd, 8, 0)
        part.lock(fd, UNLOCK, 0, 100)
    part.close(fd)


def recall(part: Part) -> None:
    """A reads a file with a read delegation, B opens it for writing; five files, since knfsd gives no new
    delegation on a file soon after a recall. Of the fourth A has the file open at that time."""
    if part.who == "clienta":
        for number in range(5):
            fd = part.open(f"model{number}.bin")
            part.write(fd, b"weights" * 100, 0)
            part.close(fd)
    for number in range(5):
        name = f"model{number}.bin"
        part.gate(f"round{number}", *ALL)
        if part.who == "clienta":
            for _ in range(3):
                fd = part.open(name, os.O_RDONLY)
                part.read(fd, 700, 0)
                part.close(fd)
            if number == 3:
                fd = part.open(name, os.O_RDONLY)
            part.mark(f"a-read{number}")
            part.wait(f"b-wrote{number}")
            if number == 3:
                part.read(fd, 700, 0)
                part.close(fd)
        else:
            part.wait(f"a-read{number}")
            fd = part.open(name, os.O_RDWR)
            part.write(fd, b"WEIGHTS", 0)
            part.fsync(fd)
            part.close(fd)
            part.mark(f"b-wrote{number}")


def deadlock(part: Part) -> None:
    """A holds f1 and wants f2, B holds f2 and wants f1; B gives up after 4 s."""
    first = part.who == "clienta"
    one, two = part.open("f1.db"), part.open("f2.db")
    own, wanted = (one, two) if first else (two, one)
    part.lock(own, WRITE, 0, 10)
    part.gate("held", *ALL)
    part.lock(wanted, WRITE, 0, 10, patience=9 if first else 4)
    part.lock(own, UNLOCK, 0, 10)
    part.lock(wanted, UNLOCK, 0, 10)
    part.close(one)
    part.close(two)


def storm(part: Part) -> None:
    """Four writers a client write and sync small records; one reads before it and beside it."""
    if part.process == "reader":
        fd = part.open("input.bin")
        part.write(fd, bytes(65536), 0)
        part.fsync(fd)
        part.close(fd)
        fd = part.open("input.bin", os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, 512)
        end = time.monotonic() + 2
        begun = False
        number = 0
        while True:
            if not begun and time.monotonic() > end:
                part.mark("storm")
                begun, end = True, time.monotonic() + 3
            if begun and time.monotonic() > end:
                break
            facts = {"fd": fd, "offset": number % 64 * 512, "length": 512}
            part.call("read", lambda o=facts["offset"]: os.preadv(fd, [buffer], o), **facts)
            number += 1
            time.sleep(0.01)
        part.close(fd)
        return
    fd = part.open(f"log-{part.who}-{part.process}")
    part.wait("storm")
    end = time.monotonic() + 2
    number = 0
    while time.monotonic() < end and number < 60:
        part.write(fd, f"{part.who} {part.process} {number:06d}\n".encode() * 4, number * 120)
        part.fsync(fd)
        number += 1
    part.close(fd)


def append(part: Part) -> None:
    """Two writers a client append records to one file, no lock; then A counts what is there."""
    fd = part.open("events.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    part.gate("append", *ALL4)
    for number in range(20):
        record = f"{part.who} {part.process} {number:04d}".ljust(31) + "\n"
        part.call("append", lambda r=record: os.write(fd, r.encode()), fd=fd, length=len(record))
        part.fsync(fd)
        part.hold(0, 10)
    part.close(fd)
    part.gate("appended", *ALL4)
    if part.who == "clienta" and part.process == "p1":
        fd = part.open("events.log", os.O_RDONLY)
        lines = part.read(fd, 1 << 16, 0).splitlines()
        part.call("records found", lambda: len({line for line in lines if len(line) == 31}))
        part.close(fd)


def small_files(part: Part) -> None:
    """A makes 300 small files; B reads each of them afterwards."""
    if part.who == "clienta":
        part.call("mkdir", lambda: os.mkdir(part.mount / "shards"), path="shards")
        for number in range(300):
            fd = part.open(f"shards/{number:05d}.json")
            part.write(fd, b'{"label": 1}' * 10, 0)
            part.close(fd)
    part.gate("made", *ALL)
    if part.who == "clientb":
        for number in range(300):
            fd = part.open(f"shards/{number:05d}.json", os.O_RDONLY)
            part.read(fd, 4096, 0)
            part.close(fd)


#: Folders and how many shards each gets; the second is longer than a column of the bulk decoder.
FOLDERS = {"epoch": 12, "epoch/part": 60}


def listing(part: Part) -> None:
    """A makes shards in two folders; B lists them with their attributes and reads some by handle."""
    if part.who == "clienta":
        for folder, count in FOLDERS.items():
            part.call("mkdir", lambda f=folder: os.mkdir(part.mount / f), path=folder)
            for number in range(count):
                fd = part.open(f"{folder}/shard-{number:02d}.bin")
                part.write(fd, bytes([number]) * 100, 0)
                part.close(fd)
    part.gate("made", *ALL)
    if part.who == "clientb":
        for folder in FOLDERS:
            names = part.call("readdir", lambda f=folder: sorted(os.listdir(part.mount / f)), path=folder)
            for name in names:
                path = f"{folder}/{name}"
                part.call("stat", lambda p=path: os.stat(part.mount / p).st_size, path=path)
        for folder, count in FOLDERS.items():
            for number in range(0, count, 12):
                fd = part.open(f"{folder}/shard-{number:02d}.bin", os.O_RDONLY)
                part.read(fd, 100, 0)
                part.close(fd)


def unstable(part: Part) -> None:
    """A writes 256 KiB past its cache in many WRITEs; the server restarts before their COMMIT."""
    fd = part.open(f"checkpoint-{part.who}.bin", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    part.gate("open", *ALL)
    part.wait("slow")
    if part.who == "clienta":
        buffer = mmap.mmap(-1, 262144)
        buffer.write(bytes(range(256)) * 1024)
        part.mark("please-restart")
        facts = {"fd": fd, "offset": 0, "length": 262144}
        part.call("write", lambda: os.pwrite(fd, buffer, 0), **facts)
        part.fsync(fd)
    part.gate("synced", *ALL)
    part.close(fd)


def evicted(part: Part) -> None:
    """A holds a lock and has written; it is evicted, and B, who waits for the lock, gets it."""
    fd = part.open("data.db")
    if part.who == "clienta":
        part.lock(fd, WRITE, 0, 100)
        part.write(fd, b"a-before", 0)
        part.fsync(fd)
        part.write(fd, b"a-dirty!", 0)
        part.mark("a-holds")
        part.wait("b-waits")
        time.sleep(0.5)
        part.mark("please-evict")
        part.wait("evicted")
        part.fsync(fd)
        part.write(fd, b"a-zombie", 0)
        part.fsync(fd)
        part.lock(fd, UNLOCK, 0, 100)
        part.open("after.db")
        part.close(fd)
    else:
        part.wait("a-holds")
        part.mark("b-waits")
        part.lock(fd, WRITE, 0, 100)
        part.read(fd, 8, 0)
        part.write(fd, b"b-owner!", 0)
        part.fsync(fd)
        part.lock(fd, UNLOCK, 0, 100)
        part.close(fd)


def capabilities(part: Part) -> None:
    """A writes a file that B reads from time to time: each time A's capabilities are revoked."""
    fd = part.open("log.txt")
    part.gate("open", *ALL)
    for number in range(8):
        if part.who == "clienta":
            for record in range(5):
                part.write(fd, f"{number:03d} {record:03d}\n".encode(), (number * 5 + record) * 8)
            part.mark(f"a-wrote{number}")
            part.wait(f"b-read{number}")
        else:
            part.wait(f"a-wrote{number}")
            part.read(fd, 4096, 0)
            part.call("stat", lambda: os.fstat(fd).st_size, fd=fd)
            part.mark(f"b-read{number}")
    part.close(fd)


def metadata(part: Part) -> None:
    """Both make, look at and remove files in one folder at once."""
    if part.who == "clienta":
        part.call("mkdir", lambda: os.mkdir(part.mount / "shared"), path="shared")
    part.gate("made", *ALL)
    for number in range(80):
        name = f"shared/{part.who}-{number:03d}"
        fd = part.open(name)
        part.close(fd)
        part.call("stat", lambda n=name: os.stat(part.mount / n).st_size, path=name)
        if number % 20 == 19:
            part.call("readdir", lambda: len(os.listdir(part.mount / "shared")), path="shared")
    for number in range(80):
        name = f"shared/{part.who}-{number:03d}"
        part.call("unlink", lambda n=name: os.unlink(part.mount / n), path=name)


#: Two processes of each client.
FOUR = {"clienta": ("p1", "p2"), "clientb": ("p1", "p2")}
TWO = {"clienta": ("p1",), "clientb": ("p1",)}

SCENARIOS: dict[str, tuple[Callable[[Part], None], dict[str, tuple[str, ...]]]] = {
    "kernel-lock-contention": (contention, FOUR),
    "kernel-nfs40": (contention, FOUR),
    "cephfs-lock-contention-fuse-v1": (contention, FOUR),
    "cephfs-lock-contention-fuse-v2": (contention, FOUR),
    "cephfs-lock-contention-kernel-v1": (contention, FOUR),
    "cephfs-lock-contention-kernel-v2": (contention, FOUR),
    "cephfs-mds-restart": (reclaim, TWO),
    "cephfs-eviction-fuse": (evicted, TWO),
    "cephfs-eviction-kernel": (evicted, TWO),
    "cephfs-capabilities": (capabilities, TWO),
    "cephfs-metadata-storm": (metadata, TWO),
    "kernel-lost-lock-zombie": (zombie, TWO),
    "kernel-lost-lock-regained": (regained, TWO),
    "demo": (demo, TWO),
    "kernel-lost-lock-partition": (zombie, TWO),
    "kernel-restart-late-reclaim": (late, TWO),
    "kernel-restart-no-reclaim": (unclaimed, TWO),
    "ganesha-lock-polling": (polling, TWO),
    "kernel-restart-reclaim": (reclaim, TWO),
    "kernel-delegation-recall": (recall, TWO),
    "kernel-deadlock": (deadlock, TWO),
    "kernel-fsync-storm": (
        storm,
        {"clienta": ("w1", "w2", "w3", "w4"), "clientb": ("w1", "w2", "w3", "w4", "reader")},
    ),
    "kernel-append": (append, FOUR),
    "kernel-small-files": (small_files, TWO),
    "kernel-readdir": (listing, TWO),
    "kernel-unstable-restart": (unstable, TWO),
}


def main() -> None:
    """Forks one process a part and waits for all of them."""
    who, scenario, mount, share = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
    play, parts = SCENARIOS[scenario]
    signal.signal(signal.SIGALRM, _alarm)
    children = []
    for process in parts[who]:
        child = os.fork()
        if child == 0:
            part = Part(who, process, mount, share)
            try:
                play(part)
            finally:
                part.finish()
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
