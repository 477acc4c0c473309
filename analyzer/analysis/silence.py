"""Silence: how long a client sent nothing to a server at which it holds a client id.

Every SEQUENCE (4.1), and every RENEW or operation on state (4.0), renews the lease (RFC 8881, section
8.3; RFC 7530, section 9.5). A client that is silent for longer than the lease may lose its state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from analyzer.analysis.groups import (
    ALWAYS_NS,
    Ints,
    booleans,
    ends_or_starts,
    greatest,
    grouped,
    integers,
    is_in,
    least,
    present,
    rows_of,
)
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_SHORTEST_NS = 1_000_000_000  # no lease is shorter
#: A client that said one of these may be silent for as long as it likes: it has nothing to renew.
_GOODBYES = frozenset({"DESTROY_CLIENTID", "DESTROY_SESSION"})
_KEPT = 4  # longest silences kept per client


@dataclass(frozen=True, slots=True)
class SilenceRow:
    """One silence of one client at one server, only the longest few of each client and at least 1 s.

    From the last reply (or unanswered call) before it to the first call after it; `ended` is False if
    the client never came back in this input. `sessions`: the client uses sessions (NFSv4.1 or later).
    """

    endpoint: str
    client: str
    sessions: bool
    start_ns: int
    end_ns: int
    ended: bool
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Gap:
    start_ns: int
    end_ns: int
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Client:
    last_ns: int
    last_ref: str
    sessions: bool = False
    destroyed: bool = False
    gaps: list[_Gap] = field(default_factory=list)

    def keep(self, gap: _Gap) -> None:
        self.gaps.append(gap)
        if len(self.gaps) > _KEPT:
            self.gaps.remove(min(self.gaps, key=lambda g: g.end_ns - g.start_ns))

    def interrupt(self, starts: Ints) -> None:
        """Calls that are only known now (their replies were late) cut silences short."""
        for gap in list(self.gaps):
            inside = starts[(starts > gap.start_ns) & (starts < gap.end_ns)]
            if len(inside):
                gap.end_ns = int(inside.min())
                if gap.end_ns - gap.start_ns < _SHORTEST_NS:
                    self.gaps.remove(gap)


class _Silences:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(SilenceRow)
        self._clients: dict[tuple[str, str], _Client] = {}
        self._last_ns = ALWAYS_NS

    def feed(self, batch: pa.RecordBatch) -> None:
        self._last_ns = max(self._last_ns, int(ends_or_starts(batch).max()))
        destroys = is_in(batch.column("op"), _GOODBYES)
        # all operations of a COMPOUND share its times, so one of them is enough
        chosen = (integers(batch.column("position")) == 0) | destroys
        chosen &= present(batch.column("client")) & ~booleans(batch.column("callback"))
        batch = rows_of(batch, chosen)
        if not batch.num_rows:
            return
        codes, groups = grouped(batch, ("endpoint", "client"))
        starts, ends = integers(batch.column("start_lo")), ends_or_starts(batch)
        begins = least(codes, starts, len(groups)).tolist()
        finishes = greatest(codes, ends, len(groups)).tolist()
        suspects = set()
        for code, key in enumerate(groups):
            state = self._clients.get(key)
            if state is None:
                state = self._clients[key] = _Client(begins[code], "")
            if any(begins[code] < gap.end_ns for gap in state.gaps):
                state.interrupt(starts[codes == code])
            if finishes[code] - state.last_ns >= _SHORTEST_NS:
                suspects.add(code)
        if suspects:
            self._search(batch, codes, groups, suspects)
        self._remember(batch, codes, groups, ends)

    def _search(
        self, batch: pa.RecordBatch, codes: Ints, groups: list[tuple[str, str]], suspects: set[int]
    ) -> None:
        """Find the silences of the clients in `suspects`: sort their calls by start."""
        wanted = np.zeros(len(groups), dtype=bool)
        wanted[list(suspects)] = True
        batch, codes = rows_of(batch, wanted[codes]), codes[wanted[codes]]
        starts, ends = integers(batch.column("start_lo")), ends_or_starts(batch)
        order = np.lexsort((starts, codes))
        codes, starts, ends = codes[order], starts[order], ends[order]
        earlier = np.array([self._clients[key].last_ns for key in groups], dtype=np.int64)[codes]
        # the latest end so far within each client: shift clients apart, accumulate, shift back
        base = min(int(earlier.min()), int(starts.min()))
        stride = int(max(ends.max(), earlier.max())) - base + 1
        shift = codes * stride
        latest = np.maximum.accumulate(np.maximum(ends, earlier) - base + shift) - shift + base
        quiet_since = np.empty_like(latest)
        quiet_since[1:] = latest[:-1]
        new_client = np.empty(len(codes), dtype=bool)
        new_client[0], new_client[1:] = True, codes[1:] != codes[:-1]
        quiet_since[new_client] = earlier[new_client]
        destroys = is_in(batch.column("op"), _GOODBYES)[order]
        at_call, at_return = batch.column("at_call"), batch.column("at_return")
        for row in np.flatnonzero(starts - quiet_since >= _SHORTEST_NS).tolist():
            state = self._clients[groups[codes[row]]]
            first = bool(new_client[row])
            if state.destroyed if first else bool(destroys[row - 1]):
                continue
            before = state.last_ref if first else at_return[int(order[row - 1])].as_py()
            refs = tuple(ref for ref in (before, at_call[int(order[row])].as_py()) if ref)
            state.keep(_Gap(int(quiet_since[row]), int(starts[row]), refs))

    def _remember(
        self, batch: pa.RecordBatch, codes: Ints, groups: list[tuple[str, str]], ends: Ints
    ) -> None:
        """Carry the last operation of each client over to the next batch."""
        by_end = np.argsort(ends, kind="stable")  # a call that was never answered comes after all others
        final = by_end[greatest(codes[by_end], np.arange(len(codes)), len(groups))].tolist()
        has_session = np.zeros(len(groups), dtype=bool)
        has_session[codes[~is_in(batch.column("protocol"), frozenset({"nfs4.0"}))]] = True
        at_return, status = batch.column("at_return"), batch.column("status_code")
        for code, key in enumerate(groups):
            state, row = self._clients[key], final[code]
            state.sessions = state.sessions or bool(has_session[code])
            if int(ends[row]) < state.last_ns:
                continue
            state.last_ns = int(ends[row])
            state.last_ref = at_return[row].as_py() or state.last_ref
            state.destroyed = batch.column("op")[row].as_py() in _GOODBYES and not status[row].as_py()

    def finish(self) -> None:
        for (endpoint, client), state in self._clients.items():
            for gap in sorted(state.gaps, key=lambda g: g.start_ns):
                times = (gap.start_ns, gap.end_ns)
                self._rows.append(SilenceRow(endpoint, client, state.sessions, *times, True, gap.evidence))
            if self._last_ns - state.last_ns >= _SHORTEST_NS and not state.destroyed:
                evidence = (state.last_ref,) if state.last_ref else ()
                times = (state.last_ns, self._last_ns)
                self._rows.append(SilenceRow(endpoint, client, state.sessions, *times, False, evidence))


FOLD = Fold(
    name="silence",
    reads=(
        *("endpoint", "client", "protocol", "op", "position", "status_code", "callback"),
        *("start_lo", "end_lo", "at_call", "at_return"),
    ),
    produces=(SilenceRow,),
    start=_Silences,
)
