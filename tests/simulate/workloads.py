"""Workloads on the simulated store: each returns the workers' tasks. Faults are named after what breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulate.world import MS, Task, World, workers

Workload = Callable[[World], list[Task]]


def _returns(**columns: Any) -> Callable[[int], dict[str, Any]]:
    """An effect that returns these columns."""
    return lambda _op: dict(columns)


def register(world: World) -> list[Task]:
    """Random reads and writes of two blocks. Faults: stale-read, split-brain, phantom-read."""
    value = {f"f{i}": 0 for i in range(2)}
    before = dict(value)

    def write(name: str, token: int) -> Callable[[int], dict[str, Any]]:
        def effect(_op: int) -> dict[str, Any]:
            before[name], value[name] = value[name], token
            return {"token": token}

        return effect

    def read(name: str) -> Callable[[int], dict[str, Any]]:
        def effect(op: int) -> dict[str, Any]:
            if world.strikes("stale-read") and before[name]:
                world.planted.append(op)
                return {"token": before[name]}
            if world.strikes("phantom-read", 0.02):
                world.planted.append(op)
                return {"token": 5}
            return {"token": value[name]}

        return effect

    def work(worker: str) -> Task:
        for _ in range(40):
            name = world.rng.choice(list(value))
            if world.rng.random() < 0.4:
                yield from world.call(worker, "register", "write", name, write(name, world.token()))
            else:
                yield from world.call(worker, "register", "read", name, read(name))
            yield world.rng.randint(1, MS)

    return [work(w) for w in workers(5)]


def baton(world: World) -> list[Task]:
    """A closes, tells B, B opens. Fault: stale-open."""
    state: dict[str, Any] = {"version": 0, "close": None, "turn": 0, "content": (0, 0), "old": (0, 0)}

    def write(op: int, handle: int) -> Task:
        version, token = state["version"] + 1, world.token()

        def effect(_op: int) -> dict[str, Any]:
            state["old"], state["content"] = state["content"], (token, version)
            return {"token": token, "sequence": version}

        yield from world.call("A.0", "baton", "write", "f", effect, handle=handle)
        state["version"] = version

    def writer() -> Task:
        for turn in range(20):
            while state["turn"] != 2 * turn:
                yield 50_000
            opened = yield from world.call("A.0", "baton", "open", "f", lambda _op: {})
            yield from write(turn, opened["op_id"])
            closed = yield from world.call(
                "A.0", "baton", "close", "f", lambda _op: {}, handle=opened["op_id"]
            )
            state["close"], state["turn"] = closed["op_id"], 2 * turn + 1

    def seen(op: int) -> dict[str, Any]:
        stale = world.strikes("stale-open", 0.3)
        if stale:
            world.planted.append(op)
        token, version = state["old" if stale else "content"]
        return {"token": token, "sequence": version}

    def reader() -> Task:
        for turn in range(20):
            while state["turn"] != 2 * turn + 1:
                yield 50_000
            opened = yield from world.call(
                "B.1", "baton", "open", "f", lambda _op: {}, after=state["close"]
            )
            yield from world.call("B.1", "baton", "read", "f", seen, handle=opened["op_id"])
            state["turn"] = 2 * turn + 2

    return [writer(), reader()]


def counter(world: World) -> list[Task]:
    """A counter under a lock. Faults: double-grant, stale-under-lock, needless-denial, false-deadlock."""
    holders: set[str] = set()
    state = {"value": 0, "before": 0}

    def lock(worker: str, blocking: bool) -> Callable[[int], dict[str, Any]]:
        def effect(op: int) -> dict[str, Any]:
            if not holders and not blocking and world.strikes("needless-denial", 0.6):
                world.planted.append(op)
                return {"status": "EAGAIN"}
            if not holders and world.strikes("false-deadlock") and blocking:
                world.planted.append(op)
                return {"status": "EDEADLK"}
            if holders and world.strikes("double-grant"):
                world.planted.append(op)
                holders.add(worker)
                return {}
            if holders and not blocking:
                return {"status": "EAGAIN"}

            def free() -> bool:
                if holders:
                    return False
                holders.add(worker)
                return True

            return {"wait": free}

        return effect

    def unlock(worker: str) -> Callable[[int], dict[str, Any]]:
        def effect(_op: int) -> dict[str, Any]:
            holders.discard(worker)
            return {}

        return effect

    def read(op: int) -> dict[str, Any]:
        if world.strikes("stale-under-lock") and state["before"] < state["value"]:
            world.planted.append(op)
            return {"sequence": state["before"]}
        return {"sequence": state["value"]}

    def store(number: int) -> Callable[[int], dict[str, Any]]:
        def effect(_op: int) -> dict[str, Any]:
            state["before"], state["value"] = state["value"], number
            return {"sequence": number}

        return effect

    def work(worker: str) -> Task:
        for _ in range(12):
            blocking = world.rng.random() < 0.6
            row = yield from world.call(
                worker, "counter", "lock", "c", lock(worker, blocking),
                blocking=blocking, lock_type="write", family="posix", offset=0, length=-1,
            )  # fmt: skip
            if row["status"] == "ok":
                found = yield from world.call(worker, "counter", "read", "c", read)
                yield from world.call(worker, "counter", "write", "c", store(found["sequence"] + 1))
                yield from world.call(
                    worker, "counter", "unlock", "c", unlock(worker), family="posix", offset=0, length=-1
                )
            yield world.rng.randint(1, 2 * MS)

    return [work(w) for w in workers(4)]


def append(world: World) -> list[Task]:
    """Appends by many, then an audit. Faults: append-lost, -torn, -doubled, -reordered."""
    slots: list[tuple[int, bool]] = []
    running = [4]

    def put(token: int) -> Callable[[int], dict[str, Any]]:
        def effect(op: int) -> dict[str, Any]:
            at = len(slots)
            for fault in ("append-lost", "append-torn", "append-doubled", "append-reordered"):
                if slots and world.strikes(fault, 0.1):
                    world.planted.append(op)
                    if fault == "append-lost":
                        return {"token": token, "offset": 64 * at}
                    if fault == "append-torn":
                        slots.append((token, False))
                    elif fault == "append-doubled":
                        slots.extend([(token, True)] * 2)
                    else:
                        slots.insert(0, (token, True))
                    return {"token": token}
            slots.append((token, True))
            return {"token": token, "offset": 64 * at}

        return effect

    def work(worker: str) -> Task:
        for number in range(15):
            yield from world.call(
                worker, "append", "append", "log", put(world.token()), sequence=number, length=64
            )
            yield world.rng.randint(1, 2 * MS)
        running[0] -= 1
        if running[0]:
            return
        for i, (token, intact) in enumerate(slots):
            yield from world.call(
                worker, "append", "read", "log", _returns(token=token),
                offset=64 * i, length=64, phase="audit", intact=intact,
            )  # fmt: skip

    return [work(w) for w in workers(4)]


def publish(world: World) -> list[Task]:
    """Generations by rename. Faults: publish-absent, -mixed, -older."""
    state = {"seen": 0, "previous": 0}

    def rename(number: int) -> Callable[[int], dict[str, Any]]:
        def effect(_op: int) -> dict[str, Any]:
            state["previous"], state["seen"] = state["seen"], number
            return {"sequence": number}

        return effect

    def read(op: int) -> dict[str, Any]:
        for fault in ("publish-absent", "publish-mixed", "publish-older"):
            if state["previous"] > 0 and world.strikes(fault):
                world.planted.append(op)
                if fault == "publish-absent":
                    return {"status": "ENOENT"}
                if fault == "publish-mixed":
                    return {"sequence": state["seen"], "intact": False}
                return {"sequence": state["previous"]}
        return {"sequence": state["seen"]} if state["seen"] else {"status": "ENOENT"}

    def writer() -> Task:
        for number in range(1, 16):
            yield from world.call("A.0", "publish", "rename", "p", rename(number))
            yield world.rng.randint(2 * MS, 4 * MS)

    def reader(worker: str) -> Task:
        for _ in range(30):
            yield from world.call(worker, "publish", "read", "p", read)
            yield world.rng.randint(1, 2 * MS)

    return [writer(), reader("B.1"), reader("C.2")]


def exclusive(world: World) -> list[Task]:
    """Many create the same names. Faults: two-winners, no-winner."""
    made: set[str] = set()

    def create(name: str) -> Callable[[int], dict[str, Any]]:
        def effect(op: int) -> dict[str, Any]:
            if name in made:
                if world.strikes("two-winners"):
                    world.planted.append(op)
                    return {}
                return {"status": "EEXIST"}
            if world.strikes("no-winner", 0.1):
                world.planted.append(op)
                made.add(name)
                return {"status": "EEXIST"}
            made.add(name)
            return {}

        return effect

    def work(worker: str) -> Task:
        for number in range(20):
            name = f"n{number}"
            yield from world.call(worker, "exclusive", "create", name, create(name), family="create")

    return [work(w) for w in workers(4)]


def readdir(world: World) -> list[Task]:
    """Churn and listings. Faults: entry-missed, entry-doubled, entry-ghost."""
    present: list[str] = []
    removed: list[str] = []

    def change(name: str, kind: str) -> Callable[[int], dict[str, Any]]:
        def effect(_op: int) -> dict[str, Any]:
            if kind == "create":
                present.append(name)
            else:
                present.remove(name)
                removed.append(name)
            return {}

        return effect

    def churn() -> Task:
        mine: list[str] = []
        for number in range(30):
            name = f"e{number}"
            yield from world.call("A.0", "readdir", "create", "d", change(name, "create"), name=name)
            mine.append(name)
            if world.rng.random() < 0.5:
                old = mine.pop(0)
                yield from world.call("A.0", "readdir", "remove", "d", change(old, "remove"), name=old)
            yield world.rng.randint(MS, 2 * MS)

    def listing(worker: str, first: int) -> Task:
        for number in range(first, first + 15):
            found: list[str] = []

            def effect(op: int, found: list[str] = found) -> dict[str, Any]:
                found.extend(present)
                old = present[:-3]
                if old and world.strikes("entry-missed", 0.3):
                    world.planted.append(op)
                    found.remove(old[0])
                if present and world.strikes("entry-doubled", 0.3):
                    world.planted.append(op)
                    found.append(present[0])
                if removed[:-3] and world.strikes("entry-ghost", 0.3):
                    world.planted.append(op)
                    found.append(removed[0])
                return {}

            row = yield from world.call(worker, "readdir", "readdir", "d", effect, round=number)
            for i, name in enumerate(found):
                world.rows.append({**row, "name": name, "op_id": 10_000_000 + row["op_id"] * 1000 + i})
            yield world.rng.randint(1, 3 * MS)

    return [churn(), listing("B.1", 100), listing("C.2", 200)]


def torn(world: World) -> list[Task]:
    """A unit that is overwritten and read whole. Fault: torn-read."""
    state = [0, 0]

    def write(token: int) -> Callable[[int], dict[str, Any]]:
        def effect(_op: int) -> dict[str, Any]:
            state[:] = [token, state[0]]
            return {"token": token}

        return effect

    def read(op: int) -> dict[str, Any]:
        if state[1] and world.strikes("torn-read"):
            world.planted.append(op)
            return {"token": state[0], "other": state[1], "torn_at": 4096, "intact": False}
        return {"token": state[0]}

    def work(worker: str) -> Task:
        for _ in range(20):
            if worker in ("A.0", "B.1"):
                yield from world.call(worker, "torn", "write", "u", write(world.token()))
            else:
                yield from world.call(worker, "torn", "read", "u", read)
            yield world.rng.randint(1, MS)

    return [work(w) for w in workers(3)]


def durability(world: World) -> list[Task]:
    """Write, fsync, a crash, an audit. Faults: fsync-lies."""
    disk: dict[int, tuple[int, int]] = {}
    cache: dict[int, tuple[int, int]] = {}
    synced = [0]

    def write(unit: int, version: int) -> Callable[[int], dict[str, Any]]:
        def effect(_op: int) -> dict[str, Any]:
            cache[unit] = (world.token(), version)
            return {"token": cache[unit][0], "sequence": version}

        return effect

    def sync(op: int) -> dict[str, Any]:
        synced[0] += 1  # a later fsync would mend what an earlier one lost
        if synced[0] == 4 and world.strikes("fsync-lies", 0.9):
            world.planted.append(op)
        else:
            disk.update(cache)
        return {}

    def crash(_op: int) -> dict[str, Any]:
        cache.clear()
        return {"name": "server-kill"}

    def work() -> Task:
        opened = yield from world.call("A.0", "durability", "open", "f", lambda _op: {})
        for version in range(1, 6):
            for unit in range(4):
                yield from world.call(
                    "A.0", "durability", "write", "f", write(unit, version),
                    handle=opened["op_id"], offset=unit * 4096, length=4096,
                )  # fmt: skip
            if version < 5:  # the last round is never synced, and may be lost
                yield from world.call("A.0", "durability", "commit", "f", sync, handle=opened["op_id"])
        yield from world.call("A.0", "durability", "fault", "f", crash)
        for unit in range(4):
            token, version = disk.get(unit, (0, 0))
            yield from world.call(
                "B.1", "durability", "read", "f", _returns(token=token, sequence=version),
                offset=unit * 4096, length=4096, phase="audit",
            )  # fmt: skip

    return [work()]


def zombie(world: World) -> list[Task]:
    """A holder frozen past its lease. Fault: no-fencing."""

    def work() -> Task:
        for number in range(6):
            name, state = f"z{number}", {"content": 0}

            def write(fenced: bool, state: dict[str, int] = state) -> Callable[[int], dict[str, Any]]:
                token = world.token()

                def effect(op: int) -> dict[str, Any]:
                    if fenced:
                        if not world.strikes("no-fencing", 0.5):
                            return {"token": token, "status": "EIO"}
                        world.planted.append(op)
                    state["content"] = token
                    return {"token": token}

                return effect

            lock = {"lock_type": "write", "offset": 0, "length": -1, "family": "posix"}
            yield from world.call("A.0", "zombie", "lock", name, lambda _op: {}, **lock)
            yield from world.call("A.0", "zombie", "write", name, write(False))
            yield 200 * MS  # frozen
            yield from world.call("B.1", "zombie", "lock", name, lambda _op: {}, **lock)
            yield from world.call("B.1", "zombie", "write", name, write(False))
            yield from world.call("A.0", "zombie", "write", name, write(True))
            yield from world.call("B.1", "zombie", "read", name, _returns(token=state["content"]))
            yield from world.call("B.1", "zombie", "unlock", name, lambda _op: {}, **lock)

    return [work()]


def checkpoint(world: World) -> list[Task]:
    """Generations of three shards. Faults: shard-old, shard-missing, shard-torn, pointer-old."""
    state = {"now": 0, "previous": 0}

    def save() -> Task:
        for number in range(1, 10):

            def effect(_op: int, number: int = number) -> dict[str, Any]:
                state.update(previous=state["now"], now=number)
                return {"sequence": number, "size": 3}

            yield from world.call("A.0", "checkpoint", "rename", "ck", effect)
            yield 10 * MS

    def load() -> Task:
        for number in range(12):
            yield 6 * MS
            base = state["now"]
            if base > 1 and world.strikes("pointer-old", 0.3):
                base = state["previous"]
                world.planted.append(world._ids)
            if not base:
                continue
            for shard in range(3):

                def effect(op: int, base: int = base) -> dict[str, Any]:
                    if base > 1:
                        for fault in ("shard-old", "shard-missing", "shard-torn"):
                            if world.strikes(fault):
                                world.planted.append(op)
                                if fault == "shard-missing":
                                    return {"status": "ENOENT"}
                                return (
                                    {"sequence": base - 1} if fault == "shard-old"
                                    else {"sequence": base, "intact": False}
                                )  # fmt: skip
                    return {"sequence": base}

                yield from world.call(
                    "B.1", "checkpoint", "read", "ck", effect, name=f"s{shard}", round=number, phase="load"
                )

    return [save(), load()]


def staleness(world: World) -> list[Task]:
    """One writer, readers that look on and on. Fault: long-cache."""
    state: dict[str, Any] = {"version": 0, "cached": {}}

    def write(version: int) -> Callable[[int], dict[str, Any]]:
        def effect(_op: int) -> dict[str, Any]:
            state["version"] = version
            return {"sequence": version}

        return effect

    def look(worker: str) -> Callable[[int], dict[str, Any]]:
        def effect(op: int) -> dict[str, Any]:
            version, until = state["cached"].get(worker, (0, 0))
            if "long-cache" in world.faults and world.now < until:
                if version < state["version"]:
                    world.planted.append(op)
                return {"sequence": version}
            state["cached"][worker] = (state["version"], world.now + 5000 * MS)
            return {"sequence": state["version"]}

        return effect

    def writer() -> Task:
        for version in range(1, 9):
            yield 2000 * MS
            yield from world.call("A.0", "staleness", "write", "f", write(version), aspect="data")

    def reader(worker: str) -> Task:
        for _ in range(180):
            yield from world.call(worker, "staleness", "read", "f", look(worker), aspect="data")
            yield 100 * MS

    return [writer(), reader("B.1"), reader("C.2")]


#: Workload, and for each of its faults the promise that it breaks.
ALL: dict[str, tuple[Workload, dict[str, str]]] = {
    "register": (register, {"stale-read": "coherent", "phantom-read": "coherent"}),
    "baton": (baton, {"stale-open": "close-to-open"}),
    "counter": (
        counter,
        {
            "double-grant": "lock-exclusion",
            "stale-under-lock": "lost-update",
            "needless-denial": "lock-refusal",
            "false-deadlock": "deadlock",
        },
    ),
    "append": (
        append,
        {
            "append-lost": "append",
            "append-torn": "append",
            "append-doubled": "append",
            "append-reordered": "append",
        },
    ),
    "publish": (
        publish,
        {"publish-absent": "publish", "publish-mixed": "publish", "publish-older": "publish"},
    ),
    "exclusive": (exclusive, {"two-winners": "exclusive-create", "no-winner": "exclusive-create"}),
    "readdir": (readdir, {"entry-missed": "readdir", "entry-doubled": "readdir", "entry-ghost": "readdir"}),
    "torn": (torn, {"torn-read": "torn-write"}),
    "durability": (durability, {"fsync-lies": "durability"}),
    "zombie": (zombie, {"no-fencing": "zombie-write"}),
    "checkpoint": (
        checkpoint,
        {
            "shard-old": "checkpoint",
            "shard-missing": "checkpoint",
            "shard-torn": "checkpoint",
            "pointer-old": "checkpoint",
        },
    ),
}
