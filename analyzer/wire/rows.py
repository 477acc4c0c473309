"""Calls and replies, joined → record batches of operations, before identities and paths are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.core import nfs4 as names
from analyzer.core.schema import EVENT_SCHEMA, TEXT
from analyzer.wire import columns as col
from analyzer.wire import handles
from analyzer.wire.grammar import Message
from analyzer.wire.packets import Int64s
from analyzer.wire.protocols import nfs4
from analyzer.wire.side import NULL, Side, Vocabulary, integers
from analyzer.wire.values import CALLBACK

#: What a decoder yields: the columns of the operations table that it can fill, and some that are
#: needed to resolve identities and paths later (connection number, parent handle, relative path).
RESOLVED_LATER: Final = ("op_id", "witness", "client", "process", "endpoint", "path", "connection")
WIRE_SCHEMA: Final = pa.schema(
    [f for f in EVENT_SCHEMA if f.name not in RESOLVED_LATER]
    + [
        pa.field("wire", pa.int64()),  # connection * 2 + direction of the call
        pa.field("parent", TEXT),
        pa.field("relative", TEXT),
        pa.field("entries", TEXT),  # READDIR: names, tab, handles, see `GroupValues.listing`
    ]
)
ROOT_HANDLE: Final = "root"

_CLAIMS = ("null", "previous", "delegate_cur", "delegate_prev", "fh", "deleg_cur_fh", "deleg_prev_fh")
_DELEGATIONS = ("none", "read", "write", "none_ext")
_STABLE = ("unstable", "data_sync", "file_sync")
_LOCK_TYPES = (None, "read", "write", "read", "write")
#: RPC rejected the call (RFC 5531: MSG_DENIED or an accept status): there are no results.
REJECTED: Final = "RPC_REJECTED"


@dataclass(frozen=True, slots=True)
class Joined:
    """Messages to turn into rows. `call` and `reply` hold message fields of equal length; without
    `reply` the calls were never answered."""

    call: dict[str, Int64s]
    reply: dict[str, Int64s] | None
    attempts: Int64s
    call_side: Side
    reply_side: Side
    plans: list[Message]
    words: Vocabulary
    file_names: tuple[str, ...]


def spread(first: Int64s, count: Int64s) -> Int64s:
    """Rows first..first+count of each message, one after the other."""
    starts = np.cumsum(count) - count
    return np.repeat(first - starts, count) + np.arange(int(count.sum()))


def assemble(joined: Joined) -> pa.RecordBatch:
    """One row per operation, in the order of the replies (calls, if unanswered)."""
    rows = _Rows(joined)
    columns = rows.columns()
    return pa.record_batch([columns[f.name] for f in WIRE_SCHEMA], schema=WIRE_SCHEMA)


class _Rows:
    def __init__(self, joined: Joined) -> None:
        call, reply = joined.call, joined.reply
        self.joined, self.answered = joined, reply is not None
        executed = call["ops"] if reply is None else np.minimum(reply["ops"], call["ops"])
        if reply is not None:
            # the RPC was rejected, or the COMPOUND as a whole: its first operation stands for it
            self.rejected = (reply["ops"] == 0) & (call["ops"] > 0)
            executed = np.where(self.rejected, 1, executed)
        self.count = executed
        self.message = np.repeat(np.arange(len(executed)), executed)
        self.position = spread(np.zeros(len(executed), dtype=np.int64), executed)
        self.call_rows = call["first"][self.message] + self.position
        if reply is None:
            self.reply_rows = np.full(len(self.message), -1, dtype=np.int64)
        else:
            self.reply_rows = np.where(
                self.rejected[self.message], -1, reply["first"][self.message] + self.position
            )

    def sent(self, name: str) -> Int64s:
        """A column of the call side."""
        return self.joined.call_side.take(name, self.call_rows)

    def got(self, name: str) -> Int64s:
        """A column of the reply side; NULL where there is no reply."""
        if not self.answered or name not in self.joined.reply_side.columns:
            return np.full(len(self.message), NULL, dtype=np.int64)
        found = self.joined.reply_side.columns[name]
        if not len(found):
            return np.full(len(self.message), NULL, dtype=np.int64)
        return np.where(self.reply_rows >= 0, found[self.reply_rows], NULL)

    def either(self, name: str) -> Int64s:
        """The call's value, or else the reply's."""
        first = self.sent(name)
        return np.where(first == NULL, self.got(name), first)

    def per_compound(self, values: Int64s) -> Int64s:
        """A value that one operation of a COMPOUND holds (SEQUENCE), on all of its rows."""
        spread_over = np.full(len(self.count), NULL, dtype=np.int64)
        where = np.flatnonzero(values != NULL)[::-1]  # the first operation that has one wins
        spread_over[self.message[where]] = values[where]
        return spread_over[self.message]

    def columns(self) -> dict[str, pa.Array]:
        """All columns of `WIRE_SCHEMA`."""
        words = self.joined.words
        text = words.decode
        handles = _HandleColumns(self)
        flags, status = self.got("flags"), self._status()
        op = self.sent("op")
        lock_type = self.sent("lock_type")
        claim = self.sent("claim")
        reclaim = np.where(claim == NULL, self.sent("reclaim"), np.where(claim == 1, 1, NULL))
        length = self._length(op)
        found: dict[str, pa.Array] = {
            "owner": text(self.sent("owner")),
            "protocol": self._protocol(),
            "object": text(handles.current),
            "kind": _named(op, lambda n: names.KIND_OF.get(_op_name(n), "other")),
            "op": _named(op, _op_name),
            "lock_type": _named(lock_type, lambda n: _member(_LOCK_TYPES, n)),
            "value": text(self.either("value")),
            "status": _named(status, lambda n: REJECTED if n < 0 else names.status_name(n)),
            "session": text(self.per_compound(self.either("session"))),
            "clientid": text(self.either("clientid")),
            "identity": text(self.sent("identity")),
            "stateid": text(self.sent("stateid")),
            "new_stateid": text(self.got("new_stateid")),
            "claim": _named(claim, lambda n: _member(_CLAIMS, n)),
            "delegation": _named(self.got("delegation"), lambda n: _member(_DELEGATIONS, n)),
            "delegation_stateid": text(self.got("delegation_stateid")),
            "holder_clientid": text(self.got("holder_clientid")),
            "holder_owner": text(self.got("holder_owner")),
            "holder_type": _named(self.got("holder_type"), lambda n: _member(_LOCK_TYPES, n)),
            "stable": _named(self.sent("stable"), lambda n: _member(_STABLE, n)),
            "committed": _named(self.got("committed"), lambda n: _member(_STABLE, n)),
            "name": text(self.sent("name")),
            "new_name": text(self.sent("new_name")),
            "new_object": text(handles.found),
            "parent": text(handles.parent),
            "relative": text(handles.relative),
            "entries": text(self.got("entries")),
            "results": _named(self.got("results"), self._results),
            "tag": pa.nulls(len(op), TEXT),
        }
        numbers = {
            "offset": self.sent("offset"),
            "length": length,
            "bytes": self.got("bytes"),
            "status_code": status,
            "flags": flags,
            "slot": self.per_compound(self.sent("slot")),
            "slot_seq": self.per_compound(self.sent("slot_seq")),
            "reclaim": reclaim,
            "blocking": np.where(lock_type == NULL, NULL, lock_type >= 3),
            "create": self.sent("create"),
            "xid": self.joined.call["xid"][self.message],
            "position": self.position,
            "compound": self.message,  # made unique later
            "attempts": self.joined.attempts[self.message],
            "callback": (op >= CALLBACK).astype(np.int64),
            "wire": (self.joined.call["connection"] * 2 + self.joined.call["up"])[self.message],
        }  # fmt: skip
        for name in ("owner_seq", "stateid_seq", "share_access", "share_deny", "one_fs"):
            numbers[name] = self.sent(name)
        for name in (
            "target_slot", "new_stateid_seq", "holder_offset", "holder_length", "size",
            "lease_seconds", "max_slots", "max_read", "max_write",
        ):  # fmt: skip
            numbers[name] = self.got(name)
        for name, values in numbers.items():
            found[name] = integers(values, WIRE_SCHEMA.field(name).type)
        found |= self._times(status)
        return found

    def _results(self, code: int) -> str:
        return ",".join(names.status_name(int(n)) for n in self.joined.words.words[code].split(","))

    def _status(self) -> Int64s:
        if not self.answered:
            return np.full(len(self.message), NULL, dtype=np.int64)
        status = self.got("status")
        reply = self.joined.reply
        assert reply is not None
        whole = np.where(reply["status"] == NULL, -1, reply["status"])
        # a COMPOUND status of 0 without any result can't be: the RPC layer rejected the call
        whole = np.where(whole == 0, -1, whole)
        return np.where(self.rejected[self.message], whole[self.message], status)

    def _length(self, op: Int64s) -> Int64s:
        length = self.sent("length")
        length = np.where((op == nfs4.COMMIT) & (length == 0), -1, length)
        # the arguments of WRITE tell no length to tshark: what the server took does
        return np.where((op == nfs4.WRITE) & (length == NULL), self.got("bytes"), length)

    def _protocol(self) -> pa.Array:
        minor = self.joined.call["minor"][self.message]
        return _named(np.where(minor == NULL, 1, minor), lambda n: f"nfs4.{n}")

    def _times(self, status: Int64s) -> dict[str, pa.Array]:
        call, reply, at = self.joined.call, self.joined.reply, self.message
        start = pa.array(call["time"][at])
        found = {"start_lo": start, "start_hi": start, "at_call": self._refs(call)}
        if reply is None:
            empty = pa.nulls(len(at), pa.int64())
            outcome = _named(np.zeros(len(at), dtype=np.int64), lambda _: "info")
            none = pa.nulls(len(at), pa.string())
            return found | {"end_lo": empty, "end_hi": empty, "outcome": outcome, "at_return": none}
        # a capture point's stamps may run backwards by some microseconds between two interfaces
        end = pa.array(np.maximum(reply["time"], call["time"])[at])
        outcome = _named((status == 0).astype(np.int64), lambda n: "ok" if n else "fail")
        return found | {"end_lo": end, "end_hi": end, "outcome": outcome, "at_return": self._refs(reply)}

    def _refs(self, fields: dict[str, Int64s]) -> pa.StringArray:
        files = pa.array(self.joined.file_names).take(pa.array(fields["file"]))
        frames = pa.array(fields["frame"]).cast(pa.string())
        return col.joined((files, frames), "#").take(pa.array(self.message))


class _HandleColumns:
    """Object, parent, found handle and relative path of each row, one plan at a time."""

    def __init__(self, rows: _Rows) -> None:
        size = len(rows.message)
        words = rows.joined.words
        self.current, self.parent, self.found, self.relative = (
            np.full(size, NULL, dtype=np.int64) for _ in range(4)
        )
        root = words.code(ROOT_HANDLE)
        sent = rows.joined.call_side.columns.get("fh")
        got = rows.joined.reply_side.columns.get("fh") if rows.answered else None
        plan = rows.joined.call["plan"]
        starts = np.cumsum(rows.count) - rows.count

        def value(messages: Int64s, source: tuple[int, int]) -> Int64s:
            kind, at = source
            if kind == handles.ROOT:
                return np.full(len(messages), root, dtype=np.int64)
            if kind == handles.FROM_CALL and sent is not None:
                return sent[rows.joined.call["first"][messages] + at]
            if kind == handles.FROM_REPLY and got is not None and rows.joined.reply is not None:
                there = rows.joined.reply["ops"][messages] > at
                place = rows.joined.reply["first"][messages] + at
                return np.where(there, got[np.minimum(place, len(got) - 1)], NULL)
            return np.full(len(messages), NULL, dtype=np.int64)

        order = np.argsort(plan, kind="stable")
        unique, begins = np.unique(plan[order], return_index=True)
        for code, messages in zip(unique.tolist(), np.split(order, begins[1:]), strict=True):
            if code == NULL or rows.joined.plans[code].callback:
                self._callbacks(rows, messages, starts, sent)
                continue
            flow = handles.handles(rows.joined.plans[code].steps)
            for k in range(len(flow.current)):
                chosen = messages[rows.count[messages] > k]
                if not len(chosen):
                    break
                at = starts[chosen] + k
                self.current[at] = value(chosen, flow.current[k])
                if flow.names[k] or flow.parent[k][0]:
                    self.parent[at] = value(chosen, flow.parent[k])
                if flow.found[k] >= 0:
                    self.found[at] = value(chosen, (handles.FROM_REPLY, flow.found[k]))
                if flow.names[k]:
                    self.relative[at] = self._relative(rows, chosen, flow.names[k])

    def _callbacks(self, rows: _Rows, messages: Int64s, starts: Int64s, sent: Int64s | None) -> None:
        if sent is None:
            return
        for message in messages.tolist():
            low, size = starts[message], rows.count[message]
            self.current[low : low + size] = sent[rows.call_rows[low : low + size]]

    def _relative(self, rows: _Rows, messages: Int64s, positions: tuple[int, ...]) -> Int64s:
        names_of = rows.joined.call_side.columns.get("name")
        if names_of is None:
            return np.full(len(messages), NULL, dtype=np.int64)
        first = rows.joined.call["first"][messages]
        parts = np.stack([names_of[first + p] for p in positions])
        if len(positions) == 1:
            alone: Int64s = parts[0]
            return alone
        unique, inverse = np.unique(parts, axis=1, return_inverse=True)
        words = rows.joined.words
        joined = [
            NULL if NULL in column else words.code("/".join(words.words[c] for c in column))
            for column in unique.T.tolist()
        ]
        return np.array(joined, dtype=np.int64)[inverse.ravel()]


def _op_name(number: int) -> str:
    return names.operation_name(number % CALLBACK, number >= CALLBACK)


def _member(words: tuple[str | None, ...], number: int) -> str | None:
    return words[number] if 0 <= number < len(words) else None


def _named(values: Int64s, name: object) -> pa.DictionaryArray:
    """Small integers → words, one call of `name` per distinct value."""
    unique, inverse = np.unique(values, return_inverse=True)
    assert callable(name)
    words = [None if n == NULL else name(n) for n in unique.tolist()]
    position = {w: i for i, w in enumerate(dict.fromkeys(w for w in words if w is not None))}
    index = np.array([-1 if w is None else position[w] for w in words], dtype=np.int32)[inverse.ravel()]
    missing = index < 0
    indices = pa.array(index, mask=missing if missing.any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(position), type=pa.string()))
