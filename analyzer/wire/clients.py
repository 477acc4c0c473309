"""Which client each operation belongs to.

Session → clientid → the identity of EXCHANGE_ID or SETCLIENTID (RFC 8881 18.35, RFC 7530 16.33). NFSv4.0
names no client on most operations: there a connection belongs to the client that last named itself on
it. Where a capture began in the middle, a client is called by its session, and keeps that name when it
says more of itself later: one client under two names looks like two.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.core.operations import operations
from analyzer.wire.codes import Codes, Endpoints, combinations, forget, text_column
from analyzer.wire.packets import Int64s

_NO_CLIENT: Final = "0x0000000000000000"


class ClientNames:
    """State over a whole capture. `clients` are addresses with ports by connection number; `begun` are
    the connections that were open before the capture."""

    def __init__(self, clients: Sequence[str], begun: Collection[int] = ()) -> None:
        self.clients, self.begun = clients, begun
        self.identities: dict[tuple[str, str], str] = {}  # (endpoint, clientid) → client
        self.sessions: dict[tuple[str, str], str] = {}  # (endpoint, session) → clientid
        self.on_connection: dict[int, str] = {}  # NFSv4.0: connection → client
        self.created: dict[str, None] = {}  # sessions whose beginning was seen
        self.named: dict[str, None] = {}  # identities that were seen
        self.met: set[int] = set()  # connections
        self.claimed: set[int] = set()  # connections whose stranger has named a client id
        self.strangers: dict[int, str] = {}  # connection → client that was there when the capture began
        self.aliases: dict[tuple[str, str], str] = {}  # (endpoint, identity) → client, for strangers

    def learn(
        self,
        batch: pa.RecordBatch,
        endpoint: Endpoints,
        identity: pa.DictionaryArray,
        connection: Int64s,
    ) -> None:
        """Take note of who names itself in a batch; comes before `columns`."""
        op, session = Codes(batch.column("op")), Codes(batch.column("session"))
        rows = op.among(frozenset({"EXCHANGE_ID", "SETCLIENTID", "CREATE_SESSION", "DESTROY_CLIENTID"}))
        created = rows[(session.codes[rows] >= 0)]
        self.created |= {session.word(code): None for code in np.unique(session.codes[created]).tolist()}
        clientid = Codes(batch.column("clientid"))
        arrived = self._meet(session, clientid, Codes(identity), connection)
        self._renewals(endpoint, session, clientid, op, connection)
        place = pa.array(rows)
        part = batch.select(["op", "status_code", "clientid", "session"]).take(place)
        for row, who, server, at in zip(
            operations(part),
            identity.take(place).to_pylist(),
            endpoint.codes[rows].tolist(),
            rows.tolist(),
            strict=True,
        ):
            name = endpoint.words[server]
            if who is not None and who not in self.named:
                self.named[who] = None
                if row.op in ("EXCHANGE_ID", "SETCLIENTID"):
                    self._recognise(
                        name, who, int(connection[at]), arrived.get(int(connection[at]), -1), at
                    )
            stranger = self.strangers.get(int(connection[at]))
            if stranger is not None and row.clientid is not None and who is None:
                # it tries the client id that it had before the capture
                self.identities.setdefault((name, row.clientid), stranger)
            if row.status_code == 0 and row.clientid is not None:
                if row.op == "CREATE_SESSION":
                    if row.session is not None:
                        self.sessions[name, row.session] = row.clientid
                elif who is not None:
                    self.identities[name, row.clientid] = self.aliases.get((name, who), who)
        self._owners(endpoint, session, clientid, op)
        for known in (self.sessions, self.identities, self.aliases, self.strangers):
            forget(known)
        forget(self.created)
        forget(self.named)

    def _meet(self, session: Codes, clientid: Codes, identity: Codes, connection: Int64s) -> dict[int, int]:
        """Note the strangers on connections that are new in this batch; returns their first rows."""
        fresh = [n for n in np.unique(connection).tolist() if n not in self.met]
        if not fresh:
            return {}
        self.met.update(fresh)
        rows = np.flatnonzero((session.codes >= 0) & np.isin(connection, fresh))
        numbers, first = np.unique(connection[rows], return_index=True)
        arrived = dict(zip(numbers.tolist(), rows[first].tolist(), strict=True))
        for number, row in arrived.items():
            own = session.word(int(session.codes[row]))
            if own not in self.created:
                self.strangers[number] = f"session {own}"
        for number in fresh:  # NFSv4.0, where most operations name nobody
            if number in self.begun and number not in arrived:
                row = int(np.argmax(connection == number))
                arrived[number] = row
                if clientid.codes[row] < 0 and identity.codes[row] < 0:
                    self.strangers[number] = self.clients[number]
        return arrived

    def _recognise(self, endpoint: str, who: str, number: int, since: int, at: int) -> None:
        """A client that names itself where a stranger has been talking is that stranger."""
        client = self.strangers.get(number)
        if client is not None and since < at:
            self.aliases[endpoint, who] = client
            del self.strangers[number]  # whoever names itself next is somebody else

    def _renewals(
        self, endpoint: Endpoints, session: Codes, clientid: Codes, op: Codes, connection: Int64s
    ) -> None:
        """The first client id that a stranger of NFSv4.0 names is its own."""
        unnamed = [n for n in self.strangers if n not in self.claimed and n in self.begun]
        if not unnamed:
            return
        rows = op.among(frozenset({"OPEN", "LOCK", "LOCKT", "RENEW", "RELEASE_LOCKOWNER"}))
        told = (session.codes[rows] < 0) & (clientid.codes[rows] >= 0)
        rows = rows[told & np.isin(connection[rows], unnamed)]
        numbers, first = np.unique(connection[rows], return_index=True)
        for number, row in zip(numbers.tolist(), rows[first].tolist(), strict=True):
            self.claimed.add(number)
            key = endpoint.words[int(endpoint.codes[row])], clientid.word(int(clientid.codes[row]))
            self.identities.setdefault(key, self.strangers[number])

    def _owners(self, endpoint: Endpoints, session: Codes, clientid: Codes, op: Codes) -> None:
        """Whose a session is that the capture didn't see begin: its open and lock owners may tell (RFC
        8881 lets a server ignore that clientid; Linux clients send their own, others 0)."""
        rows = op.among(frozenset({"OPEN", "LOCK", "LOCKT"}))
        rows = rows[(session.codes[rows] >= 0) & (clientid.codes[rows] >= 0)]
        combos, _ = combinations(endpoint.codes[rows], session.codes[rows], clientid.codes[rows])
        for e, s, c in combos:
            name, own, told = endpoint.words[e], session.word(s), clientid.word(c)
            if told != _NO_CLIENT and (name, own) not in self.sessions:
                self.sessions[name, own] = told
                self.identities.setdefault((name, told), f"session {own}")

    def columns(
        self, columns: dict[str, pa.Array], endpoint: Endpoints, connection: Int64s
    ) -> dict[str, pa.Array]:
        """The columns `client` and `clientid` of a batch."""
        session, clientid = Codes(columns["session"]), Codes(columns["clientid"])
        identity = Codes(columns["identity"])
        found, inverse = combinations(endpoint.codes, session.codes, clientid.codes, identity.codes)
        clients: list[str | None] = []
        ids: list[str | None] = []
        # a session from before the capture, or one that the server doesn't know either
        strangers: list[str | None] = []
        for server, s, c, i in found:
            name, own = endpoint.words[server], session.word(s)
            told = clientid.word(c)
            told = None if told == _NO_CLIENT else told
            of_session = self.sessions.get((name, own)) if own else None
            ids.append(of_session or told)
            known = of_session or told
            who = identity.word(i)
            if who is not None:
                clients.append(self.aliases.get((name, who), who))
            elif known is not None:
                clients.append(self.identities.get((name, known), f"clientid {known}"))
            else:
                clients.append(None)
            strangers.append(f"session {own}" if own else None)
        words: list[str | None] = [*clients]
        codes = inverse.copy()
        if None in clients:
            codes = self._by_connection(words, strangers, codes, connection)
        return {"client": text_column(words, codes), "clientid": text_column(ids, inverse)}

    def _by_connection(
        self,
        words: list[str | None],
        strangers: list[str | None],
        codes: Int64s,
        connection: Int64s,
    ) -> Int64s:
        """Rows that name no client belong to the client last named on their connection; where none
        ever was, to their session (which may have several connections), or else to the connection."""
        named = np.array([w is not None for w in words])[codes]
        order = np.argsort(connection, kind="stable")
        place = np.arange(len(order))
        group = connection[order]
        begins = np.ones(len(order), dtype=bool)
        begins[1:] = np.diff(group) != 0
        last = np.maximum.accumulate(np.where(named[order] | begins, place, 0))
        filled = np.empty_like(codes)
        filled[order] = codes[order][last]
        unknown = np.flatnonzero(~named)
        still = unknown[np.array([w is None for w in words])[filled[unknown]]]
        extra: dict[str, int] = {}
        combos, which = combinations(connection[still], codes[still])
        chosen = []
        for number, code in combos:
            word = self.on_connection.get(number) or strangers[code] or self.clients[number]
            chosen.append(extra.setdefault(word, len(words) + len(extra)))
        filled[still] = np.array(chosen, dtype=np.int64)[which]
        words.extend(extra)
        finals = np.flatnonzero(np.append(begins[1:], True))
        for number, code in zip(group[finals].tolist(), filled[order][finals].tolist(), strict=True):
            word = words[code]
            if word is not None and code < len(strangers):
                self.on_connection[number] = word
        return filled
