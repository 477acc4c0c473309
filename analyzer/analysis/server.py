"""Server instances: when a server restarted, told by what a new instance can't keep.

Two signs (RFC 8881, sections 18.32.3 and 2.4.2; RFC 7530, section 9.1.4):

* The write verifier that WRITE and COMMIT return changed, and the old one never came back. A server
  with one verifier per volume shows several at the same time: those aren't restarts.
* Client ids are handed out with another first half (the boot instance of knfsd and ganesha). Servers
  that form client ids otherwise would mislead, so this counts only if clients were told that their
  session or client id is unknown, and several ids share the half or the server refused with GRACE.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from analyzer.analysis.groups import (
    Ints,
    ends_or_starts,
    greatest,
    grouped,
    integers,
    is_in,
    least,
    present,
    rows_of,
)
from analyzer.analysis.unstable import Uncommitted
from analyzer.core.operations import column_list
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_S = 1_000_000_000
_AFTERMATH_NS = 120 * _S  # clients notice a restart within their lease, which is rarely longer
_MOST_VALUES = 256  # verifiers or instances kept per server
_LOSS = frozenset({"BADSESSION", "DEADSESSION", "STALE_CLIENTID", "STALE_STATEID", "GRACE"})


@dataclass(frozen=True, slots=True)
class ServerRow:
    """One server: its lease time where an attribute told it (seconds), and when it was seen."""

    endpoint: str
    lease_seconds: int | None
    first_ns: int
    last_ns: int
    operations: int


@dataclass(frozen=True, slots=True)
class RestartRow:
    """A change of server instance. It happened after `not_before_ns` (call of the last operation that
    the old instance answered) and before `not_after_ns` (reply of the first by the new one).

    `signs`: "verifier", "clientid", "session loss", "grace". `uncommitted_*`: WRITEs answered UNSTABLE
    under the old verifier and never committed under it. `session_survived`: a client went on with the
    same session, so that the server process can't have restarted (write error, storage failover).
    """

    endpoint: str
    not_before_ns: int
    not_after_ns: int
    signs: tuple[str, ...]
    old_verifier: str | None
    new_verifier: str | None
    old_instance: str | None
    new_instance: str | None
    session_survived: bool
    uncommitted_writes: int
    uncommitted_bytes: int
    uncommitted_files: int
    uncommitted_clients: tuple[str, ...]
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Value:
    """One verifier or instance: its first reply, the last call that it answered, ids that share it."""

    first_end_ns: int
    last_start_ns: int
    first_ref: str
    last_ref: str
    members: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Server:
    lease_seconds: int | None = None
    first_ns: int = 0
    last_ns: int = 0
    operations: int = 0
    verifiers: dict[str, _Value] = field(default_factory=dict)
    instances: dict[str, _Value] = field(default_factory=dict)
    sessions: dict[str, tuple[int, int]] = field(default_factory=dict)  # first and last good reply
    losses: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=1024))


@dataclass(slots=True)
class _Change:
    after_ns: int
    before_ns: int
    old: str
    new: str
    evidence: tuple[str, ...]


class _Servers:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._servers: dict[str, _Server] = {}
        self._uncommitted = Uncommitted()

    def feed(self, batch: pa.RecordBatch) -> None:
        asked = ~batch.column("callback").fill_null(False).to_numpy(zero_copy_only=False)
        if not asked.all():
            batch = rows_of(batch, asked)
        status = integers(batch.column("status_code"), null=-1)
        self._activity(batch)
        good = status == 0
        self._instances(rows_of(batch, good & present(batch.column("clientid"))))
        writes = good & is_in(batch.column("kind"), frozenset({"write", "commit"}))
        if writes.any():
            self._verifiers(rows_of(batch, writes & present(batch.column("value"))))
        lost = (status > 0) & is_in(batch.column("status"), _LOSS)
        if lost.any():
            self._losses(rows_of(batch, lost))
        leases = present(batch.column("lease_seconds"))
        if leases.any():
            told = rows_of(batch, leases)
            for endpoint, seconds in zip(
                column_list(told.column("endpoint")), column_list(told.column("lease_seconds")), strict=True
            ):
                self._servers[endpoint].lease_seconds = seconds

    def _activity(self, batch: pa.RecordBatch) -> None:
        codes, groups = grouped(batch, ("endpoint",))
        first = least(codes, integers(batch.column("start_lo")), len(groups)).tolist()
        last = greatest(codes, ends_or_starts(batch), len(groups)).tolist()
        for index, (endpoint,) in enumerate(groups):
            server = self._servers.setdefault(endpoint, _Server(first_ns=first[index]))
            server.first_ns = min(server.first_ns, first[index])
            server.last_ns = max(server.last_ns, last[index])
            server.operations += int((codes == index).sum())

    def _instances(self, batch: pa.RecordBatch) -> None:
        codes, groups = grouped(batch, ("endpoint", "clientid", "session"))
        first = least(codes, ends_or_starts(batch), len(groups)).tolist()
        last = greatest(codes, integers(batch.column("start_lo")), len(groups)).tolist()
        refs = _first_and_last_refs(batch, codes, len(groups))
        for index, (endpoint, clientid, session) in enumerate(groups):
            server = self._servers[endpoint]
            if session is not None and (len(server.sessions) < 4096 or session in server.sessions):
                begin, _ = server.sessions.get(session, (first[index], 0))
                server.sessions[session] = (begin, last[index])
            if len(clientid) == 18 and int(clientid, 16):
                value = _note(server.instances, clientid[:10], first[index], last[index], refs[index])
                if value is not None and len(value.members) < 8:
                    value.members.add(clientid)

    def _verifiers(self, batch: pa.RecordBatch) -> None:
        codes, groups = grouped(batch, ("endpoint", "value"))
        first = least(codes, ends_or_starts(batch), len(groups)).tolist()
        last = greatest(codes, integers(batch.column("start_lo")), len(groups)).tolist()
        refs = _first_and_last_refs(batch, codes, len(groups))
        for index, (endpoint, verifier) in enumerate(groups):
            _note(self._servers[endpoint].verifiers, verifier, first[index], last[index], refs[index])
        self._uncommitted.feed(batch)

    def _losses(self, batch: pa.RecordBatch) -> None:
        codes, groups = grouped(batch, ("endpoint", "status"))
        ends = integers(batch.column("end_lo"))
        for index, (endpoint, status) in enumerate(groups):
            losses = self._servers[endpoint].losses
            previous = -_S
            for when in ends[codes == index].tolist():
                if when - previous >= _S:  # one a second is enough to date a restart
                    losses.append((when, status))
                    previous = when

    def finish(self) -> None:
        for endpoint, server in self._servers.items():
            seen = (server.first_ns, server.last_ns, server.operations)
            self._tables.of(ServerRow).append(ServerRow(endpoint, server.lease_seconds, *seen))
            for row in self._restarts(endpoint, server):
                self._tables.of(RestartRow).append(row)

    def _restarts(self, endpoint: str, server: _Server) -> list[RestartRow]:
        by_verifier = [c for c in _changes(server.verifiers) if self._is_change(endpoint, server, c)]
        by_instance = [c for c in _changes(server.instances) if _is_restart(server, c)]
        rows = []
        for change in by_verifier:
            twin = next((i for i in by_instance if _overlap(i, change)), None)
            if twin is not None:
                by_instance.remove(twin)
            rows.append(self._row(endpoint, server, change, twin))
        rows += [self._row(endpoint, server, None, change) for change in by_instance]
        return sorted(rows, key=lambda row: row.not_before_ns)

    def _is_change(self, endpoint: str, server: _Server, change: _Change) -> bool:
        """A verifier that is new for the same file, or comes with other signs of a new instance."""
        if self._uncommitted.changed_for_a_file(endpoint, change.old, change.new):
            return True
        return bool(_signs(server, change.after_ns, change.before_ns))

    def _row(
        self, endpoint: str, server: _Server, verifier: _Change | None, instance: _Change | None
    ) -> RestartRow:
        changes = [change for change in (verifier, instance) if change is not None]
        after = max(change.after_ns for change in changes)
        before = min(change.before_ns for change in changes)
        signs = [name for name, change in (("verifier", verifier), ("clientid", instance)) if change]
        left = self._uncommitted.under(endpoint, verifier.old) if verifier else []
        refs = [ref for change in changes for ref in change.evidence]
        refs += [entry.first_ref for entry in left if entry.first_ref][:4]
        return RestartRow(
            endpoint=endpoint,
            not_before_ns=after,
            not_after_ns=before,
            signs=(*signs, *_signs(server, after, before)),
            old_verifier=verifier.old if verifier else None,
            new_verifier=verifier.new if verifier else None,
            old_instance=instance.old if instance else None,
            new_instance=instance.new if instance else None,
            session_survived=any(
                first <= after and last > before for first, last in server.sessions.values()
            ),
            uncommitted_writes=sum(entry.writes for entry in left),
            uncommitted_bytes=sum(entry.bytes for entry in left),
            uncommitted_files=len(left),
            uncommitted_clients=tuple(sorted({entry.client for entry in left if entry.client})),
            evidence=tuple(dict.fromkeys(refs)),
        )


def _first_and_last_refs(batch: pa.RecordBatch, codes: Ints, size: int) -> list[tuple[str, str]]:
    """For each group the reply of its first and of its last row."""
    rows = np.arange(batch.num_rows)
    pairs = zip(least(codes, rows, size).tolist(), greatest(codes, rows, size).tolist(), strict=True)
    column = batch.column("at_return")
    return [(column[first].as_py() or "", column[last].as_py() or "") for first, last in pairs]


def _note(
    known: dict[str, _Value], name: str, first_end: int, last_start: int, refs: tuple[str, str]
) -> _Value | None:
    value = known.get(name)
    if value is None:
        if len(known) >= _MOST_VALUES:
            return None
        value = known[name] = _Value(first_end, last_start, *refs)
    elif last_start >= value.last_start_ns:
        value.last_start_ns, value.last_ref = last_start, refs[1]
    value.first_end_ns = min(value.first_end_ns, first_end)
    return value


def _changes(values: dict[str, _Value]) -> list[_Change]:
    """Changes from one value to the next, where no operation that began after the new value had been
    seen was still answered with an old one."""
    ordered = sorted(values.items(), key=lambda item: item[1].first_end_ns)
    found = []
    latest_old = None
    for (old, before), (new, after) in pairwise(ordered):
        latest_old = before.last_start_ns if latest_old is None else max(latest_old, before.last_start_ns)
        if latest_old < after.first_end_ns:
            refs = tuple(ref for ref in (before.last_ref, after.first_ref) if ref)
            found.append(_Change(before.last_start_ns, after.first_end_ns, old, new, refs))
    return found


def _overlap(one: _Change, other: _Change) -> bool:
    return one.after_ns <= other.before_ns and other.after_ns <= one.before_ns


def _is_restart(server: _Server, change: _Change) -> bool:
    signs = _signs(server, change.after_ns, change.before_ns)
    shared = any(len(server.instances[name].members) > 1 for name in (change.old, change.new))
    return bool(signs) and (shared or "grace" in signs)


def _signs(server: _Server, after_ns: int, before_ns: int) -> tuple[str, ...]:
    near = {s for when, s in server.losses if after_ns <= when <= before_ns + _AFTERMATH_NS}
    found = ["session loss"] if near - {"GRACE"} else []
    return tuple(found + (["grace"] if "GRACE" in near else []))


FOLD = Fold(
    name="server",
    reads=(
        *("endpoint", "client", "kind", "object", "status", "status_code", "value", "committed", "bytes"),
        *("clientid", "session", "callback", "lease_seconds", "start_lo", "end_lo", "at_return"),
    ),
    produces=(ServerRow, RestartRow),
    start=_Servers,
)
