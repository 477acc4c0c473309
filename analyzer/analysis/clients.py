"""Who the clients are: identity, client ids, addresses and connections."""

from __future__ import annotations

from dataclasses import dataclass


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
