"""UNSTABLE writes, COMMITs and write verifiers, per client and file.

WRITE and COMMIT are bulk, so each batch is cut to what can matter before the loop: of a file with one
verifier and COMMITs of the whole file only what follows its last COMMIT, and nothing of a file that has
no UNSTABLE write there and none outstanding. What is left goes in runs to `uncommitted.FileWrites`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import Ints, Mask, group, integers, present, text
from analyzer.analysis.uncommitted import TO_END, FileWrites, Step, UncommittedData
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

#: Files with outstanding writes that are followed at one time; the oldest are forgotten beyond that.
MOST_FILES: Final = 8192

_UNSTABLE, _STABLE, _COMMIT, _CLOSE = range(4)
_WHAT: Final = ("unstable", "stable", "commit", "close")
_FAR: Final = (1 << 62) - 1
Key = tuple[str, ...]  # endpoint, client, object


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a batch, sorted by file and then by reply. `of` is the file's number, `keys` its names."""

    batch: pa.RecordBatch
    row: Ints
    of: Ints
    what: Ints
    verifier: Ints  # -1 unknown
    lo: Ints
    hi: Ints
    size: Ints
    keys: list[Key]

    def cut(self, mask: Mask) -> _Rows:
        """Only the rows in the mask."""
        return replace(
            self,
            row=self.row[mask],
            of=self.of[mask],
            what=self.what[mask],
            verifier=self.verifier[mask],
            lo=self.lo[mask],
            hi=self.hi[mask],
            size=self.size[mask],
        )


class _Walk:
    def __init__(self, tables: Tables) -> None:
        self._table = tables.of(UncommittedData)
        self._files: dict[Key, FileWrites] = {}
        self._last_ns = 0

    def feed(self, batch: pa.RecordBatch) -> None:
        rows = _sorted_rows(batch)
        if rows is None:
            return
        self._last_ns = max(self._last_ns, int(integers(batch, "end_lo")[rows.row].max()))
        known = [self._files.get(key) for key in rows.keys]
        several = _several_verifiers(rows, known)
        rows = rows.cut(_matters(rows, known, several))
        if len(rows.row):
            self._take(_steps(rows, several))

    def _take(self, steps: list[tuple[Key, Step]]) -> None:
        for key, step in steps:
            file = self._files.get(key)
            if file is None:
                if step.what != "unstable":
                    continue
                file = self._files[key] = FileWrites(*key)
            self._table.extend(file.take(step))
            if file.idle:
                del self._files[key]
        while len(self._files) > MOST_FILES:
            del self._files[next(iter(self._files))]

    def finish(self) -> None:
        for file in self._files.values():
            self._table.extend(file.finish(self._last_ns))


def _sorted_rows(batch: pa.RecordBatch) -> _Rows | None:
    """The WRITEs, COMMITs and CLOSEs of a batch that went well and name a file."""
    kind, committed, stable = (text(batch, name) for name in ("kind", "committed", "stable"))
    known = committed.codes < len(committed.dictionary)
    lazy = frozenset({"unstable"})
    unstable = np.where(known, committed.lookup(lazy), stable.lookup(lazy))
    write = kind.lookup(frozenset({"write"}))
    commit, close = (kind.lookup(frozenset({word})) for word in ("commit", "close"))
    chosen = (write | commit | close) & present(batch, "end_lo") & present(batch, "object")
    chosen &= integers(batch, "status_code") == 0
    row = np.flatnonzero(chosen)
    if len(row) == 0:
        return None
    names = [text(batch, name).take(row) for name in ("endpoint", "client", "object")]
    files = group(*((c.codes, c.size) for c in names))
    order = np.argsort(files.of_row, kind="stable")
    row, of = row[order], files.of_row[order]
    what = np.select([unstable & write, write, commit], [_UNSTABLE, _STABLE, _COMMIT], _CLOSE)[row]
    verifier = text(batch, "value").take(row)
    codes = np.where(verifier.codes == verifier.size - 1, -1, verifier.codes)
    lo, length = integers(batch, "offset")[row], integers(batch, "length", -1)[row]
    size = np.where(what <= _STABLE, integers(batch, "bytes")[row], 0)
    span = np.where(what <= _STABLE, size, length)
    to_end = (what == _COMMIT) & (length <= 0)
    hi = np.where(to_end, TO_END, np.minimum(lo, _FAR) + np.clip(span, 0, _FAR))
    return _Rows(batch, row, of, what, codes, lo, hi, size, files.names(names))


def _matters(rows: _Rows, known: list[FileWrites | None], several: Mask) -> Mask:
    """The rows that can change what is known of a file."""
    files = len(rows.keys)
    begin = np.searchsorted(rows.of, np.arange(files))[rows.of]
    place = np.arange(len(rows.of))
    whole = (rows.what == _COMMIT) & (rows.lo == 0) & (rows.hi == TO_END)
    last_whole = np.maximum.accumulate(np.where(whole, place, -1))
    last_unstable = np.maximum.accumulate(np.where(rows.what == _UNSTABLE, place, -1))
    open_before = np.array([f is not None for f in known], dtype=bool)[rows.of]
    uncommitted = (last_unstable >= begin) & (last_unstable > last_whole)
    uncommitted |= open_before & (last_whole < begin)
    restless = several.copy()
    restless[rows.of[(rows.what == _CLOSE) & uncommitted]] = True
    restless[rows.of[(rows.what == _COMMIT) & ~whole]] = True
    final = np.full(files, -1, dtype=np.int64)
    final[rows.of[whole]] = place[whole]  # the last one stays
    kept = restless[rows.of] | (place > final[rows.of]) | ((place == final[rows.of]) & open_before)
    useful = np.array([f is not None for f in known], dtype=bool)
    useful[rows.of[kept & (rows.what == _UNSTABLE)]] = True
    result: Mask = kept & useful[rows.of]
    return result


def _several_verifiers(rows: _Rows, known: list[FileWrites | None]) -> Mask:
    """True for each file that has more than one write verifier, here or with what is outstanding."""
    files = len(rows.keys)
    low, high = np.full(files, _FAR, dtype=np.int64), np.full(files, -1, dtype=np.int64)
    seen = rows.verifier >= 0
    np.minimum.at(low, rows.of[seen], rows.verifier[seen])
    np.maximum.at(high, rows.of[seen], rows.verifier[seen])
    several: Mask = high > low
    words = rows.batch.column("value").dictionary
    for number, file in enumerate(known):
        if file is not None and high[number] >= 0:
            several[number] |= file.lost or words[int(high[number])].as_py() != file.verifier
    return several


def _steps(rows: _Rows, several: Mask) -> list[tuple[Key, Step]]:
    """Runs of rows with the same file, meaning and verifier; a COMMIT or CLOSE is a run of its own, and so
    is every row of a file with several verifiers, where each range may matter."""
    changed = (
        (np.diff(rows.of) != 0)
        | (np.diff(rows.what) != 0)
        | (np.diff(rows.verifier) != 0)
        | (rows.what[1:] >= _COMMIT)
        | several[rows.of[1:]]
    )
    begin = np.flatnonzero(np.append(True, changed))
    final = np.append(begin[1:], len(rows.of)) - 1
    batch = rows.batch
    start, end = integers(batch, "start_lo"), integers(batch, "end_lo")
    first_row, last_row = rows.row[begin], rows.row[final]
    words = [text(batch, name).take(last_row).words() for name in ("op", "value", "stateid", "path")]
    proof = batch.column("at_return")
    what = [_WHAT[code] for code in rows.what[begin].tolist()]
    numbers = (
        final - begin + 1,
        np.add.reduceat(rows.size, begin),
        np.minimum.reduceat(rows.lo, begin),
        np.maximum.reduceat(rows.hi, begin),
        np.minimum.reduceat(start[rows.row], begin),
        end[last_row],
    )
    proofs = [proof.take(pa.array(places)).to_pylist() for places in (first_row, last_row)]
    columns: list[list[Any]] = [what, *words, *(n.tolist() for n in numbers), *proofs]
    return [
        (rows.keys[file], Step(*values))
        for file, values in zip(rows.of[begin].tolist(), zip(*columns, strict=True), strict=True)
    ]


FOLD = Fold(
    name="writes",
    reads=(
        "endpoint", "client", "object", "path", "kind", "op", "offset", "length", "bytes", "value",
        "stable", "committed", "stateid", "start_lo", "end_lo", "status_code", "at_return",
    ),
    produces=(UncommittedData,),
    start=_Walk,
    kinds=frozenset({"write", "commit", "close"}),
)  # fmt: skip
