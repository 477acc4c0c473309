"""Calls that went wrong on the way: never answered, or sent more than once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import (
    Coded,
    Ints,
    Mask,
    call_rows,
    distinct,
    group,
    integers,
    present,
    text,
    truths,
)
from analyzer.core.operations import Operation, operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_MOST_PAIRS: Final = 65_536
#: Answered calls at the beginning of a connection that are remembered: after a loss of its connection a
#: client sends the calls that wait once more on the next one, with the same transaction ids.
_MOST_FIRST: Final = 1024
_MOST_REMEMBERED: Final = 40_000


@dataclass(frozen=True, slots=True)
class UnansweredCall:
    """One call without a reply in this input, on its connection or a later one. `server_reply_ns` and
    `client_reply_ns` are the times of the server's last reply to anybody and to this client, None if there
    was none; `input_last_ns` is the latest time that was known when the row was written."""

    endpoint: str
    client: str
    connection: str | None
    op: str
    object: str | None
    path: str | None
    start_ns: int
    attempts: int
    server_reply_ns: int | None
    client_reply_ns: int | None
    input_last_ns: int
    at_call: str


@dataclass(frozen=True, slots=True)
class ResentCalls:
    """The calls of one client to one server that it sent more than once. `sends` counts the sendings
    after the first; `longest_ns` is the longest time from first sending to the reply, and `at_call`,
    `at_return`, `op` belong to that call (or to the first one that was never answered)."""

    endpoint: str
    client: str
    calls: int
    resent: int
    sends: int
    unanswered: int
    op: str
    longest_ns: int
    first_ns: int
    last_ns: int
    at_call: str
    at_return: str | None


@dataclass(slots=True)
class _Pair:
    """What is known of one client at one server."""

    calls: int = 0
    last_reply_ns: int | None = None
    resent: int = 0
    sends: int = 0
    unanswered: int = 0
    op: str = ""
    longest_ns: int = -1
    first_ns: int = 0
    last_ns: int = 0
    at_call: str = ""
    at_return: str | None = None


class _Walk:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._server_reply_ns: dict[str, int] = {}
        self._last_ns = 0
        self._firsts: dict[str, int] = {}  # by connection: how many are remembered
        self._answered: set[tuple[str, int]] = set()  # connection's client address, transaction id

    def feed(self, batch: pa.RecordBatch) -> None:
        rows = call_rows(batch)
        rows = rows[~truths(batch, "callback")[rows]]
        if len(rows) == 0:
            return
        answered = present(batch, "end_lo")[rows]
        endpoint, client = (text(batch, name).take(rows) for name in ("endpoint", "client"))
        last = np.where(answered, integers(batch, "end_lo")[rows], integers(batch, "start_lo")[rows])
        self._last_ns = max(self._last_ns, int(last.max()))
        self._count(endpoint, client, answered, last)
        self._remember(batch, rows[answered])
        attempts = integers(batch, "attempts", 1)[rows]
        special = ~answered | (attempts > 1)
        if special.any():
            self._add(batch.take(pa.array(rows[special])))

    def _count(self, endpoint: Coded, client: Coded, answered: Mask, last: Ints) -> None:
        pairs = group((endpoint.codes, endpoint.size), (client.codes, client.size))
        replies = np.full(len(pairs), -1, dtype=np.int64)
        replies[pairs.of_row[answered]] = last[answered]  # ends ascend: the latest stays
        counts = pairs.count().tolist()
        names = pairs.names((endpoint, client))
        for (server, who), count, reply in zip(names, counts, replies.tolist(), strict=True):
            pair = self._pair(server, who)
            pair.calls += count
            if reply >= 0:
                pair.last_reply_ns = reply
                self._server_reply_ns[server] = max(reply, self._server_reply_ns.get(server, 0))

    def _remember(self, batch: pa.RecordBatch, rows: Ints) -> None:
        """Transaction ids of the first calls that were answered on each connection."""
        connection, xid = text(batch, "connection").take(rows), integers(batch, "xid", -1)[rows]
        codes, place = distinct(connection.codes, connection.size)
        for number, name in enumerate(connection.named(codes)):
            room = _MOST_FIRST - self._firsts.get(name or "", 0)
            if name is None or room <= 0 or len(self._answered) >= _MOST_REMEMBERED:
                continue
            first = xid[place == number][:room].tolist()
            self._firsts[name] = self._firsts.get(name, 0) + len(first)
            host = _host(name)
            self._answered.update((host, value) for value in first if value >= 0)

    def _sent_again(self, call: Operation) -> bool:
        """Whether the call was answered on a later connection."""
        return (_host(call.connection or ""), -1 if call.xid is None else call.xid) in self._answered

    def _pair(self, endpoint: str, client: str) -> _Pair:
        key = (endpoint, client)
        if key not in self._pairs and len(self._pairs) >= _MOST_PAIRS:
            return _Pair()
        return self._pairs.setdefault(key, _Pair())

    def _add(self, calls: pa.RecordBatch) -> None:
        for call in operations(calls):
            endpoint, client = call.endpoint or "", call.client or ""
            pair = self._pair(endpoint, client)
            if call.end_lo is None and not self._sent_again(call):
                self._tables.of(UnansweredCall).append(
                    UnansweredCall(
                        endpoint=endpoint,
                        client=client,
                        connection=call.connection,
                        op=call.op or "",
                        object=call.object,
                        path=call.path,
                        start_ns=call.start_lo,
                        attempts=call.attempts or 1,
                        server_reply_ns=self._server_reply_ns.get(endpoint),
                        client_reply_ns=pair.last_reply_ns,
                        input_last_ns=self._last_ns,
                        at_call=call.at_call or "",
                    )
                )
            if (call.attempts or 1) > 1:
                _note_resent(pair, call)

    def finish(self) -> None:
        for (endpoint, client), pair in sorted(self._pairs.items()):
            if pair.resent:
                self._tables.of(ResentCalls).append(
                    ResentCalls(
                        endpoint, client, pair.calls, pair.resent, pair.sends, pair.unanswered, pair.op,
                        max(pair.longest_ns, 0), pair.first_ns, pair.last_ns, pair.at_call, pair.at_return,
                    )
                )  # fmt: skip


def _host(connection: str) -> str:
    """Addresses of client and server, without the client's port, which a new connection changes."""
    client, _, server = connection.partition(">")
    return f"{client.rpartition(':')[0]}>{server}"


def _note_resent(pair: _Pair, call: Operation) -> None:
    answered = call.end_lo is not None
    pair.first_ns = min(pair.first_ns, call.start_lo) if pair.resent else call.start_lo
    pair.last_ns = max(pair.last_ns, call.end_lo if answered else call.start_lo)
    pair.resent += 1
    pair.sends += call.attempts - 1
    pair.unanswered += not answered
    duration = call.end_lo - call.start_lo if answered else -1
    if duration > pair.longest_ns or not pair.at_call:
        pair.longest_ns, pair.op = duration, call.op or ""
        pair.at_call, pair.at_return = call.at_call or "", call.at_return


FOLD = Fold(
    name="rpc",
    reads=(
        "endpoint", "client", "connection", "op", "kind", "object", "path", "compound", "callback",
        "status_code", "xid", "start_lo", "end_lo", "attempts", "at_call", "at_return",
    ),
    produces=(UnansweredCall, ResentCalls),
    start=_Walk,
)  # fmt: skip
