"""Writes of several clients to the same bytes of a file that both have open, with no lock on the file.

Close-to-open consistency (RFC 7530 section 1.4.6, RFC 8881 section 10.3.1) orders two clients only by
CLOSE and OPEN, and locks do; without either, each client writes what it believes the file to be. A Linux
client sends whole dirty parts of pages: two clients that append, or write to different bytes of a page,
then send the other's bytes as they were before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import Coded, Ints, Mask, group, integers, present, text
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

#: WRITEs further apart are no race.
LONGEST_GAP_NS: Final = 10_000_000_000
_MOST_FILES: Final = 8192
_MOST_LOCKED: Final = 65_536
_MOST_CLIENTS: Final = 8
_EVIDENCE: Final = 6
_NO_CLIENT: Final = "an unknown client"


@dataclass(frozen=True, slots=True)
class OverwriteRow:
    """One file whose bytes several clients wrote in turns. `turns`: WRITEs that met bytes of the WRITE
    before, which was another client's, not closed, and at most `LONGEST_GAP_NS` earlier. `growing`: how
    many of them also reached further than that WRITE, as appending does. `overlap_bytes` sums what the
    turns had in common."""

    endpoint: str
    object: str
    path: str | None
    clients: tuple[str, ...]
    turns: int
    growing: int
    overlap_bytes: int
    first_ns: int
    last_ns: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Write:
    """The last WRITE to a file, if no CLOSE followed."""

    client: str
    start: int
    stop: int
    end_ns: int
    at: str


@dataclass(slots=True)
class _File:
    path: str | None = None
    last: _Write | None = None
    clients: dict[str, None] = field(default_factory=dict)
    turns: int = 0
    growing: int = 0
    overlap_bytes: int = 0
    first_ns: int = 0
    last_ns: int = 0
    evidence: list[str] = field(default_factory=list)

    def add(self, turns: _Turns) -> None:
        """Turns that came after those before."""
        if not self.turns:
            self.first_ns = turns.first_ns
        self.turns += turns.count
        self.growing += turns.growing
        self.overlap_bytes += turns.overlap_bytes
        self.last_ns = max(self.last_ns, turns.last_ns)
        for name in turns.clients:
            if len(self.clients) < _MOST_CLIENTS:
                self.clients[name] = None
        for at in turns.evidence:
            if len(self.evidence) < _EVIDENCE and at not in self.evidence:
                self.evidence.append(at)


@dataclass(frozen=True, slots=True)
class _Turns:
    """Some turns on one file; `first_ns` is when the WRITE before the first of them was answered."""

    count: int
    growing: int
    overlap_bytes: int
    first_ns: int
    last_ns: int
    clients: tuple[str, ...]
    evidence: tuple[str, ...]


def _single(before: _Write, now: _Write) -> _Turns:
    """`now` met bytes of `before`."""
    return _Turns(
        count=1,
        growing=int(now.stop > before.stop),
        overlap_bytes=min(before.stop, now.stop) - max(before.start, now.start),
        first_ns=before.end_ns,
        last_ns=now.end_ns,
        clients=(before.client, now.client),
        evidence=(before.at, now.at),
    )


def _met(before: _Write, now: _Write, begun_ns: int) -> bool:
    """Whether this is a turn, as `_follow` finds them within a batch."""
    overlap = now.start < before.stop and before.start < now.stop
    return overlap and now.client != before.client and begun_ns - before.end_ns <= LONGEST_GAP_NS


Key = tuple[str, str]


class _Walk:
    def __init__(self, tables: Tables) -> None:
        self._table = tables.of(OverwriteRow)
        self._files: dict[Key, _File] = {}
        self._locked: set[Key] = set()

    def feed(self, batch: pa.RecordBatch) -> None:
        kind = text(batch, "kind")
        good = (integers(batch, "status_code") == 0) & present(batch, "end_hi") & present(batch, "object")
        self._note_locks(batch, kind.lookup(frozenset({"lock", "unlock"})) & present(batch, "object"))
        write = (
            kind.lookup(frozenset({"write"})) & (integers(batch, "bytes") > 0) & present(batch, "offset")
        )
        rows = np.flatnonzero(good & (write | kind.lookup(frozenset({"close"}))))
        if not write[rows].any():
            for key in self._named(batch, rows):
                if key in self._files:
                    self._files[key].last = None
            return
        self._follow(batch, rows, write)

    def _named(self, batch: pa.RecordBatch, rows: Ints) -> list[Key]:
        if not len(rows) or not self._files:
            return []
        columns = [text(batch, name).take(rows) for name in ("endpoint", "object")]
        found = group(*((c.codes, c.size) for c in columns)).names(columns)
        return [(endpoint, target) for endpoint, target in found]

    def _note_locks(self, batch: pa.RecordBatch, mask: Mask) -> None:
        if not mask.any():
            return
        columns = [text(batch, name).take(mask) for name in ("endpoint", "object")]
        for endpoint, target in group(*((c.codes, c.size) for c in columns)).names(columns):
            if len(self._locked) < _MOST_LOCKED:
                self._locked.add((endpoint, target))

    def _follow(self, batch: pa.RecordBatch, rows: Ints, write: Mask) -> None:
        """WRITEs and CLOSEs of each file in the order of their replies."""
        columns = [text(batch, name).take(rows) for name in ("endpoint", "object")]
        files = group(*((c.codes, c.size) for c in columns))
        order = np.argsort(files.of_row, kind="stable")
        rows, of = rows[order], files.of_row[order]
        client = text(batch, "client")
        start, size = integers(batch, "offset")[rows], integers(batch, "bytes")[rows]
        begun, ended = integers(batch, "start_lo")[rows], integers(batch, "end_hi")[rows]
        who, wrote = client.codes[rows], write[rows]
        turn = np.zeros(len(rows), dtype=bool)
        turn[1:] = (
            (of[1:] == of[:-1]) & wrote[1:] & wrote[:-1] & (who[1:] != who[:-1])
            & (start[1:] < (start + size)[:-1]) & (start[:-1] < (start + size)[1:])
            & (begun[1:] - ended[:-1] <= LONGEST_GAP_NS)
        )  # fmt: skip
        first = np.append(True, of[1:] != of[:-1])
        last = np.append(first[1:], True)
        names, paths = files.names(columns), text(batch, "path")
        known = np.array([name in self._files for name in names], dtype=bool)

        def written(place: int) -> _Write:
            at = batch.column("at_call")[int(rows[place])].as_py() or ""
            name = client.word(int(who[place])) or _NO_CLIENT
            low = int(start[place])
            return _Write(name, low, low + int(size[place]), int(ended[place]), at)

        for place in np.flatnonzero(first & known[of] & wrote).tolist():
            file = self._files[names[of[place]]]
            if file.last is not None and _met(file.last, written(place), int(begun[place])):
                file.add(_single(file.last, written(place)))
        turns = np.flatnonzero(turn)
        for at in np.split(turns, np.flatnonzero(np.diff(of[turns])) + 1) if len(turns) else ():
            stop = start + size
            few = [one for place in at[:_EVIDENCE].tolist() for one in (written(place - 1), written(place))]
            codes = np.unique(np.concatenate([who[at], who[at - 1]]))[:_MOST_CLIENTS].tolist()
            overlap = np.minimum(stop[at], stop[at - 1]) - np.maximum(start[at], start[at - 1])
            self._file(names[of[at[0]]], paths, int(rows[at[0]])).add(
                _Turns(
                    count=len(at),
                    growing=int((stop[at] > stop[at - 1]).sum()),
                    overlap_bytes=int(overlap.sum()),
                    first_ns=few[0].end_ns,
                    last_ns=int(ended[at].max()),
                    clients=tuple(
                        dict.fromkeys(
                            [*(one.client for one in few), *(client.word(c) or _NO_CLIENT for c in codes)]
                        )
                    ),
                    evidence=tuple(one.at for one in few),
                )
            )
        for place in np.flatnonzero(last & (wrote | known[of])).tolist():
            file = self._file(names[of[place]], paths, int(rows[place]))
            file.last = written(place) if wrote[place] else None

    def _file(self, key: Key, paths: Coded, row: int) -> _File:
        file = self._files.get(key)
        if file is None:
            if len(self._files) >= _MOST_FILES:
                self._make_room()
            file = self._files[key] = _File()
        file.path = paths.word(int(paths.codes[row])) or file.path
        return file

    def _make_room(self) -> None:
        """Forget the files that nobody fought over, or if there are none the oldest."""
        quiet = [key for key, file in self._files.items() if not file.turns]
        for key in quiet or list(self._files)[: _MOST_FILES // 8]:
            self._emit(key, self._files.pop(key))

    def _emit(self, key: Key, file: _File) -> None:
        if not file.turns or key in self._locked:
            return
        self._table.append(
            OverwriteRow(
                *key,
                path=file.path,
                clients=tuple(file.clients),
                turns=file.turns,
                growing=file.growing,
                overlap_bytes=file.overlap_bytes,
                first_ns=file.first_ns,
                last_ns=file.last_ns,
                evidence=tuple(file.evidence),
            )
        )

    def finish(self) -> None:
        for key, file in self._files.items():
            self._emit(key, file)


FOLD = Fold(
    name="overwrites",
    reads=(
        "endpoint", "client", "object", "path", "kind", "status_code", "start_lo", "end_hi", "offset",
        "bytes", "at_call",
    ),
    produces=(OverwriteRow,),
    start=_Walk,
    kinds=frozenset({"write", "close", "lock", "unlock"}),
)  # fmt: skip
