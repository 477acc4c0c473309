"""Frames that the bulk decoder can't tell apart, and frames that a report cites: decoded by pyshark.

The frames are copied, with those before them on their connection (a reply is understood only after its
call, a record only with all its segments), into a small capture that a child process decodes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from analyzer.core.nfs4 import operation_name, status_name
from analyzer.wire.frame_index import FrameIndex
from analyzer.wire.grammar import Message, Part, Step
from analyzer.wire.protocols import nfs4
from analyzer.wire.side import Side, Vocabulary, readable
from analyzer.wire.tshark import Order, Tshark, options
from analyzer.wire.values import CALLBACK, TEXT, targets

#: Frames before a wanted one that go along, on the same connection.
CONTEXT: Final = 64
#: The child is given up after so long.
TIMEOUT_SECONDS: Final = 120
#: bytes of a handle that tshark's columns show; both decoders must name a file alike
_HANDLE_DIGITS: Final = 72
_SHORT: Final = {field: name for name, field in nfs4.FIELDS.items()}
_NUMBER_FIELDS: Final = ("nfs.opcode", "nfs.cb.operation")


@dataclass(frozen=True, slots=True)
class DeepMessage:
    """One RPC message as pyshark saw it. `values` holds, per step, the values of each field."""

    xid: int
    message: Message
    minor: int | None
    values: tuple[dict[str, list[str]], ...]


def decode(
    wanted: Sequence[int], index: FrameIndex, tshark: Tshark, order: Order, scratch: Path
) -> dict[int, list[DeepMessage]]:
    """Messages of the wanted rows of the index; a frame that pyshark couldn't read is missing."""
    target = scratch / "deep.pcap"
    rows = index.with_context(wanted, CONTEXT)
    index.write_pcap(target, rows)
    needed = set(wanted)
    found: dict[int, list[DeepMessage]] = {}
    for number, layers in run_child(target, tshark, order):
        row = rows[number - 1]
        if row in needed and (messages := _messages(layers)) is not None:
            found[row] = messages
    target.unlink()
    return found


def run_child(
    capture: Path, tshark: Tshark, order: Order
) -> Iterator[tuple[int, list[tuple[str, dict[str, Any]]]]]:
    """(frame number, layers) of every RPC frame, as the child prints them; none if it fails."""
    command = [sys.executable, "-m", "analyzer.wire.deep_child", tshark.path, str(capture), *options(order)]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.splitlines():
        record = orjson.loads(line)
        yield record["number"], record["layers"]


def summary(deep: DeepMessage) -> str:
    """One line for people: call or reply, then each operation with its status and values."""
    parts = []
    for step, cells in zip(deep.message.steps, deep.values, strict=True):
        said = [operation_name(step.number, deep.message.callback)]
        if not deep.message.call:
            said.append(status_name(step.status))
        said += [f"{n}={','.join(_shown(n, v))}" for n, v in cells.items() if n not in _QUIET]
        parts.append(" ".join(said))
    kind = "call" if deep.message.call else "reply"
    return f"{kind} xid 0x{deep.xid:08x}: {'; '.join(parts) or 'no operations'}"


NFS_PROGRAM: Final = "100003"
_QUIET: Final = frozenset({"entries", "session", "seq", "slot", "target", "stateid_seq", "data", "handle"})


def _shown(name: str, values: list[str]) -> list[str]:
    if name in ("open_owner", "lock_owner", "identity"):
        return [readable(v) for v in values]
    return values


# --- from trees to messages ----------------------------------------------------------------------


def _messages(layers: list[tuple[str, dict[str, Any]]]) -> list[DeepMessage] | None:
    """One message per RPC layer; None where the layers don't fit together."""
    rpc = [fields for name, fields in layers if name == "rpc" and "rpc.xid" in fields]
    nfs = _in_order(rpc, layers)
    if nfs is None:
        return None
    found = []
    for place, (outer, inner) in enumerate(zip(rpc, nfs, strict=True)):
        message = _message(place, outer, inner)
        if message is None:
            return None
        found.append(message)
    return found


def _in_order(
    rpc: list[dict[str, Any]], layers: list[tuple[str, dict[str, Any]]]
) -> list[dict[str, Any]] | None:
    """The NFS layer of each RPC layer. Layers of one name come together, so that where a frame holds a
    callback's reply beside a call of the client's own, only the program number tells which is whose."""
    names = [name for name, _ in layers if name != "rpc"]
    if len(names) != len(rpc):
        return None
    if len(set(names)) > 1:
        own = sum(str(fields.get("rpc.program")) == NFS_PROGRAM for fields in rpc)
        if own != names.count("nfs") or any("rpc.program" not in fields for fields in rpc):
            return None
        names = ["nfs" if str(fields["rpc.program"]) == NFS_PROGRAM else "nfs.cb" for fields in rpc]
    waiting: dict[str, Iterator[dict[str, Any]]] = {
        name: iter([fields for other, fields in layers if other == name]) for name in set(names)
    }
    return [next(waiting[name]) for name in names]


def _message(place: int, outer: dict[str, Any], inner: dict[str, Any]) -> DeepMessage | None:
    call = str(outer.get("rpc.msgtyp")) == "0"
    numbers, trees, callback = _operations(inner)
    if trees is None or _promised(inner) > len(numbers):
        return None  # tshark shows no more than 128 operations of a COMPOUND
    # tshark 4.0 hangs the sequence id of LOCKU on the COMPOUND instead of on the operation
    stray = [str(v) for v in _listed(inner.get("nfs.seqid", []))] if call else []
    status = inner.get("nfs.nfsstat4")
    whole = -1 if call or status is None else int(_first(status), 0)
    steps, values = [], []
    for number, tree in zip(numbers, trees, strict=True):
        cells: dict[str, list[str]] = {}
        _collect(tree, cells)
        if stray and call and not callback and number == nfs4.LOCKU and "seq" not in cells:
            cells["seq"] = [stray.pop(0)]
        codes = [int(c, 0) for c in cells.get("status", [])]
        code = -1 if call or not codes else codes[0]
        allowed = nfs4.expected(number, call, callback, code)
        listing = {"handle", "entries"} if number == nfs4.READDIR and not call and not callback else set()
        keep = allowed | listing | {"hash"}
        kept = {n: _cleaned(n, v) for n, v in cells.items() if n in keep}
        parts = tuple(
            part for name, found in kept.items() if name in allowed for part in _parts(name, len(found))
        )
        results = tuple(codes[1:]) if number == nfs4.TEST_STATEID and not call else ()
        steps.append(Step(number, parts, code, results))
        values.append(kept)
    minor = inner.get("nfs.minorversion")
    message = Message(place, call, callback, tuple(steps), whole)
    return DeepMessage(
        int(outer["rpc.xid"], 0), message, None if minor is None else int(minor, 0), tuple(values)
    )


def _operations(inner: dict[str, Any]) -> tuple[list[int], list[dict[str, Any]] | None, bool]:
    """Operation numbers, their trees (None if they can't be told apart), and whether callbacks."""
    for tree in _dictionaries(inner):
        for callback, field in enumerate(_NUMBER_FIELDS):
            if field in tree:
                numbers = [int(n, 0) for n in _listed(tree[field])]
                trees = _listed(tree.get(f"{field}_tree", []))
                if not trees:
                    trees = [{} for _ in numbers]
                usable = [t if isinstance(t, dict) else {} for t in trees]
                return numbers, usable if len(usable) == len(numbers) else None, bool(callback)
    return [], [], False


def _promised(inner: dict[str, Any]) -> int:
    """How many operations a COMPOUND says that it holds; 0 where it doesn't say."""
    told = (tree["nfs.ops.count"] for tree in _dictionaries(inner) if "nfs.ops.count" in tree)
    return int(_first(next(told, 0)), 0)


def _dictionaries(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for value in tree.values():
        for item in _listed(value):
            if isinstance(item, dict):
                yield from _dictionaries(item)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _first(value: Any) -> str:
    return str(_listed(value)[0])


def _collect(tree: dict[str, Any], cells: dict[str, list[str]]) -> None:
    """All known fields below a tree, in order."""
    for field, value in tree.items():
        name = _SHORT.get(field)
        for item in _listed(value):
            if isinstance(item, dict):
                _collect(item, cells)
            elif name is not None:
                cells.setdefault(name, []).append(str(item))


def _cleaned(name: str, values: list[str]) -> list[str]:
    if name in ("name", "entries"):
        return values
    plain = [value.replace(":", "") for value in values]
    if name == "handle":
        return [v if len(v) <= _HANDLE_DIGITS else v[:_HANDLE_DIGITS] + "…" for v in plain]
    return plain


def _parts(name: str, count: int) -> Iterator[Part]:
    if name == "name":
        yield Part(name, 0, count)
    elif name in nfs4.FLOATING:
        if count == 1:
            yield Part(name, 0, 1)
    else:
        for index in range(count):
            yield Part(name, index, 1)


def fill_deep(side: Side, row: int, deep: DeepMessage, words: Vocabulary) -> None:
    """Write one message; `row` is that of its first operation. The twin of `values.fill`."""
    message = deep.message
    for k, (step, cells) in enumerate(zip(message.steps, deep.values, strict=True)):
        at = np.array([row + k])
        side.put("op", at, step.number + (CALLBACK if message.callback else 0))
        if not message.call:
            side.put("status", at, step.status)
            if step.results:
                side.put("results", at, words.code(",".join(map(str, step.results))))
            if step.number == nfs4.READDIR and not message.callback and "entries" in cells:
                told = [",".join(cells["entries"]), ",".join([*cells.get("handle", []), *cells["hash"]])]
                side.put("entries", at, words.code("\t".join(told)))
        for part, name in targets(step, message.call, message.callback):
            cell = cells[part.name][part.first]
            if part.name == "handle":
                cell = f"{cell}/{cells['hash'][part.first]}"
            side.put(name, at, words.code(cell) if name in TEXT else _number(cell))
            if name == "name" and part.count == 2:
                side.put("new_name", at, words.code(cells["name"][1]))


def _number(cell: str) -> int:
    value = int(cell, 0)
    return value if value < 1 << 63 else value - (1 << 64)
