"""One-line text form of operations, for rules, documentation and tests.

    TIME CLIENT KIND OBJECT [WORD ...] [-> STATUS] [COLUMN=VALUE ...]

    0.024..0.026 B lock f 0+10 write blocking -> DENIED holder_clientid=A holder_owner=a
    5.527..5.528 A unlock f 0+eof
    1.0..        A write f 0+4096 unstable          # the call was seen, the answer never

* TIME is seconds: `START..END`, `START..` (never answered), or `AT` (start and end are the same).
* OBJECT is a file (`-` for none); its path is `/OBJECT`.
* WORD: a range `OFFSET+LENGTH` or `OFFSET+eof`; `read` or `write` (lock type); `reclaim`, `blocking`,
  `callback`, `create`; `unstable`, `data_sync` or `file_sync`.
* STATUS: `ok`, a protocol's status name (`DENIED`), or `NAME:CODE` where the number matters.
* Any column of `EVENT_SCHEMA` can be set by name. `#` begins a comment.

Operations of workers (`witness="client"`, columns of `HISTORY_SCHEMA`) have more words:

    workload register                               # a line of its own: of what follows
    0~0.1..1~1.1 A.2 write f =7 v3 info             # bounds; node A, worker A.2; token 7; sequence 3
    2..2.1       B read f =7 torn -> EIO            # outcome info; checksum wrong; a status by errno's name

* `LOW~HIGH` bounds a time that isn't known exactly. `info`: may have happened. `torn`: `intact` is false.
* What isn't said there: protocol posix, the worker as lock owner, `intact`.

What isn't said: protocol nfs4.1, endpoint server:2049, the client's name as its clientid and in its
connection and session, one operation per COMPOUND, and frame references `example#N` in line order.
"""

from __future__ import annotations

import errno
import re
from typing import Any

import pyarrow as pa

from analyzer.core.errors import NotationError
from analyzer.core.nfs4 import STATUS_CODES
from analyzer.core.operations import build, in_stream_order
from analyzer.core.schema import KINDS, SCHEMA_OF

NS = 1_000_000_000
_RANGE = re.compile(r"(\d+)\+(\d+|eof)$")
_TIME = re.compile(r"(\d+(?:\.\d+)?)(\.\.(\d+(?:\.\d+)?)?)?$")
_NUMBER = r"(\d+(?:\.\d+)?)"
_BOUNDED = rf"{_NUMBER}(?:~{_NUMBER})?"
_BOUNDS = re.compile(rf"{_BOUNDED}(?:(\.\.)(?:{_BOUNDED})?)?$")
_COUNT = re.compile(r"(=|v)(-?\d+)$")
_FLAGS = {"reclaim", "blocking", "callback", "create"}
_STABLE = {"unstable", "data_sync", "file_sync"}

#: The operation that a kind stands for where `op=` isn't given.
DEFAULT_OP = {
    "open": "OPEN",
    "close": "CLOSE",
    "lock": "LOCK",
    "lock_test": "LOCKT",
    "unlock": "LOCKU",
    "read": "READ",
    "write": "WRITE",
    "commit": "COMMIT",
    "rename": "RENAME",
    "create": "CREATE",
    "remove": "REMOVE",
    "lookup": "LOOKUP",
    "getattr": "GETATTR",
    "setattr": "SETATTR",
    "access": "ACCESS",
    "readdir": "READDIR",
    "session": "SEQUENCE",
    "delegation": "DELEGRETURN",
    "recall": "CB_RECALL",
    "notify_lock": "CB_NOTIFY_LOCK",
    "stateid": "TEST_STATEID",
}


def parse_events(text: str, witness: str = "wire") -> pa.RecordBatch:
    """A batch in stream order from lines of the notation; raises `NotationError` naming the line."""
    rows: list[dict[str, Any]] = []
    workload = None
    for number, written in enumerate(text.splitlines(), 1):
        line = written.split(" #")[0].strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("workload "):
            workload = line.split()[1]
            continue
        try:
            rows.append(_row(line, len(rows), witness, workload))
        except (ValueError, KeyError, IndexError) as error:
            raise NotationError(f"line {number}: {line!r}: {error}") from error
    return in_stream_order(build(rows, SCHEMA_OF[witness]))


def _row(line: str, index: int, witness: str, workload: str | None) -> dict[str, Any]:
    when, client, kind, target, *words = line.split()
    if kind not in KINDS:
        raise ValueError(f"no such kind: {kind}")
    row: dict[str, Any] = {
        "op_id": index,
        "witness": witness,
        "kind": kind,
        "status": "ok",
        "status_code": 0,
        "attempts": 1,
        "at_call": f"example#{2 * index + 1}",
    }
    row |= _of_worker(client, workload) if witness == "client" else _of_packet(client, kind, index)
    if target != "-":
        row |= {"object": target, "path": f"/{target}"}
    row |= _times(when, index) if witness == "wire" else _bounds(when, index)
    expect_status = False
    for word in words:
        row |= _word(word, kind, expect_status, witness)
        expect_status = word == "->"
    if expect_status:
        raise ValueError("no status after ->")
    if row["end_lo"] is None:
        row |= {"status": None, "status_code": None, "outcome": "info", "at_return": None}
    elif "outcome" not in row:
        row["outcome"] = "ok" if row["status_code"] == 0 else "fail"
    if kind == "write" and row.get("bytes") is None and (row.get("length") or 0) > 0:
        row["bytes"] = row["length"]
    return row


def _of_packet(client: str, kind: str, index: int) -> dict[str, Any]:
    return {
        "client": client,
        "clientid": client,
        "protocol": "nfs4.1",
        "endpoint": "server:2049",
        "op": DEFAULT_OP.get(kind, kind.upper()),
        "connection": f"{client}:900>server:2049",
        "session": f"session-{client}",
        "callback": kind in ("recall", "notify_lock"),
        "compound": index,
        "position": 0,
        "xid": index,
    }


def _of_worker(client: str, workload: str | None) -> dict[str, Any]:
    node = client.partition(".")[0]
    return {
        "client": node,
        "process": client,
        "owner": client,
        "protocol": "posix",
        "workload": workload,
        "intact": True,
    }


def _bounds(when: str, index: int) -> dict[str, Any]:
    match = _BOUNDS.match(when)
    if match is None:
        raise ValueError(f"no time: {when}")
    start_lo = _ns(match[1])
    start_hi = _ns(match[2]) if match[2] else start_lo
    if match[3] and not match[4]:
        return {"start_lo": start_lo, "start_hi": start_hi, "end_lo": None, "end_hi": None}
    end_lo = _ns(match[4]) if match[4] else start_lo
    end_hi = _ns(match[5]) if match[5] else (end_lo if match[4] else start_hi)
    if not start_lo <= min(start_hi, end_lo) or end_lo > end_hi:
        raise ValueError(f"ends before it starts: {when}")
    times = {"start_lo": start_lo, "start_hi": start_hi, "end_lo": end_lo, "end_hi": end_hi}
    return {**times, "at_return": f"example#{2 * index + 2}"}


def _times(when: str, index: int) -> dict[str, Any]:
    match = _TIME.match(when)
    if match is None:
        raise ValueError(f"no time: {when}")
    start = _ns(match[1])
    end = _ns(match[3]) if match[3] else (None if match[2] else start)
    if end is not None and end < start:
        raise ValueError(f"ends before it starts: {when}")
    found: dict[str, Any] = {"start_lo": start, "start_hi": start, "end_lo": end, "end_hi": end}
    if end is not None:
        found["at_return"] = f"example#{2 * index + 2}"
    return found


def _ns(seconds: str) -> int:
    whole, _, part = seconds.partition(".")
    return int(whole) * NS + int((part + "0" * 9)[:9])


def _word(word: str, kind: str, expect_status: bool, witness: str) -> dict[str, Any]:
    if expect_status:
        name, _, code = word.partition(":")
        known = STATUS_CODES.get(name) if witness == "wire" else getattr(errno, name, None)
        if not code and name != "ok" and known is None:
            raise ValueError(f"the number of status {name} isn't known: write {name}:NUMBER")
        return {"status": name, "status_code": int(code) if code else known or 0}
    if witness == "client" and (match := _COUNT.match(word)):
        return {"token" if match[1] == "=" else "sequence": int(match[2])}
    if witness == "client" and word in ("info", "torn"):
        return {"outcome": "info"} if word == "info" else {"intact": False}
    if word == "->":
        return {}
    if match := _RANGE.match(word):
        return {"offset": int(match[1]), "length": -1 if match[2] == "eof" else int(match[2])}
    if word in ("read", "write"):
        return {"lock_type": word}
    if word in _FLAGS:
        return {word: True}
    if word in _STABLE:
        return {"stable": word, "committed": word}
    name, equals, value = word.partition("=")
    if not equals:
        raise ValueError(f"can't read {word!r}")
    return {name: _value(name, value, SCHEMA_OF[witness])}


def _value(name: str, text: str, schema: pa.Schema) -> Any:
    kind = schema.field(name).type
    if pa.types.is_integer(kind):
        return int(text, 0)
    if pa.types.is_boolean(kind):
        return text == "true"
    return text
