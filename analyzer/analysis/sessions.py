"""Sessions and their slots: how many requests a session may have in flight, and when it had them all.

A slot carries one request at a time (RFC 8881, section 2.10.6.1); a client whose slots are all in use
queues further requests inside itself, where a capture can't see them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from analyzer.analysis.groups import Bools, Ints, grouped, integers, is_in, least, present, rows_of
from analyzer.core.operations import operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_MOST_SESSIONS = 16_384
_KEPT_ROWS = 4096  # rows of one session that wait for slower slots before its slots are counted
_REFILL_NS = 1_000_000  # a freed slot taken again this fast: requests were waiting


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session. `slots`: what the client may use, the least of CREATE_SESSION's ca_maxrequests and
    the server's highest target; None if neither was seen. `slots_used`: highest slot seen + 1.

    `full_ns`: time with every slot in use, in `full_periods` periods; `refills`: how many of these began
    within 1 ms of the end of the one before. `longest_*`: the longest period.
    """

    endpoint: str
    client: str | None
    session: str
    slots: int | None
    slots_used: int
    requests: int
    first_ns: int
    last_ns: int
    full_ns: int
    full_periods: int
    refills: int
    longest_start_ns: int | None
    longest_end_ns: int | None
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Requests:
    """Requests of one session whose slots aren't all counted yet."""

    starts: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    ends: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    refs: list[str | None] = field(default_factory=list)

    def add(self, starts: Ints, ends: Ints, refs: list[str | None]) -> None:
        self.starts = np.concatenate([self.starts, starts])
        self.ends = np.concatenate([self.ends, ends])
        self.refs += refs

    def drop_until(self, when: int) -> None:
        keep = self.ends > when
        self.refs = [ref for ref, kept in zip(self.refs, keep.tolist(), strict=True) if kept]
        self.starts, self.ends = self.starts[keep], self.ends[keep]


@dataclass(slots=True)
class _Session:
    client: str | None
    first_ns: int
    granted: int | None = None
    target: int | None = None
    last_ns: int = 0
    requests: int = 0
    slot_ends: dict[int, int] = field(default_factory=dict)
    waiting: _Requests = field(default_factory=_Requests)
    counted_ns: int | None = None
    full_ns: int = 0
    full_periods: int = 0
    refills: int = 0
    last_full_end_ns: int | None = None
    longest: tuple[int, int] | None = None
    evidence: tuple[str, ...] = ()

    @property
    def slots(self) -> int | None:
        limits = [limit for limit in (self.granted, self.target) if limit]
        return min(limits) if limits else None


class _Sessions:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(SessionRow)
        self._sessions: dict[tuple[str, str], _Session] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        good = (integers(batch.column("status_code"), null=-1) == 0) & present(batch.column("session"))
        created = good & is_in(batch.column("op"), frozenset({"CREATE_SESSION"}))
        if created.any():
            for row in operations(rows_of(batch, created)):
                session = self._session(row.endpoint, row.session, row.client, row.end_lo)
                session.granted = row.max_slots or session.granted
        used = good & is_in(batch.column("op"), frozenset({"SEQUENCE"})) & present(batch.column("slot"))
        batch = rows_of(batch, used)
        if batch.num_rows:
            self._requests(batch)

    def _session(self, endpoint: str, name: str, client: str | None, when: int) -> _Session:
        found = self._sessions.get((endpoint, name))
        if found is None:
            if len(self._sessions) >= _MOST_SESSIONS:
                self._emit(next(iter(self._sessions)))
            found = self._sessions[(endpoint, name)] = _Session(client, when)
        return found

    def _requests(self, batch: pa.RecordBatch) -> None:
        codes, groups = grouped(batch, ("endpoint", "session", "client"))
        starts, ends = integers(batch.column("start_lo")), integers(batch.column("end_lo"))
        slots, targets = integers(batch.column("slot")), integers(batch.column("target_slot"), null=-1)
        begins = least(codes, starts, len(groups)).tolist()
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(groups) + 1)).tolist()
        for code, (endpoint, name, client) in enumerate(groups):
            rows = order[bounds[code] : bounds[code + 1]]
            session = self._session(endpoint, name, client, begins[code])
            session.requests += len(rows)
            session.last_ns = max(session.last_ns, int(ends[rows[-1]]))
            target = int(targets[rows].max())
            if target >= 0:
                session.target = max(session.target or 0, target + 1)
            _note_slots(session, slots[rows], ends[rows])
            if _half_used(session):
                refs = batch.column("at_call").take(pa.array(rows)).to_pylist()
                session.waiting.add(starts[rows], ends[rows], refs)
                if _all_slots_used(session):
                    _count(session, final=False)
                elif len(session.waiting.ends) > _most_waiting(session):
                    session.waiting.drop_until(int(session.waiting.ends[-_KEPT_ROWS // 2]))

    def _emit(self, key: tuple[str, str]) -> None:
        session = self._sessions.pop(key)
        if _all_slots_used(session):
            _count(session, final=True)
        longest = session.longest or (None, None)
        self._rows.append(
            SessionRow(
                endpoint=key[0],
                client=session.client,
                session=key[1],
                slots=session.slots,
                slots_used=max(session.slot_ends, default=-1) + 1,
                requests=session.requests,
                first_ns=session.first_ns,
                last_ns=session.last_ns,
                full_ns=session.full_ns,
                full_periods=session.full_periods,
                refills=session.refills,
                longest_start_ns=longest[0],
                longest_end_ns=longest[1],
                evidence=session.evidence,
            )
        )

    def finish(self) -> None:
        for key in list(self._sessions):
            self._emit(key)


def _note_slots(session: _Session, slots: Ints, ends: Ints) -> None:
    """Remember when each slot was last seen to be freed (rows are in order of `ends`)."""
    found, last = np.unique(slots[::-1], return_index=True)
    for slot, when in zip(found.tolist(), ends[::-1][last].tolist(), strict=True):
        session.slot_ends[slot] = when


def _half_used(session: _Session) -> bool:
    """Requests are kept once half of the slots are in use: most sessions never come so far."""
    return session.slots is not None and session.slots > 1 and len(session.slot_ends) >= session.slots // 2


def _most_waiting(session: _Session) -> int:
    return max(_KEPT_ROWS, 64 * (session.slots or 0))


def _all_slots_used(session: _Session) -> bool:
    """A session of one slot is a choice, not exhaustion, so that it is left out."""
    return session.slots is not None and len(session.slot_ends) >= session.slots > 1


def _count(session: _Session, final: bool) -> None:
    """Count full time as far as it is certain: up to the slot that was freed longest ago, since what
    is in flight on that slot isn't known before its reply."""
    waiting, slots = session.waiting, session.slots or 0
    if not len(waiting.ends):
        return
    certain = int(waiting.ends.max()) if final else min(session.slot_ends.values())
    if not final and len(waiting.ends) > _most_waiting(session):
        certain = max(certain, int(np.sort(waiting.ends)[-_KEPT_ROWS // 2]))
    since = session.counted_ns if session.counted_ns is not None else int(waiting.starts.min())
    if certain <= since:
        return
    begins, ends = _full_periods(waiting.starts, waiting.ends, slots)
    inside = (ends > since) & (begins < certain)
    for begin, end in zip(begins[inside].tolist(), ends[inside].tolist(), strict=True):
        _add_period(session, max(begin, since), min(end, certain), continues=begin < since)
    session.counted_ns = certain
    waiting.drop_until(certain)


def _full_periods(starts: Ints, ends: Ints, slots: int) -> tuple[Ints, Ints]:
    """Periods in which at least `slots` of the intervals run at once.

    An end comes before a start at the same instant: intervals that only touch don't overlap.
    """
    times = np.concatenate([ends, starts])
    steps = np.concatenate([np.full(len(ends), -1), np.ones(len(starts), dtype=np.int64)])
    order = np.lexsort((steps, times))
    times = times[order]
    full: Bools = np.cumsum(steps[order]) >= slots
    edges = np.flatnonzero(np.diff(np.concatenate([[False], full, [False]]).astype(np.int8)))
    begins, finishes = times[edges[::2]], times[np.minimum(edges[1::2], len(times) - 1)]
    lasting = finishes > begins
    return begins[lasting], finishes[lasting]


def _add_period(session: _Session, begin: int, end: int, continues: bool) -> None:
    session.full_ns += end - begin
    if not continues:
        session.full_periods += 1
        last = session.last_full_end_ns
        if last is not None and begin - last <= _REFILL_NS:
            session.refills += 1
    session.last_full_end_ns = end
    if session.longest is None or end - begin > session.longest[1] - session.longest[0]:
        session.longest = (begin, end)
        running = (session.waiting.starts <= begin) & (session.waiting.ends >= end)
        refs = [session.waiting.refs[row] for row in np.flatnonzero(running)[:8].tolist()]
        session.evidence = tuple(ref for ref in refs if ref)


FOLD = Fold(
    name="sessions",
    reads=(
        *("endpoint", "client", "op", "session", "slot", "target_slot", "max_slots"),
        *("status_code", "start_lo", "end_lo", "at_call"),
    ),
    produces=(SessionRow,),
    start=_Sessions,
    kinds=frozenset({"session"}),
)
