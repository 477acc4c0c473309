"""Columns of a batch as numpy arrays, groups of rows, and the one row that a COMPOUND is about.

A fold that looks at every operation works on these arrays: no Python loop per operation, only over the
distinct values of a column or the groups of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: How much an operation says about what its COMPOUND was for; the highest names the call. Handles,
#: SEQUENCE and the GETATTR that ends most COMPOUNDs of Linux clients are only along for the ride.
_WEIGHT: Final = {
    "handle": 0,
    "session": 1,
    "stateid": 2,
    "getattr": 2,
    "access": 3,
    "lookup": 4,
    "readlink": 4,
    "other": 5,
    "setattr": 5,
    "layout": 5,
    "delegation": 5,
    "open": 6,
    "close": 7,
}
_MOST_WEIGHT: Final = 8
_FAILED: Final = 15


def sums(groups: Ints, values: Ints, size: int = 0) -> Ints:
    """Sum of `values` for each group number, exact up to 2**53, never more than 2**62."""
    totals = np.bincount(groups, weights=values, minlength=size)
    return np.clip(totals, -(2.0**62), 2.0**62).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Coded:
    """A text column as codes: `codes[i]` is a place in `dictionary`, or `len(dictionary)` for null."""

    codes: Ints
    dictionary: pa.Array

    @property
    def size(self) -> int:
        """One more than the highest code."""
        return len(self.dictionary) + 1

    def word(self, code: int) -> str | None:
        """The text of one code."""
        if code >= len(self.dictionary):
            return None
        text: str | None = self.dictionary[code].as_py()
        return text

    def words(self) -> list[str | None]:
        """The text of every row."""
        if self.size > 4 * len(self.codes):
            codes, place = distinct(self.codes, self.size)
            few: list[str | None] = [self.word(code) for code in codes.tolist()]
            return [few[i] for i in place.tolist()]
        all_words: list[str | None] = [*self.dictionary.to_pylist(), None]
        return [all_words[code] for code in self.codes.tolist()]

    def named(self, codes: Ints) -> list[str | None]:
        """The texts of some codes."""
        return Coded(codes, self.dictionary).words()

    def take(self, rows: Ints | Mask) -> Coded:
        """The same column of some rows."""
        return Coded(self.codes[rows], self.dictionary)

    def lookup(self, wanted: frozenset[str]) -> Mask:
        """True for each row whose text is one of `wanted`."""
        table = np.fromiter(
            (w in wanted for w in self.dictionary.to_pylist()), bool, count=len(self.dictionary)
        )
        return np.append(table, False)[self.codes]


def text(batch: pa.RecordBatch, name: str) -> Coded:
    """A dictionary-encoded text column."""
    column = batch.column(name)
    size = len(column.dictionary)
    indices = column.indices.fill_null(size) if column.null_count else column.indices
    return Coded(indices.to_numpy(zero_copy_only=False).astype(np.int64), column.dictionary)


def integers(batch: pa.RecordBatch, name: str, missing: int = 0) -> Ints:
    """An integer column; null becomes `missing`."""
    column = batch.column(name)
    if column.null_count:
        column = column.fill_null(missing)
    values: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def truths(batch: pa.RecordBatch, name: str) -> Mask:
    """A column of booleans; null is False."""
    column = batch.column(name)
    if column.null_count == len(column):
        return np.zeros(len(column), dtype=bool)
    values: Mask = column.fill_null(False).to_numpy(zero_copy_only=False)
    return values


def present(batch: pa.RecordBatch, name: str) -> Mask:
    """True where a column isn't null."""
    values: Mask = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
    return values


def distinct(codes: Ints, size: int) -> tuple[Ints, Ints]:
    """The distinct codes in ascending order, and for each row the place of its code among them.

    `size` is one more than the highest possible code. Without sorting where the range is small.
    """
    if size > 4 * len(codes) + 65_536:
        values, inverse = np.unique(codes, return_inverse=True)
        return values, inverse.astype(np.int64)
    seen = np.zeros(size, dtype=bool)
    seen[codes] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[codes]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows by the values of several columns: `of_row[i]` is the group of row i; `keys[k][g]` is the
    code of column k in group g. Groups are in ascending order of their codes."""

    of_row: Ints
    keys: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.keys[0])

    def names(self, columns: Sequence[Coded]) -> list[tuple[str, ...]]:
        """The texts of each group in the first columns that it was made of, "" for null."""
        words = [column.named(codes) for column, codes in zip(columns, self.keys, strict=False)]
        return [tuple(word or "" for word in name) for name in zip(*words, strict=True)]

    def count(self, mask: Mask | None = None) -> Ints:
        """Rows per group (those in `mask`)."""
        rows = self.of_row if mask is None else self.of_row[mask]
        return np.bincount(rows, minlength=len(self)).astype(np.int64)

    def total(self, values: Ints) -> Ints:
        """Sum of a column per group (exact up to 2**53)."""
        return sums(self.of_row, values, len(self))

    def first(self) -> Ints:
        """Place of the first row of each group."""
        place = np.empty(len(self), dtype=np.int64)
        place[self.of_row[::-1]] = np.arange(len(self.of_row) - 1, -1, -1)
        return place

    def last(self) -> Ints:
        """Place of the last row of each group."""
        place = np.empty(len(self), dtype=np.int64)
        place[self.of_row] = np.arange(len(self.of_row))
        return place


def group(*columns: tuple[Ints, int]) -> Groups:
    """Group rows by columns, each given as (codes, size)."""
    values, of_row = distinct(*columns[0])
    keys = [values]
    for codes, size in columns[1:]:
        own, place = distinct(codes, size)
        width = max(len(own), 1)
        pairs, of_row = distinct(of_row * width + place, max(len(keys[0]), 1) * width)
        keys = [k[pairs // width] for k in keys]
        keys.append(own[pairs % width])
    return Groups(of_row, tuple(keys))


class Vocabulary:
    """Numbers for words that stay the same from batch to batch."""

    def __init__(self) -> None:
        self.words: list[str | None] = []
        self._ids: dict[str | None, int] = {}

    def encode(self, column: Coded) -> Ints:
        """The column's rows as numbers of this vocabulary."""
        codes, place = distinct(column.codes, column.size)
        numbers = np.fromiter((self.number(word) for word in column.named(codes)), np.int64, len(codes))
        return numbers[place] if len(codes) else np.empty(0, dtype=np.int64)

    def number(self, word: str | None) -> int:
        """The number of one word, a new one if it wasn't known."""
        known = self._ids.get(word)
        if known is None:
            known = self._ids[word] = len(self.words)
            self.words.append(word)
        return known


def parents(path: Coded) -> tuple[list[str | None], Ints]:
    """The distinct directories of paths, and for each row the place of its own among them (None, if the
    path is unknown)."""
    codes, place = distinct(path.codes, path.size)
    folders = Vocabulary()
    of_code = []
    for word in path.named(codes):
        of_code.append(folders.number(None if word is None else word.rpartition("/")[0] or "/"))
    return folders.words, np.array(of_code, dtype=np.int64)[place]


def call_rows(batch: pa.RecordBatch) -> Ints:
    """For each COMPOUND of the batch the row of the operation that the call was about.

    That is the operation that failed if one did (the last one that ran), else the first of the highest
    weight: SEQUENCE PUTFH WRITE GETATTR is a WRITE. All rows of a COMPOUND have the same times, so a
    latency that is counted per row would blame PUTFH and GETATTR for a slow WRITE. Reads the columns
    `compound`, `kind`, `status_code`; the rows of a COMPOUND are next to each other.
    """
    rows = batch.num_rows
    if rows == 0:
        return np.empty(0, dtype=np.int64)
    compound = integers(batch, "compound", -1)
    kind = text(batch, "kind")
    weights = [_WEIGHT.get(str(word), _MOST_WEIGHT) for word in kind.dictionary.to_pylist()]
    weight = np.array([*weights, 0], dtype=np.int64)[kind.codes]
    weight[integers(batch, "status_code") != 0] = _FAILED
    begins = np.flatnonzero(np.append(True, compound[1:] != compound[:-1]))
    place = np.arange(rows, dtype=np.int64)
    best = np.maximum.reduceat((weight << 32) | (rows - place), begins)
    result: Ints = rows - (best & 0xFFFF_FFFF)
    return result
