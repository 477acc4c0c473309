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

    def turn(self, before: _Write, now: _Write, start_ns: int) -> None:
        """`now` met bytes of `before`."""
        if not self.turns:
            self.first_ns = before.end_ns
        self.turns += 1
        self.growing += now.stop > before.stop
        self.overlap_bytes += min(before.stop, now.stop) - max(before.start, now.start)
        self.last_ns = max(self.last_ns, now.end_ns, start_ns)
        for write in (before, now):
            if len(self.clients) < _MOST_CLIENTS:
                self.clients[write.client] = None
            if len(self.evidence) < _EVIDENCE and write.at not in self.evidence:
                self.evidence.append(write.at)


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
        told = np.flatnonzero(turn | (first & known[of]) | (last & (wrote | known[of])))

        def written(place: int) -> _Write:
            at = batch.column("at_call")[int(rows[place])].as_py() or ""
            name = client.word(int(who[place])) or _NO_CLIENT
            low = int(start[place])
            return _Write(name, low, low + int(size[place]), int(ended[place]), at)

        for place in told.tolist():
            endpoint, target = names[of[place]]
            file = self._file((endpoint, target), paths, int(rows[place]))
            if turn[place]:
                file.turn(written(place - 1), written(place), int(begun[place]))
            elif first[place] and wrote[place] and file.last is not None:
                now = written(place)
                met = now.start < file.last.stop and file.last.start < now.stop
                soon = int(begun[place]) - file.last.end_ns <= LONGEST_GAP_NS
                if met and soon and now.client != file.last.client:
                    file.turn(file.last, now, int(begun[place]))
            if last[place]:
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
