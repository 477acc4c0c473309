"""How much one file's locks were fought over: counts for its `LockFile` row."""

from __future__ import annotations

from analyzer.analysis.lock_collisions import Place
from analyzer.analysis.locks import LockFile
from analyzer.core.operations import Operation

_MAX_CLIENTS = 1_024
_MAX_PROOF = 4


class Contention:
    """Running counts of one file."""

    __slots__ = (
        "_backoff_ns",
        "_clients",
        "_evidence",
        "_longest_ns",
        "_wait_ns",
        "_waits",
        "denials",
        "first_ns",
        "grants",
        "last_ns",
        "left_out",
    )

    def __init__(self) -> None:
        self.grants = self.denials = self.left_out = 0
        self.first_ns = self.last_ns = 0
        self._waits = self._wait_ns = self._longest_ns = self._backoff_ns = 0
        self._clients: dict[str, list[int]] = {}  # grants and held_ns since the first DENIED
        self._evidence: list[str] = []

    def denied(self, op: Operation, first: bool) -> None:
        """A DENIED; `first` of a wait."""
        if not self.denials:
            self.first_ns = op.start_lo
        self.denials += 1
        self.last_ns = op.end_hi
        if first and len(self._evidence) < _MAX_PROOF:
            self._evidence.append(op.at_return)

    def held(self, client: str, grants: int, since: int, until: int) -> None:
        """A grant, or time held (counted from the first DENIED on)."""
        if client in self._clients or len(self._clients) < _MAX_CLIENTS:
            counts = self._clients.setdefault(client, [0, 0])
            counts[0] += grants
            counts[1] += max(0, until - max(since, self.first_ns))

    def waited(self, client: str, wait_ns: int, backoff_ns: int) -> None:
        """A wait that is over."""
        self.held(client, 0, 0, 0)
        self._waits += 1
        self._wait_ns += wait_ns
        self._backoff_ns += backoff_ns
        self._longest_ns = max(self._longest_ns, wait_ns)

    def row(self, place: Place) -> LockFile:
        """The file's row."""
        top = max(self._clients.items(), key=lambda kv: (kv[1][1], kv[1][0]), default=None)
        return LockFile(
            endpoint=place.endpoint,
            object=place.object,
            path=place.path,
            clients=len(self._clients),
            grants=self.grants,
            denials=self.denials,
            waits=self._waits,
            wait_ns=self._wait_ns,
            longest_wait_ns=self._longest_ns,
            backoff_ns=self._backoff_ns,
            top_client=top[0] if top else None,
            top_held_ns=top[1][1] if top else 0,
            top_grants=top[1][0] if top else 0,
            holds_left_out=self.left_out,
            first_ns=self.first_ns,
            last_ns=self.last_ns,
            evidence=tuple(self._evidence),
        )
