"""Who is who among lock owners: client ids, owner names and lock stateids of one server.

A LOCK that uses an existing lock stateid doesn't repeat the owner (RFC 8881 section 18.10.1), a LOCKU
never has one: both are resolved by what earlier LOCK replies said. Where the input began later, a stateid
stands for an owner without a name.
"""

from __future__ import annotations

from typing import TypeVar

from analyzer.analysis.lock_ranges import Owner
from analyzer.core.operations import Operation

Key = TypeVar("Key")
Item = TypeVar("Item")

_MAX = 65_536
#: Client id that servers name for a holder outside NFSv4: a process on the server, NLM, SMB.
NO_CLIENTID = "0x" + "0" * 16


def client_of(op: Operation) -> str:
    """The client's identity, or the best substitute on an input that never told it."""
    return str(op.client or op.clientid or op.connection or "unknown client")


class Owners:
    """Lock owners of one server. The dictionaries forget their oldest entry beyond 65,536."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], Owner] = {}
        self._by_stateid: dict[str, Owner] = {}
        self._client_of: dict[str, str] = {}  # client id -> client
        self._clientid_of: dict[str, str] = {}  # client -> latest client id

    def clientid(self, client: str, clientid: str) -> bool:
        """Learn whose client id it is; True if the client had another one before."""
        before = self._clientid_of.get(client)
        if before == clientid:
            return False
        _keep(self._client_of, clientid, client)
        _keep(self._clientid_of, client, clientid)
        return before is not None

    def seen(self, client: str, clientid: str) -> None:
        """Learn from any operation whose client id it is."""
        if clientid not in self._client_of:
            _keep(self._client_of, clientid, client)
            self._clientid_of.setdefault(client, clientid)

    def client(self, clientid: str | None) -> str | None:
        """Whose client id it is, None if unknown."""
        return self._client_of.get(clientid) if clientid else None

    def known(self, stateid: str | None) -> Owner | None:
        """The owner of a lock stateid, None if unknown."""
        return self._by_stateid.get(stateid) if stateid else None

    def asking(self, op: Operation) -> Owner:
        """The owner that a LOCK asks for."""
        client = client_of(op)
        if op.owner:
            return self.named(client, op.owner)
        owner = self.known(op.stateid)
        if owner is None:
            owner = Owner(client, None)
            if op.stateid:
                _keep(self._by_stateid, op.stateid, owner)
        return owner

    def named(self, client: str, name: str) -> Owner:
        """The owner of that name; the same object each time."""
        key = (client, name)
        owner = self._named.get(key)
        if owner is None:
            owner = Owner(client, name)
            _keep(self._named, key, owner)
        return owner

    def granted(self, op: Operation, owner: Owner) -> None:
        """A LOCK succeeded: learn its lock stateid and the open that it came from."""
        if op.new_stateid and self._by_stateid.get(op.new_stateid) is not owner:
            _keep(self._by_stateid, op.new_stateid, owner)
        if op.owner and op.stateid:
            owner.open_stateid = op.stateid

    def learn(self, owner: Owner, name: str) -> None:
        """An owner without a name turned out to be this one."""
        owner.name = name
        _keep(self._named, (owner.client, name), owner)

    def adopt(self, stateid: str, owner: Owner) -> None:
        """A lock stateid turned out to be this owner's."""
        _keep(self._by_stateid, stateid, owner)

    def forget(self, stateid: str) -> None:
        """The lock stateid is gone (FREE_STATEID)."""
        self._by_stateid.pop(stateid, None)


def _keep(table: dict[Key, Item], key: Key, value: Item) -> None:
    if len(table) >= _MAX and key not in table:
        del table[next(iter(table))]
    table[key] = value
