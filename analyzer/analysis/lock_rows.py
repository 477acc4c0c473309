"""Where lock state becomes rows: waits once they can be written, circles, counts, and caps."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from itertools import islice

from analyzer.analysis.lock_collisions import Place, type_name
from analyzer.analysis.lock_ranges import length_of
from analyzer.analysis.lock_table import LockTable, TableRow, Want
from analyzer.analysis.lock_waits import SECOND, Circle, Wait, find_circle, split
from analyzer.analysis.lock_words import file_name, range_words
from analyzer.analysis.locks import LockCycle, LockRefusal, LockServer, LockWait
from analyzer.core.operations import Operation
from analyzer.core.table import Tables

#: LockHold rows over all files.
MAX_ALL_HOLDS = 50_000
_MAX_REFUSALS = 10_000
_MAX_CIRCLES = 1_000
#: A CB_NOTIFY_LOCK may be answered after the LOCK that it led to: waits are kept back that long.
_KEPT_BACK = 2 * SECOND
_LOOKED_BACK = 16


class LockRows:
    """Writes the tables of all servers (the `Sink` of every `LockTable`)."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._holds_left = MAX_ALL_HOLDS
        self._over: deque[Wait] = deque()
        self._waiting: dict[tuple[str, str], dict[int, Wait]] = {}
        self._waits: Counter[str] = Counter()
        self._refusals: dict[tuple[str | None, ...], LockRefusal] = {}
        self._circles: dict[tuple[int, ...], Circle] = {}

    # the tables' sink

    def row(self, row: TableRow) -> None:
        """A finished row."""
        self._tables.of(type(row)).append(row)

    def hold_allowed(self) -> bool:
        """Whether one more LockHold fits into the cap over all files."""
        self._holds_left -= 1
        return self._holds_left >= 0

    def opened(self, wait: Wait) -> None:
        """A wait began."""
        self._waiting.setdefault(wait.key(), {})[id(wait)] = wait

    def finished(self, wait: Wait) -> None:
        """A wait is over and everything about it is known."""
        key = wait.key()
        mine = self._waiting.get(key, {})
        if mine.pop(id(wait), None) is not None:
            if not mine:
                self._waiting.pop(key, None)
            self._over.append(wait)

    # waits

    def notified(self, op: Operation, endpoint: str, client: str) -> None:
        """A CB_NOTIFY_LOCK to this client: marks its waits that it fell into."""
        key = (endpoint, client)
        late = [w for w in islice(reversed(self._over), _LOOKED_BACK) if w.key() == key]
        for wait in [*self._waiting.get(key, {}).values(), *late]:
            same_file = op.object is None or op.object == wait.table.place.object
            before = wait.granted_ns is None or op.start_lo <= wait.granted_ns
            if same_file and before and wait.asked_ns < op.start_lo:
                wait.notified = True
                wait.notified_ns = max(wait.notified_ns, op.start_lo)

    def flush(self, now: int, everything: bool = False) -> None:
        """Write the waits that were over long enough before `now` (or all of them: the input ended)."""
        kept: deque[Wait] = deque()
        for wait in self._over:
            over_ns = wait.last_ns if wait.granted_ns is None else wait.granted_ns
            if not everything and over_ns > now - _KEPT_BACK:
                kept.append(wait)
            else:
                self._write(wait, now)
        self._over = kept

    def _write(self, wait: Wait, now: int) -> None:
        until = wait.last_ns if wait.granted_ns is None else wait.granted_ns
        hold, queue, backoff, released = split(wait, until)
        release = next((g.at_end for g in wait.blockers if wait.names(g) and g.at_end), None)
        wait.close()
        place = wait.table.place
        self._waits[place.endpoint] += 1
        wait.table.counts.waited(wait.owner.client, until - wait.asked_ns, backoff)
        self._tables.of(LockWait).append(
            LockWait(
                endpoint=place.endpoint,
                client=wait.owner.client,
                owner=wait.owner.name,
                object=place.object,
                path=place.path,
                offset=wait.start,
                length=length_of(wait.start, wait.stop),
                lock_type=type_name(wait.write),
                blocking=wait.blocking,
                asked_ns=wait.asked_ns,
                granted_ns=wait.granted_ns,
                last_ns=until,
                denials=wait.denials,
                hold_ns=hold,
                queue_ns=queue,
                backoff_ns=backoff,
                notified=wait.notified,
                holder_client=wait.holder.client if wait.holder else None,
                holder_owner=wait.holder.name if wait.holder else wait.holder_owner,
                released_ns=released,
                evidence=tuple(p for p in (wait.at_first, release, wait.at_granted) if p),
                holder_clientid=wait.holder_clientid,
                bypassed=wait.bypassed,
                gaps_ns=tuple(wait.gaps),
                protocol=wait.protocol,
                gave_up_by_ns=wait.gave_up_by(now),
            )
        )

    def waits_at(self, endpoint: str) -> int:
        """How many waits were written for this server."""
        return self._waits[endpoint]

    # refusals and circles

    def refused(self, op: Operation, place: Place, want: Want, reason: str) -> None:
        """A LOCK that was refused for a reason of its own."""
        key = (place.endpoint, want.owner.client, want.owner.name, place.object, op.holder_owner, reason)
        found = self._refusals.get(key)
        if found is None and len(self._refusals) >= _MAX_REFUSALS:
            return
        first = found or LockRefusal(
            endpoint=place.endpoint,
            client=want.owner.client,
            owner=want.owner.name,
            object=place.object,
            path=place.path,
            offset=want.start,
            length=length_of(want.start, want.stop),
            lock_type=type_name(want.write),
            reason=reason,
            holder_owner=op.holder_owner,
            count=0,
            first_ns=op.start_lo,
            last_ns=op.end_hi,
            evidence=(op.at_call, op.at_return),
        )
        self._refusals[key] = replace(first, count=first.count + 1, last_ns=op.end_hi)

    def look_for_circle(self, wait: Wait) -> None:
        """After a DENIED: does this wait close a circle?"""
        endpoint = wait.table.place.endpoint
        if len(self._waiting) < 2 or len(self._circles) >= _MAX_CIRCLES:
            return
        waiting = {
            grant.owner.client: 0
            for grant in wait.blockers
            if (endpoint, grant.owner.client) in self._waiting
        }
        if not waiting:
            return
        clients = {client: list(w.values()) for (e, client), w in self._waiting.items() if e == endpoint}
        circle = find_circle(wait, clients, True) or find_circle(wait, clients, False)
        if circle is not None:
            self._circles[circle.key()] = circle

    # the end

    def table_done(self, table: LockTable) -> None:
        """Nothing more will happen on this file: its summary."""
        if table.contended:
            row = table.counts.row(table.place)
            self._tables.of(type(row)).append(row)

    def server(self, row: LockServer) -> None:
        """A server's row."""
        self._tables.of(LockServer).append(row)

    def finish(self, input_end: int) -> None:
        """The input ended, and all servers' tables with it."""
        for refusal in self._refusals.values():
            self._tables.of(LockRefusal).append(refusal)
        for circle in self._circles.values():
            begin, until, at_end = circle.window(input_end)
            if until > begin:
                gave_up = any(w.gave_up_by(input_end) for w in circle.waits)
                self._tables.of(LockCycle).append(_cycle_row(circle, begin, until, at_end, gave_up))


def _cycle_row(circle: Circle, begin: int, until: int, at_end: bool, gave_up: bool) -> LockCycle:
    proof = dict.fromkeys(
        p for w, g in zip(circle.waits, circle.edges, strict=True) for p in (w.at_first, g.at)
    )
    return LockCycle(
        endpoint=circle.waits[0].table.place.endpoint,
        clients=tuple(w.owner.client for w in circle.waits),
        owners=tuple(w.owner.name or "" for w in circle.waits),
        ranges=tuple(_range(w) for w in circle.waits),
        same_owners=circle.same_owners,
        from_ns=begin,
        until_ns=until,
        resolved=any(w.granted_ns is not None for w in circle.waits),
        at_end=at_end,
        evidence=tuple(proof),
        gave_up=gave_up,
    )


def _range(wait: Wait) -> str:
    place, length = wait.table.place, length_of(wait.start, wait.stop)
    return f"{file_name(place.path, place.object)}, {range_words(wait.start, length)}"
