"""Opens and their share modes: who had a file open when an OPEN was answered SHARE_DENIED.

An OPEN asks for access (read, write) and may deny the same to others; it is refused if one that stands
denies what it asks, or asks for what it denies (RFC 8881 section 9.7). Linux clients never deny;
Windows clients and SMB gateways do.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyzer.analysis.lock_owners import client_of
from analyzer.core.operations import Operation, operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_MAX_OPENS = 50_000
_MAX_ROWS = 10_000
_BOTH = 3
_SHARE_DENIED = 10015


@dataclass(frozen=True, slots=True)
class ShareConflict:
    """OPENs that were answered SHARE_DENIED: per asking client, holding client and file.

    `access` and `deny` are 1 read, 2 write, 3 both, 0 none. `holder_client` is None if no open that
    stands in the way is in the input; `by_name`: it was found by the file's name alone. `holders`
    counts the opens in the way."""

    endpoint: str
    client: str
    object: str | None
    path: str | None
    name: str | None
    access: int
    deny: int
    holder_client: str | None
    holder_owner: str | None
    holder_access: int
    holder_deny: int
    holder_since_ns: int | None
    holders: int
    by_name: bool
    count: int
    first_ns: int
    last_ns: int
    evidence: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Open:
    client: str
    owner: str | None
    access: int
    deny: int
    object: str | None
    path: str | None
    name: str | None
    since_ns: int
    at: str
    clientid: str | None

    def forbids(self, access: int, deny: int) -> bool:
        return bool(self.deny & access or self.access & deny)


class _Server:
    """Standing opens of one server, by stateid and by what the file is called."""

    def __init__(self) -> None:
        self.opens: dict[str, _Open] = {}
        self.by_key: dict[tuple[str, str], dict[str, _Open]] = {}
        self.clientids: dict[str, str] = {}
        # Closes that were answered a moment ago: the refusal may have come before.
        self.closed: deque[tuple[int, _Open]] = deque(maxlen=16)

    def add(self, stateid: str, item: _Open) -> None:
        if len(self.opens) >= _MAX_OPENS:
            self.remove(next(iter(self.opens)))
        self.opens[stateid] = item
        for key in _keys(item.object, item.path, item.name):
            self.by_key.setdefault(key, {})[stateid] = item

    def remove(self, stateid: str) -> _Open | None:
        item = self.opens.pop(stateid, None)
        if item is not None:
            for key in _keys(item.object, item.path, item.name):
                same = self.by_key.get(key, {})
                same.pop(stateid, None)
                if not same:
                    self.by_key.pop(key, None)
        return item

    def forget_client(self, client: str, clientid: str) -> None:
        """The client has another client id: opens under the old one are gone, or come back by reclaim."""
        if self.clientids.get(client, clientid) != clientid:
            for stateid in [s for s, o in self.opens.items() if o.client == client]:
                self.remove(stateid)
        self.clientids[client] = clientid


def _keys(handle: str | None, path: str | None, name: str | None) -> list[tuple[str, str]]:
    pairs = (("object", handle), ("path", path), ("name", name))
    return [(kind, word) for kind, word in pairs if word]


class _Walk:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._servers: dict[str, _Server] = {}
        self._rows: dict[tuple[str | None, ...], ShareConflict] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        """OPEN, OPEN_DOWNGRADE, CLOSE and what tells of new client ids."""
        for op in operations(_without_pairs(batch)):
            server = self._servers.setdefault(op.endpoint or "unknown server", _Server())
            if op.kind == "close":
                self._close(server, op)
            elif op.kind == "session":
                if op.op in ("EXCHANGE_ID", "SETCLIENTID_CONFIRM") and op.clientid and op.status_code == 0:
                    server.forget_client(client_of(op), op.clientid)
            elif op.op == "OPEN_DOWNGRADE":
                item = server.opens.get(op.stateid or "")
                if item is not None and op.status_code == 0:
                    item.access, item.deny = (op.share_access or 0) & _BOTH, (op.share_deny or 0) & _BOTH
            elif op.op == "OPEN":
                self._open(server, op)

    def _open(self, server: _Server, op: Operation) -> None:
        access, deny = (op.share_access or 0) & _BOTH, (op.share_deny or 0) & _BOTH
        if op.status_code == _SHARE_DENIED:
            self._denied(server, op, access, deny)
        if op.status_code != 0 or not op.new_stateid:
            return
        item = server.opens.get(op.new_stateid)
        if item is not None:  # the same owner again: the modes add up (RFC 8881 section 9.9)
            item.access, item.deny = item.access | access, item.deny | deny
            return
        handle = op.new_object or op.object
        item = _Open(
            client_of(op),
            op.owner,
            access,
            deny,
            handle,
            op.path,
            op.name,
            op.end_hi,
            op.at_return,
            op.clientid,
        )
        server.add(op.new_stateid, item)

    @staticmethod
    def _close(server: _Server, op: Operation) -> None:
        if op.status_code == 0 and op.stateid:
            item = server.remove(op.stateid)
            if item is not None:
                server.closed.append((op.end_hi, item))

    def _denied(self, server: _Server, op: Operation, access: int, deny: int) -> None:
        by_name, found = self._in_the_way(server, op, access, deny)
        holder = max(found, key=lambda o: (o.deny, o.access, -o.since_ns), default=None)
        endpoint, client = op.endpoint or "unknown server", client_of(op)
        key = (endpoint, client, op.path or op.object, op.name, holder.client if holder else None)
        row = self._rows.get(key)
        if row is None and len(self._rows) >= _MAX_ROWS:
            return
        proof = [holder.at] if holder else []
        self._rows[key] = ShareConflict(
            endpoint=endpoint,
            client=client,
            object=op.object,
            path=op.path,
            name=op.name,
            access=access,
            deny=deny,
            holder_client=holder.client if holder else None,
            holder_owner=holder.owner if holder else None,
            holder_access=holder.access if holder else 0,
            holder_deny=holder.deny if holder else 0,
            holder_since_ns=holder.since_ns if holder else None,
            holders=len(found),
            by_name=by_name,
            count=row.count + 1 if row else 1,
            first_ns=row.first_ns if row else op.start_lo,
            last_ns=op.end_hi,
            evidence=row.evidence if row else (*proof, op.at_call, op.at_return),
        )

    @staticmethod
    def _in_the_way(server: _Server, op: Operation, access: int, deny: int) -> tuple[bool, list[_Open]]:
        """Opens that forbid this one: by handle, by path, and only then by the bare name."""
        late = [item for end, item in server.closed if end >= op.start_lo]
        for key in _keys(op.object, op.path, op.name):
            items = list(server.by_key.get(key, {}).values())
            items += [o for o in late if key in _keys(o.object, o.path, o.name)]
            found = [o for o in items if o.forbids(access, deny)]
            if found:
                return key[0] == "name", found
        return False, []

    def finish(self) -> None:
        """Write the rows."""
        for row in self._rows.values():
            self._tables.of(ShareConflict).append(row)


def _without_pairs(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Leave out SEQUENCEs, and opens that were closed within the batch, if it holds no deny mode and no
    refusal: they can't be anyone's holder. That is nearly everything in a storm of small files."""
    ops = batch.column("op")
    words = ops.dictionary.to_pylist()
    wanted = np.fromiter((w in _OPS for w in words), dtype=bool, count=len(words))
    codes = ops.indices.fill_null(0).to_numpy(zero_copy_only=False)
    keep = wanted[codes] if len(words) else np.zeros(batch.num_rows, dtype=bool)
    batch = batch.filter(pa.array(keep))
    if not batch.num_rows:
        return batch
    deny = pc.fill_null(batch.column("share_deny"), 0).to_numpy(zero_copy_only=False)
    status = pc.fill_null(batch.column("status_code"), -1).to_numpy(zero_copy_only=False)
    if (deny & _BOTH).any() or (status == _SHARE_DENIED).any():
        return batch
    opened = batch.column("new_stateid").cast(pa.string())
    closes = pc.equal(batch.column("kind").cast(pa.string()), "close")
    closed = pc.filter(batch.column("stateid").cast(pa.string()), pc.and_(closes, pa.array(status == 0)))
    paired_open = pc.and_(pc.is_valid(opened), pc.is_in(opened, value_set=closed.drop_null()))
    paired_close = pc.and_(
        closes, pc.is_in(batch.column("stateid").cast(pa.string()), value_set=opened.drop_null())
    )
    paired = pc.or_(paired_open, paired_close)
    return batch.filter(pc.invert(pc.fill_null(paired, False)))


_OPS = frozenset({"OPEN", "OPEN_DOWNGRADE", "CLOSE", "EXCHANGE_ID", "SETCLIENTID_CONFIRM"})


def _start(tables: Tables) -> Any:
    return _Walk(tables)


FOLD = Fold(
    name="opens",
    reads=(
        *("client", "owner", "endpoint", "object", "path", "kind", "start_lo", "end_hi"),
        *("status_code", "at_call", "at_return", "op", "connection", "clientid", "stateid"),
        *("new_stateid", "share_access", "share_deny", "name", "new_object"),
    ),
    produces=(ShareConflict,),
    start=_start,
    kinds=frozenset({"open", "close", "session"}),
)
