"""The whole history of a workload as columns, for checkers that need all of it at once.

A fold made by `history_fold` gathers the operations of its workloads while they pass by, and judges them
at the end of the input. Checkers work on whole columns and sort by object, so that their cost depends on
the number of operations alone. Memory: the columns that the fold declared, once (about 150 bytes each row).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyzer.analysis.columns import Coded, Ints, Mask, integers, present, text, truths
from analyzer.analysis.intervals import NEVER
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

#: Columns that every checker needs.
BASE: Final = (
    *("op_id", "client", "process", "object", "kind", "start_lo", "end_hi", "outcome", "workload"),
    "at_call",
)


@dataclass(frozen=True, slots=True)
class History:
    """Operations in one record batch, with their columns as arrays. `start`/`end` are the widest possible
    times in ns: lower bound of the call, upper bound of the return, `NEVER` where none was seen."""

    batch: pa.RecordBatch
    start: Ints
    end: Ints
    ok: Mask  # certainly done
    fail: Mask  # certainly not done
    _kinds: Coded = field(repr=False)

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def ints(self, name: str, missing: int = 0) -> Ints:
        """An integer column; null becomes `missing`."""
        return integers(self.batch, name, missing)

    def known(self, name: str) -> Mask:
        """True where a column isn't null."""
        return present(self.batch, name)

    def text(self, name: str) -> Coded:
        """A text column."""
        return text(self.batch, name)

    def true(self, name: str) -> Mask:
        """A column of booleans; null is False."""
        return truths(self.batch, name)

    def kind(self, *kinds: str) -> Mask:
        """Operations of these kinds."""
        return self._kinds.lookup(frozenset(kinds))

    def word(self, name: str, row: int) -> str:
        """One text, "" for null."""
        value = self.batch.column(name)[row].as_py()
        return "" if value is None else str(value)

    def cite(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Where operations are written down; rows below 0 are none."""
        places = self.batch.column("at_call")
        found = []
        for row in rows:
            if row >= 0:
                found.append(places[int(row)].as_py() or f"operation {self.ints('op_id')[row]}")
        return tuple(dict.fromkeys(found))

    def ids(self, rows: Iterable[int]) -> tuple[int, ...]:
        """`op_id` of operations; rows below 0 are none."""
        column = self.batch.column("op_id")
        return tuple(dict.fromkeys(column[int(row)].as_py() for row in rows if row >= 0))

    def row_of(self, op_ids: Ints) -> Ints:
        """Rows by `op_id`; -1 for those that aren't in this history."""
        own = self.ints("op_id")
        order = np.argsort(own, kind="stable")
        place = np.minimum(np.searchsorted(own, op_ids, sorter=order), len(own) - 1)
        found = order[place]
        return np.where(own[found] == op_ids, found, -1)

    def take(self, rows: Mask | Ints) -> History:
        """The same history of some rows."""
        if rows.dtype == np.bool_:
            if rows.all():
                return self
            return as_history(self.batch.filter(pa.array(rows)))
        return as_history(self.batch.take(pa.array(rows)))


def as_history(batch: pa.RecordBatch) -> History:
    """The arrays of a batch that has at least the columns `BASE`."""
    outcome = text(batch, "outcome")
    return History(
        batch=batch,
        start=integers(batch, "start_lo"),
        end=integers(batch, "end_hi", NEVER),
        ok=outcome.lookup(frozenset({"ok"})),
        fail=outcome.lookup(frozenset({"fail"})),
        _kinds=text(batch, "kind"),
    )


class _Whole:
    """Gathers the operations of some workloads and hands them over at the end."""

    def __init__(self, tables: Tables, workloads: frozenset[str], judge: Judge) -> None:
        self._tables, self._workloads, self._judge = tables, workloads, judge
        self._batches: list[pa.RecordBatch] = []

    def feed(self, batch: pa.RecordBatch) -> None:
        mask = text(batch, "workload").lookup(self._workloads)
        mask |= text(batch, "kind").lookup(frozenset({"fault"}))  # faults concern every workload
        if mask.all():
            self._batches.append(batch)
        elif mask.any():
            self._batches.append(batch.filter(pa.array(mask)))

    def finish(self) -> None:
        if any(text(b, "workload").lookup(self._workloads).any() for b in self._batches):
            table = pa.Table.from_batches(self._batches).unify_dictionaries().combine_chunks()
            self._batches = []
            self._judge(as_history(table.to_batches()[0]), self._tables)


Judge = Callable[[History, Tables], None]


def history_fold(
    name: str,
    judge: Judge,
    *,
    workloads: Iterable[str],
    produces: tuple[type[Any], ...],
    reads: Iterable[str] = (),
    kinds: Iterable[str] = (),
) -> Fold:
    """A fold that gives `judge` the whole history of the workloads, if there is any of it."""
    wanted = frozenset(workloads)
    return Fold(
        name=name,
        reads=tuple(dict.fromkeys((*BASE, *reads))),
        produces=produces,
        start=lambda tables: _Whole(tables, wanted, judge),
        kinds=frozenset(kinds),
        witness="client",
    )
