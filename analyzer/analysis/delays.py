"""DELAY: who was told to come back later, for what, how often, and when it got through.

NFS4ERR_DELAY (RFC 8881, section 15.1.1.3) often means that the server recalls a delegation or a layout.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from analyzer.analysis.groups import Bools, Ints, booleans, grouped, integers, is_in, present, rows_of
from analyzer.core.operations import Operation, operations
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_EPISODE_GAP_NS = 60_000_000_000  # the longest back-off of a Linux client is 15 s
_MOST_EPISODES = 16_384
_EVIDENCE = 8


@dataclass(frozen=True, slots=True)
class DelayRow:
    """One operation on one file that was put off: first call, last refusal, and the reply of the one
    that got through (None if not in this input)."""

    endpoint: str
    client: str
    op: str
    object: str | None
    path: str | None
    count: int
    first_ns: int
    last_ns: int
    through_ns: int | None
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Episode:
    path: str | None
    first_ns: int
    last_ns: int = 0
    count: int = 0
    evidence: list[str] = field(default_factory=list)


_Who = tuple[str, str, str]  # endpoint, client, operation


class _Delays:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(DelayRow)
        self._open: dict[_Who, dict[str | None, _Episode]] = {}
        self._size = 0

    def feed(self, batch: pa.RecordBatch) -> None:
        usable = present(batch.column("client")) & present(batch.column("end_lo"))
        usable &= ~booleans(batch.column("callback"))
        delayed = usable & is_in(batch.column("status"), frozenset({"DELAY"}))
        if not self._open and not delayed.any():
            return
        codes, groups = grouped(batch, ("endpoint", "client", "op"))
        waiting = {group for code, group in enumerate(groups) if group in self._open}
        waiting |= {groups[code] for code in set(codes[delayed].tolist())}
        if not waiting:
            return
        concerned = [code for code, group in enumerate(groups) if group in waiting]
        good = usable & (integers(batch.column("status_code"), null=-1) == 0)
        interesting = delayed | (good & _any_of(codes, concerned, len(groups)))
        for row in operations(rows_of(batch, interesting)):
            if row.status_code:
                self._delayed(row)
            else:
                self._through(row)

    def _delayed(self, row: Operation) -> None:
        who = (row.endpoint, row.client, row.op)
        episodes = self._open.setdefault(who, {})
        name = row.object or row.path
        episode = episodes.get(name)
        if episode is not None and row.start_lo > episode.last_ns + _EPISODE_GAP_NS:
            self._close(who, name, None)
            episodes = self._open.setdefault(who, {})
            episode = None
        if episode is None:
            if self._size >= _MOST_EPISODES:
                oldest = next(iter(self._open))
                self._close(oldest, next(iter(self._open[oldest])), None)
                episodes = self._open.setdefault(who, {})
            episode = episodes[name] = _Episode(row.path, row.start_lo)
            self._size += 1
        episode.count += 1
        episode.last_ns = row.end_lo
        if row.at_return and len(episode.evidence) < _EVIDENCE:
            episode.evidence.append(row.at_return)

    def _through(self, row: Operation) -> None:
        who = (row.endpoint, row.client, row.op)
        for name, episode in list(self._open.get(who, {}).items()):
            # an OPEN that failed knows the file by its name only, one that succeeded by its handle
            same = name == row.object or (episode.path is not None and episode.path == row.path)
            if same and row.start_lo >= episode.last_ns:
                if row.at_return:
                    episode.evidence.append(row.at_return)
                self._close(who, name, row.end_lo)
            elif row.start_lo > episode.last_ns + _EPISODE_GAP_NS:
                self._close(who, name, None)

    def _close(self, who: _Who, name: str | None, through_ns: int | None) -> None:
        episode = self._open[who].pop(name)
        if not self._open[who]:
            del self._open[who]
        self._size -= 1
        times = (episode.first_ns, episode.last_ns)
        self._rows.append(
            DelayRow(*who, name, episode.path, episode.count, *times, through_ns, tuple(episode.evidence))
        )

    def finish(self) -> None:
        for who in list(self._open):
            for name in list(self._open[who]):
                self._close(who, name, None)


def _any_of(codes: Ints, wanted: list[int], size: int) -> Bools:
    chosen = np.zeros(size, dtype=bool)
    chosen[wanted] = True
    return np.asarray(chosen[codes], dtype=np.bool_)


FOLD = Fold(
    name="delays",
    reads=(
        *("endpoint", "client", "op", "object", "path", "status", "status_code", "callback"),
        *("start_lo", "end_lo", "at_return"),
    ),
    produces=(DelayRow,),
    start=_Delays,
)
