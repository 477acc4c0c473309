"""The fold that follows byte-range locks: picks the few operations that matter, vectorised, and plays
them on the lock state of their server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyzer.analysis.lock_rows import LockRows
from analyzer.analysis.lock_server import ServerLocks
from analyzer.analysis.locks import (
    LockConflict,
    LockCycle,
    LockFile,
    LockHold,
    LockLost,
    LockRefusal,
    LockServer,
    LockTrespass,
    LockWait,
)
from analyzer.core.operations import Operation, operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]

READS = (
    "client",
    "owner",
    "protocol",
    "endpoint",
    "object",
    "path",
    "kind",
    "offset",
    "length",
    "lock_type",
    "value",
    "start_lo",
    "end_hi",
    "status",
    "status_code",
    "bytes",
    "at_call",
    "at_return",
    "op",
    "position",
    "connection",
    "flags",
    "clientid",
    "owner_seq",
    "stateid",
    "new_stateid",
    "reclaim",
    "blocking",
    "holder_clientid",
    "holder_owner",
    "holder_offset",
    "holder_length",
    "holder_type",
    "one_fs",
)
#: Files with a lock table at once, over all servers; idle ones are written and forgotten.
MAX_TABLES = 10_000
#: Operations that tell who a client is or that its recovery is over.
SESSION_OPS = frozenset(
    {"EXCHANGE_ID", "SETCLIENTID", "SETCLIENTID_CONFIRM", "CREATE_SESSION", "RECLAIM_COMPLETE"}
)
#: GRACE, EXPIRED, STALE_CLIENTID, BAD_STATEID, ADMIN_REVOKED, BADSESSION, DEADSESSION.
TELLING = (10011, 10013, 10022, 10025, 10047, 10052, 10078)
MAY_NOTIFY = 0x20  # OPEN4_RESULT_MAY_NOTIFY_LOCK, RFC 8881 section 18.16.1


def codes_of(column: pa.DictionaryArray) -> tuple[list[str | None], Codes]:
    """Words and codes of a dictionary column; the last word is None, for null."""
    words = [*column.dictionary.to_pylist(), None]
    codes = column.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
    return words, codes.astype(np.int64, copy=False)


def among(column: pa.DictionaryArray, wanted: Iterable[str]) -> Mask:
    """Which rows have one of these words."""
    words, codes = codes_of(column)
    chosen = frozenset(wanted)
    table: Mask = np.fromiter((w in chosen for w in words), dtype=bool, count=len(words))
    return table[codes]


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    filled = column.fill_null(0) if column.null_count else column
    found: npt.NDArray[np.int64] = filled.to_numpy(zero_copy_only=False)
    return found


class Walk:
    """Batches in, rows out. `servers` holds the lock state by endpoint."""

    def __init__(self, tables: Tables) -> None:
        self._rows = LockRows(tables)
        self.servers: dict[str, ServerLocks] = {}
        self._last_ns = 0

    def feed(self, batch: pa.RecordBatch) -> None:
        """One batch of all operations."""
        kind = batch.column("kind")
        locks = among(kind, ("lock", "unlock"))
        ok = _numbers(batch.column("status_code")) == 0
        answered = batch.column("end_hi").is_valid().to_numpy(zero_copy_only=False)
        ends = _numbers(batch.column("end_hi"))
        self._last_ns = max(self._last_ns, int(ends.max()), int(_numbers(batch.column("start_lo")).max()))
        self._learn(batch, locks, kind)
        done = ok & answered
        chosen = locks | among(kind, ("notify_lock",))
        chosen |= done & among(batch.column("op"), SESSION_OPS)
        chosen |= self._on_locked_files(batch, locks, done, kind)
        if self.servers:
            chosen |= done & among(batch.column("op"), ("FREE_STATEID",))
            chosen |= answered & ~ok & np.isin(_numbers(batch.column("status_code")), TELLING)
            refused = answered & ~ok & among(kind, ("open",))
            if refused.any():
                chosen |= refused & batch.column("reclaim").fill_null(False).to_numpy(zero_copy_only=False)
        if chosen.any():
            for op in operations(batch.filter(pa.array(chosen))):
                self._play(op)
        self._rows.flush(self._last_ns)
        for server in self.servers.values():
            server.sweep(self._last_ns)
        if sum(len(server.tables) for server in self.servers.values()) > MAX_TABLES:
            for server in self.servers.values():
                server.make_room(self._last_ns)

    def _learn(self, batch: pa.RecordBatch, locks: Mask, kind: pa.DictionaryArray) -> None:
        """Whose client ids are whose, and which servers say that they may notify waiters."""
        first = _numbers(batch.column("position")) == 0
        columns = [codes_of(batch.column(n)) for n in ("endpoint", "client", "clientid")]
        (ends, end), (clients, client), (ids, clientid) = columns
        width, depth = len(clients), len(ids)
        keys = ((end * width + client) * depth + clientid)[first]
        for key in np.unique(keys).tolist():
            pair, number = divmod(key, depth)
            where, who = divmod(pair, width)
            if ends[where] and clients[who] and ids[number]:
                self._server(ends[where]).owners.seen(clients[who], ids[number])
        opens = among(kind, ("open",))
        if opens.any():
            flags = opens & ((_numbers(batch.column("flags")) & MAY_NOTIFY) != 0)
            for where in np.unique(end[flags]).tolist():
                if ends[where]:
                    self._server(ends[where]).may_notify = True

    def _on_locked_files(
        self, batch: pa.RecordBatch, locks: Mask, done: Mask, kind: pa.DictionaryArray
    ) -> Mask:
        """CLOSEs of files with locks, and WRITEs to them by others than the only client that locks."""
        none = np.zeros(batch.num_rows, dtype=bool)
        bulk = done & among(kind, ("write", "close"))
        if not bulk.any():
            return none
        objects, codes = codes_of(batch.column("object"))
        clients, who = codes_of(batch.column("client"))
        lockers: dict[str, set[str | None]] = {}
        for server in self.servers.values():
            for target, table in server.tables.items():
                if not table.idle:
                    lockers.setdefault(target, set()).update(table.clients())
        if locks.any():
            pairs = np.unique(codes[locks] * len(clients) + who[locks]).tolist()
            for target_code, client_code in (divmod(pair, len(clients)) for pair in pairs):
                if (target_name := objects[target_code]) is not None:
                    lockers.setdefault(target_name, set()).add(clients[client_code])
        if not lockers:
            return none
        locked = np.fromiter((o in lockers for o in objects), dtype=bool, count=len(objects))
        chosen: Mask = bulk & locked[codes]
        closes = among(kind, ("close",))
        number = {name: code for code, name in enumerate(clients)}
        alone = np.full(len(objects), -1, dtype=np.int64)  # the only client that locks this file
        for code in np.unique(codes[chosen]).tolist():
            names = lockers[str(objects[code])]
            if len(names) == 1:
                alone[code] = number.get(next(iter(names)), -1)
        own: Mask = alone[codes] == who
        chosen &= closes | ~own
        return chosen

    def _server(self, endpoint: str | None) -> ServerLocks:
        name = endpoint or "unknown server"
        server = self.servers.get(name)
        if server is None:
            server = self.servers[name] = ServerLocks(name, self._rows)
        return server

    def _play(self, op: Operation) -> None:
        server = self._server(op.endpoint)
        if op.kind == "lock":
            server.lock(op)
        elif op.kind == "unlock":
            server.unlock(op)
        elif op.kind == "notify_lock":
            server.notified(op)
        elif op.status_code != 0:
            server.failed(op)
            if op.kind == "open":
                server.refused_open(op)
        elif op.kind == "write":
            server.wrote(op)
        elif op.kind == "close":
            server.close(op)
        elif op.op == "FREE_STATEID":
            server.freed(op)
        elif op.kind == "session":
            server.session(op)

    def finish(self) -> None:
        """The input ended."""
        for server in self.servers.values():
            server.finish(self._last_ns)
        self._rows.finish(self._last_ns)


def _start(tables: Tables) -> Any:
    return Walk(tables)


FOLD = Fold(
    name="locks",
    reads=READS,
    produces=(
        LockHold,
        LockWait,
        LockFile,
        LockServer,
        LockConflict,
        LockLost,
        LockTrespass,
        LockRefusal,
        LockCycle,
    ),
    start=_start,
)
