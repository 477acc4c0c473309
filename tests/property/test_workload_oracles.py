"""Checkers of designed workloads against their definitions, word by word in plain Python, on 100,000 random
small histories each. The checkers judge thousands of histories at once, each on objects of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from analyzer.analysis import appends, checkpoints, locking, names, publishing, survival
from analyzer.analysis.breaches import Breach
from analyzer.core.rule import Fold, run_folds
from analyzer.core.schema import HISTORY_SCHEMA
from analyzer.core.table import Tables

HISTORIES = 100_000
_BLOCK = 20_000
NEVER = 1 << 62
Op = dict[str, Any]
#: Kinds of breaches that a history holds.
Truth = set[str]


def times(rng: random.Random, span: int = 12) -> tuple[int, int]:
    start = rng.randint(1, span)
    return start, start + rng.randint(0, 3)


def before(one: Op, other: Op) -> bool:
    """Whether one certainly returned before the other began."""
    end = one["end"] if one.get("outcome", "ok") != "info" else NEVER
    return bool(end < other["start"])


def acknowledged(op: Op) -> bool:
    return str(op.get("outcome", "ok")) == "ok"


def outcome(rng: random.Random) -> str:
    return rng.choice(("ok", "ok", "ok", "ok", "info", "fail"))


# --- append ---------------------------------------------------------------------------------------------


def append(rng: random.Random) -> list[Op]:
    ops: list[Op] = []
    for number in range(rng.randint(1, 4)):
        start, end = times(rng)
        ops.append(
            {"kind": "append", "token": number + 1, "sequence": number, "start": start, "end": end,
             "outcome": outcome(rng)}
        )  # fmt: skip
    order = sorted(ops, key=lambda op: (op["start"] + op["end"], rng.random()))
    slots = [op["token"] for op in order if op["outcome"] != "fail" or rng.random() < 0.1]
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        change = rng.choice(("drop", "double", "swap", "hole"))
        if slots and change == "drop":
            slots.pop(rng.randrange(len(slots)))
        elif slots and change == "double":
            slots.append(rng.choice(slots))
        elif change == "swap":
            rng.shuffle(slots)
        else:
            slots.insert(rng.randint(0, len(slots)), 0)
    for i, token in enumerate(slots):
        ops.append(
            {"kind": "read", "token": token, "offset": 64 * i, "start": 50 + i, "end": 50 + i,
             "phase": "audit", "intact": token != 0}
        )  # fmt: skip
    return ops


def append_truth(ops: list[Op]) -> Truth:
    slots = [op["token"] for op in ops if op["kind"] == "read"]
    records = {op["token"]: op for op in ops if op["kind"] == "append" and op["outcome"] != "fail"}
    found: Truth = set()
    if not slots:
        return found
    if any(acknowledged(op) and token not in slots for token, op in records.items()):
        found.add("lost")
    if 0 in slots:
        found.add("torn")
    if any(token and slots.count(token) > 1 for token in slots):
        found.add("doubled")
    for i, first in enumerate(slots):
        for later in slots[i + 1 :]:
            if first in records and later in records and before(records[later], records[first]):
                found.add("reordered")
    return found


# --- publish --------------------------------------------------------------------------------------------


def publish(rng: random.Random) -> list[Op]:
    ops: list[Op] = []
    count = rng.randint(1, 3)
    for number in range(1, count + 1):
        start, end = times(rng)
        ops.append(
            {"kind": "rename", "sequence": number, "start": start, "end": end, "outcome": outcome(rng)}
        )
    for _ in range(rng.randint(1, 4)):
        start, end = times(rng, 16)
        seen = rng.randint(0, count)
        op: Op = {"kind": "read", "start": start, "end": end, "process": rng.choice("xy")}
        op |= {"sequence": seen} if seen else {"outcome": "fail", "status": "ENOENT"}
        op["intact"] = not seen or rng.random() > 0.05
        ops.append(op)
    # a worker's reads follow each other
    for worker in "xy":
        at = 0
        for op in [op for op in ops if op.get("process") == worker]:
            op["start"], op["end"] = op["start"] + at, op["end"] + at
            at = op["end"] + 1
    return ops


def publish_truth(ops: list[Op]) -> Truth:
    renames = [op for op in ops if op["kind"] == "rename" and op["outcome"] != "fail"]
    reads = [op for op in ops if op["kind"] == "read"]
    made = {op["sequence"]: op for op in renames}
    found: Truth = set()
    for read in reads:
        gone = read.get("outcome") == "fail"
        if not read["intact"]:
            found.add("mixed")
            continue
        seen = 0 if gone else read["sequence"]
        if seen and (seen not in made or read["end"] < made[seen]["start"]):
            found.add("early")
        for newer in renames:
            over = seen == 0 or (seen in made and before(made[seen], newer))
            if over and before(newer, read) and (seen == 0 or seen in made):
                found.add("absent" if gone else "older")
        for earlier in reads:
            if earlier.get("outcome") == "fail" or not earlier["intact"] or gone:
                continue
            first = earlier["sequence"]
            if (
                earlier["process"] == read["process"]
                and earlier["start"] < read["start"]
                and first in made
                and seen in made
                and before(made[seen], made[first])
            ):
                found.add("backwards")
    return found


# --- exclusive create -----------------------------------------------------------------------------------


def exclusive(rng: random.Random) -> list[Op]:
    ops: list[Op] = []
    for _ in range(rng.randint(1, 4)):
        start, end = times(rng)
        kind = rng.choice(("create", "create", "create", "remove"))
        result = rng.choice(("ok", "ok", "fail", "fail", "info"))
        ops.append({"kind": kind, "start": start, "end": end, "outcome": result, "family": "create"})
        if result == "fail":
            ops[-1]["status"] = "EEXIST" if kind == "create" else "ENOENT"
    return ops


def exclusive_truth(ops: list[Op]) -> Truth:
    made = sorted(
        (op for op in ops if op["kind"] == "create" and acknowledged(op)), key=lambda op: op["end"]
    )
    gone = [op for op in ops if op["kind"] == "remove" and op["outcome"] != "fail"]
    found: Truth = set()
    # two that follow each other by their return, with no removal that may lie between
    for one, two in pairwise(made):
        if not any(
            (op["end"] if acknowledged(op) else NEVER) >= one["start"] and op["start"] <= two["end"]
            for op in gone
        ):
            found.add("two-winners")
    creates = [op for op in ops if op["kind"] == "create"]
    if creates and all(op["outcome"] == "fail" for op in creates):
        found.add("no-winner")
    return found


# --- listings -------------------------------------------------------------------------------------------


def readdir(rng: random.Random) -> list[Op]:
    ops: list[Op] = []
    for name in "ab":
        start, end = times(rng, 6)
        made = {"kind": "create", "name": name, "start": start, "end": end, "outcome": outcome(rng)}
        ops.append(made)
        if rng.random() < 0.5:
            start = end + rng.randint(0, 3)
            ops.append(
                {"kind": "remove", "name": name, "start": start, "end": start + 1, "outcome": outcome(rng)}
            )
    start, end = times(rng)
    listing = {"kind": "readdir", "start": start, "end": end, "round": 1}
    ops.append(listing)
    for name in rng.choice(("", "a", "b", "ab", "aab")):
        ops.append({**listing, "name": name})
    return ops


def readdir_truth(ops: list[Op]) -> Truth:
    listing = next(op for op in ops if op["kind"] == "readdir" and "name" not in op)
    shown = [op["name"] for op in ops if op["kind"] == "readdir" and "name" in op]
    found: Truth = set()
    for made in (op for op in ops if op["kind"] == "create" and op["outcome"] != "fail"):
        name = made["name"]
        gone = [
            op for op in ops if op["kind"] == "remove" and op["name"] == name and op["outcome"] != "fail"
        ]
        stays = not any(op["start"] <= listing["end"] for op in gone)
        if before(made, listing) and stays and name not in shown:
            found.add("missed")
        if any(before(op, listing) for op in gone) and name in shown:
            found.add("ghost")
    if len(shown) != len(set(shown)):
        found.add("doubled")
    return found


# --- durability -----------------------------------------------------------------------------------------


def durability(rng: random.Random) -> list[Op]:
    ops: list[Op] = []
    at, count = 1, rng.randint(1, 5)
    for version in range(1, count + 1):
        kind = rng.choice(("write", "write", "commit"))
        op: Op = {"kind": kind, "start": at, "end": at + 1, "handle": rng.choice((1, 1, 2)),
                  "outcome": outcome(rng)}  # fmt: skip
        if kind == "write":
            op |= {"sequence": version, "token": version, "offset": rng.choice((0, 4096))}
        ops.append(op)
        at += 2
    for unit in (0, 4096):
        seen = rng.choice([0, *(op["sequence"] for op in ops if op.get("offset") == unit)])
        ops.append(
            {"kind": "read", "offset": unit, "sequence": seen, "token": seen, "start": 50, "end": 51,
             "phase": "audit", "intact": rng.random() > 0.05}
        )  # fmt: skip
    return ops


def durability_truth(ops: list[Op]) -> Truth:
    found: Truth = set()
    for read in (op for op in ops if op["kind"] == "read"):
        for write in (op for op in ops if op["kind"] == "write" and acknowledged(op)):
            safe = any(
                op["kind"] == "commit"
                and acknowledged(op)
                and op["handle"] == write["handle"]
                and op["start"] > write["start"]
                for op in ops
            )
            seen = read["sequence"] if read["intact"] else -1
            if write["offset"] == read["offset"] and safe and seen < write["sequence"]:
                found.add("lost")
    return found


# --- checkpoint -----------------------------------------------------------------------------------------


def checkpoint(rng: random.Random) -> list[Op]:
    ops: list[Op] = []
    count = rng.randint(1, 3)
    for number in range(1, count + 1):
        start = 4 * number + rng.randint(0, 3)
        ops.append({"kind": "rename", "sequence": number, "size": 2, "start": start,
                    "end": start + rng.randint(0, 3), "outcome": outcome(rng)})  # fmt: skip
    start = rng.randint(4, 20)
    base = rng.randint(1, count)
    for shard in "01":
        read: Op = {"kind": "read", "name": shard, "round": 1, "phase": "load", "start": start,
                    "end": start + 1, "sequence": base if rng.random() < 0.9 else rng.randint(1, count),
                    "intact": rng.random() > 0.05}  # fmt: skip
        if rng.random() < 0.05:
            read |= {"outcome": "fail", "status": "ENOENT"}
            del read["sequence"]
        ops.append(read)
        start += 2
    return ops


def checkpoint_truth(ops: list[Op]) -> Truth:
    reads = [op for op in ops if op["kind"] == "read"]
    pointers = [op for op in ops if op["kind"] == "rename" and acknowledged(op)]
    missing = [op for op in reads if op.get("outcome") == "fail"]
    whole = [op for op in reads if op not in missing and op["intact"]]
    found: Truth = set()
    if any(not op["intact"] for op in reads if op not in missing):
        found.add("torn")
    if any(before(pointer, op) for op in missing for pointer in pointers):
        found.add("missing")
    versions = {op["sequence"] for op in whole}
    if len(versions) > 1:
        found.add("mixed")
    elif versions:
        begin = {"start": min(op["start"] for op in whole)}
        if any(before(p, begin) and p["sequence"] > max(versions) for p in pointers):
            found.add("older")
    return found


# --- counter --------------------------------------------------------------------------------------------


def counter(rng: random.Random) -> list[Op]:
    ops: list[Op] = []
    value = 0
    for number in range(rng.randint(1, 5)):
        value += 0 if rng.random() < 0.1 else 1
        ops.append(
            {"kind": "write", "sequence": max(value, 1), "start": 3 * number, "end": 3 * number + 1,
             "outcome": outcome(rng)}
        )  # fmt: skip
    last = rng.choice((value, value, max(value - 1, 0)))
    ops.append({"kind": "read", "sequence": last, "start": 50, "end": 51, "phase": "audit"})
    return ops


def counter_truth(ops: list[Op]) -> Truth:
    numbers = [op["sequence"] for op in ops if op["kind"] == "write" and acknowledged(op)]
    found: Truth = set()
    if len(numbers) != len(set(numbers)):
        found.add("overwritten")
    if any(op["sequence"] < max(numbers, default=0) for op in ops if op["kind"] == "read"):
        found.add("lost-at-end")
    return found


# --- zombie ---------------------------------------------------------------------------------------------


def zombie(rng: random.Random) -> list[Op]:
    lock = {"kind": "lock", "lock_type": "write"}
    first = rng.randint(5, 9)
    late = rng.randint(3, 12)
    ops: list[Op] = [
        {**lock, "owner": "x", "start": 1, "end": 2},
        {**lock, "owner": "y", "start": first, "end": first + 1, "outcome": outcome(rng)},
        {"kind": "write", "owner": "x", "token": 7, "start": late, "end": late + 1,
         "outcome": rng.choice(("ok", "fail", "info"))},
    ]  # fmt: skip
    if rng.random() < 0.4:
        at = rng.randint(10, 14)
        ops.append({"kind": "unlock", "owner": "y", "start": at, "end": at + 1})
    if rng.random() < 0.7:
        ops.append({"kind": "read", "owner": "y", "token": rng.choice((7, 8)), "start": 20, "end": 21})
    return ops


def zombie_truth(ops: list[Op]) -> Truth:
    other = next(op for op in ops if op["kind"] == "lock" and op["owner"] == "y")
    write = next(op for op in ops if op["kind"] == "write")
    end = write["end"] if write["outcome"] != "info" else NEVER
    seen = any(op["kind"] == "read" and op["token"] == 7 for op in ops)
    freed = any(op["kind"] == "unlock" and op["start"] <= end for op in ops)
    granted = acknowledged(other) and before(other, write)
    return {"landed"} if granted and seen and not freed else set()


CHECKS: dict[str, tuple[Fold, str, Callable[[random.Random], list[Op]], Callable[[list[Op]], Truth]]] = {
    "append": (appends.FOLD, "append", append, append_truth),
    "publish": (publishing.FOLD, "publish", publish, publish_truth),
    "exclusive": (names.FOLD, "exclusive-create", exclusive, exclusive_truth),
    "readdir": (names.FOLD, "readdir", readdir, readdir_truth),
    "durability": (survival.FOLD, "durability", durability, durability_truth),
    "checkpoint": (checkpoints.FOLD, "checkpoint", checkpoint, checkpoint_truth),
    "counter": (locking.FOLD, "lost-update", counter, counter_truth),
    "zombie": (survival.FOLD, "zombie-write", zombie, zombie_truth),
}


def batch(workload: str, histories: list[list[Op]]) -> pa.RecordBatch:
    """All histories in one batch; contents and descriptors are numbered apart."""
    rows: list[Op] = [
        {**op, "object": f"o{key}", "key": key} for key, ops in enumerate(histories) for op in ops
    ]
    fill: dict[str, Callable[[Op], Any]] = {
        "op_id": lambda row: None,
        "workload": lambda row: workload,
        "client": lambda row: row.get("process", "n"),
        "process": lambda row: row.get("process", "n"),
        "owner": lambda row: f"{row['key']}{row['owner']}" if "owner" in row else None,
        "phase": lambda row: row.get("phase", ""),
        "outcome": lambda row: row.get("outcome", "ok"),
        "start_lo": lambda row: row["start"],
        "start_hi": lambda row: row["start"],
        "end_lo": lambda row: None if row.get("outcome") == "info" else row["end"],
        "end_hi": lambda row: None if row.get("outcome") == "info" else row["end"],
        "token": lambda row: row["key"] * 128 + row["token"] if row.get("token") else row.get("token"),
        "handle": lambda row: row["key"] * 128 + row["handle"] if "handle" in row else None,
        "intact": lambda row: row.get("intact", True),
    }
    arrays = []
    for field in HISTORY_SCHEMA:
        if field.name == "op_id":
            arrays.append(pa.array(range(len(rows)), pa.int64()))
            continue
        take = fill.get(field.name, lambda row, name=field.name: row.get(name))
        arrays.append(pa.array([take(row) for row in rows], field.type))
    return pa.record_batch(arrays, schema=HISTORY_SCHEMA)


def found(fold: Fold, promise: str, data: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    tables = Tables()
    run_folds([data], [fold], tables)
    for breach in tables.of(Breach):
        if breach.promise == promise:
            yield int(breach.object[1:]), breach.kind


@pytest.mark.parametrize("workload", list(CHECKS))
def test_agrees_with_its_definition(workload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analyzer.analysis.breaches.MOST_KEPT", _BLOCK * 10)
    fold, promise, make, truth = CHECKS[workload]
    rng = random.Random(9)
    broken = 0
    for _ in range(HISTORIES // _BLOCK):
        histories = [make(rng) for _ in range(_BLOCK)]
        kinds: dict[int, Truth] = {}
        for key, kind in found(fold, promise, batch(workload, histories)):
            kinds.setdefault(key, set()).add(kind)
        for key, ops in enumerate(histories):
            expected = truth(ops)
            broken += bool(expected)
            assert kinds.get(key, set()) == expected, ops
    assert 0.05 < broken / HISTORIES < 0.95, "both verdicts are common"
