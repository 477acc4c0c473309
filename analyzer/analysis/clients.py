"""Who the clients are: identity, client ids, addresses and connections."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from analyzer.analysis.groups import ends_or_starts, greatest, grouped, integers, least, present, rows_of
from analyzer.core.finding import Subject
from analyzer.core.rule import Case, Fold
from analyzer.core.table import Tables

_MOST = 64  # clientids, connections and addresses kept per client
_NO_CLIENTID = "0x0000000000000000"
_IDENTITY = ("endpoint", "client", "connection", "clientid", "identity", "callback")


@dataclass(frozen=True, slots=True)
class ClientRow:
    """One client at one server. `client` is what the operations table holds; `label` is unique within
    the input and short enough for a sentence: address, and port or clientid where addresses are shared.
    """

    client: str
    label: str
    endpoint: str
    identity: str | None
    clientids: tuple[str, ...]
    addresses: tuple[str, ...]
    connections: tuple[str, ...]
    first_ns: int
    last_ns: int
    operations: int


@dataclass(slots=True)
class _Seen:
    """What one client at one endpoint has shown so far; dicts keep the order of first appearance."""

    identity: str | None = None
    clientids: dict[str, None] = field(default_factory=dict)
    connections: dict[str, None] = field(default_factory=dict)
    first_ns: int = 0
    last_ns: int = 0
    operations: int = 0


def address_of(connection: str) -> tuple[str, str]:
    """`"10.0.0.7:900>10.0.0.1:2049"` → `("10.0.0.7", "900")`: the client's end of a connection."""
    host, _, port = connection.partition(">")[0].rpartition(":")
    return host, port


class _Clients:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(ClientRow)
        self._seen: dict[tuple[str, str], _Seen] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        known = present(batch.column("client"))
        if not known.all():
            batch = rows_of(batch, known)
        # a callback's connection may run the other way (4.0), so that it isn't told apart by it
        codes, groups = grouped(batch, _IDENTITY)
        counts = np.bincount(codes, minlength=len(groups)).tolist()
        first = least(codes, integers(batch.column("start_lo")), len(groups)).tolist()
        last = greatest(codes, ends_or_starts(batch), len(groups)).tolist()
        for index, (endpoint, client, connection, clientid, identity, callback) in enumerate(groups):
            seen = self._seen.get((endpoint, client))
            if seen is None:
                seen = self._seen[(endpoint, client)] = _Seen(first_ns=first[index], last_ns=last[index])
            seen.first_ns = min(seen.first_ns, first[index])
            seen.last_ns = max(seen.last_ns, last[index])
            seen.operations += counts[index]
            seen.identity = seen.identity or identity
            if clientid and clientid != _NO_CLIENTID and len(seen.clientids) < _MOST:
                seen.clientids[clientid] = None
            if connection and not callback and len(seen.connections) < _MOST:
                seen.connections[connection] = None

    def finish(self) -> None:
        names = _labels(self._seen)
        for (endpoint, client), seen in sorted(self._seen.items(), key=lambda item: item[1].first_ns):
            addresses = dict.fromkeys(address_of(connection)[0] for connection in seen.connections)
            self._rows.append(
                ClientRow(
                    client=client,
                    label=names[client],
                    endpoint=endpoint,
                    identity=seen.identity,
                    clientids=tuple(seen.clientids),
                    addresses=tuple(addresses),
                    connections=tuple(seen.connections),
                    first_ns=seen.first_ns,
                    last_ns=seen.last_ns,
                    operations=seen.operations,
                )
            )


def _labels(seen: dict[tuple[str, str], _Seen]) -> dict[str, str]:
    """The shortest unique name of each client: address, address:port, then with the clientid.

    Clients that never named themselves (a session that the server didn't know) come second, so that
    they don't make the others' names longer.
    """
    ends: dict[str, tuple[str, str]] = {}
    clientids: dict[str, str] = {}
    named: set[str] = set()
    for (_, client), found in sorted(seen.items(), key=lambda item: item[1].first_ns):
        if found.connections and client not in ends:
            ends[client] = address_of(next(iter(found.connections)))
        if found.clientids and client not in clientids:
            clientids[client] = next(iter(found.clientids))
        if found.identity is not None:
            named.add(client)
    clients = list(dict.fromkeys(client for _, client in seen))
    hosts = {client: ends.get(client, (client, ""))[0] for client in clients}
    shared = Counter(hosts.values())
    chosen: dict[str, str] = {c: hosts[c] for c in clients if shared[hosts[c]] == 1}
    for group in ([c for c in clients if c in named], [c for c in clients if c not in named]):
        waiting = [client for client in group if client not in chosen]
        ports = {
            client: ":".join(part for part in ends.get(client, (client, "")) if part) for client in waiting
        }
        tails = {client: _tail(client, clientids) for client in waiting}
        _choose(chosen, ports)
        _choose(chosen, {c: f"{port} {tails[c]}" for c, port in ports.items() if c not in chosen})
        for number, client in enumerate((c for c in waiting if c not in chosen), 1):
            chosen[client] = f"{ports[client]} {tails[client]} #{number}"
    return chosen


def _tail(client: str, clientids: dict[str, str]) -> str:
    if client.startswith("session "):
        return f"{client[:24]}…"
    if client.startswith("clientid "):
        return client
    return f"clientid {clientids[client]}" if client in clientids else client


def _choose(chosen: dict[str, str], choices: dict[str, str]) -> None:
    """Take those names that nobody else has."""
    taken = Counter(choices.values()) + Counter(chosen.values())
    chosen |= {client: name for client, name in choices.items() if taken[name] == 1}


class Labels:
    """Names for sentences: `labels.client(key)` and subjects of findings."""

    def __init__(self, rows: Iterable[ClientRow]) -> None:
        self._names: dict[str, str] = {}
        self.at: dict[str, list[ClientRow]] = defaultdict(list)
        for row in rows:
            self._names[row.client] = row.label
            self.at[row.client].append(row)

    @classmethod
    def of(cls, case: Case) -> Labels:
        """The labels of a case; the rule must declare `ClientRow` among what it reads."""
        return cls(case.rows(ClientRow))

    def client(self, client: str | None) -> str:
        """ "client 10.0.0.7", "client id 0x6b0e298a00000001", or "an unknown client"."""
        if client is None:
            return "an unknown client"
        name = self.bare(client)
        return f"client id {name[9:]}" if name.startswith("clientid ") else f"client {name}"

    def bare(self, client: str) -> str:
        """ "10.0.0.7"."""
        return self._names.get(client, client)

    def subject(self, client: str | None, endpoint: str) -> Subject:
        """The client at that server, or the server where no client is named."""
        if client is None:
            return server_subject(endpoint)
        return Subject("client", f"{client}@{endpoint}", self.client(client))


def server_subject(endpoint: str) -> Subject:
    """A server as the subject of a finding."""
    return Subject("server", endpoint, f"server {endpoint}")


FOLD = Fold(
    name="clients",
    reads=("client", "endpoint", "connection", "clientid", "identity", "callback", "start_lo", "end_lo"),
    produces=(ClientRow,),
    start=_Clients,
)
