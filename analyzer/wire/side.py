"""Columns of integers, filled piece by piece, for the calls or the replies of a block of frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analyzer.wire.packets import Int64s

#: Stands for "no value" in a column of int64.
NULL = int(np.iinfo(np.int64).min)


class Vocabulary:
    """Text ↔ small integers, one for all text columns of a decoder."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.codes: dict[str, int] = {}
        self.size = 0  # characters in all words

    def code(self, word: str) -> int:
        """The number of one word."""
        known = self.codes.get(word)
        if known is None:
            known = self.codes[word] = len(self.words)
            self.words.append(word)
            self.size += len(word)
        return known

    def encode(self, values: pa.StringArray) -> Int64s:
        """The numbers of an array of words."""
        encoded = values.dictionary_encode()
        numbers = np.array([self.code(w) for w in encoded.dictionary.to_pylist()], dtype=np.int64)
        codes: Int64s = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
        return codes

    def decode(self, codes: Int64s) -> pa.DictionaryArray:
        """Numbers → dictionary array whose dictionary holds only the words in use; NULL → null."""
        missing = codes == NULL
        if missing.all():
            return pa.DictionaryArray.from_arrays(
                pa.nulls(len(codes), pa.int32()), pa.array([], type=pa.string())
            )
        safe = np.where(missing, codes[~missing][0], codes)
        used = np.zeros(len(self.words), dtype=bool)
        used[safe] = True
        position = np.cumsum(used, dtype=np.int32) - 1
        words = pa.array([self.words[i] for i in np.flatnonzero(used).tolist()], type=pa.string())
        indices = pa.array(position[safe], mask=missing if missing.any() else None, type=pa.int32())
        return pa.DictionaryArray.from_arrays(indices, words)


class Side:
    """Named int64 columns of `rows` rows; a column exists from its first `put` on."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.columns: dict[str, Int64s] = {}

    def put(self, name: str, at: Int64s, values: Int64s | int) -> None:
        """Set some rows of a column."""
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = np.full(self.rows, NULL, dtype=np.int64)
        column[at] = values

    def take(self, name: str, at: Int64s) -> Int64s:
        """Rows of a column, in the order asked for; NULL where there is no such column."""
        column = self.columns.get(name)
        return np.full(len(at), NULL, dtype=np.int64) if column is None else column[at]

    def pick(self, at: Int64s) -> Side:
        """A side with only these rows."""
        chosen = Side(len(at))
        chosen.columns = {name: column[at] for name, column in self.columns.items()}
        return chosen

    @classmethod
    def joined(cls, first: Side, second: Side) -> Side:
        """Rows of `first`, then rows of `second`."""
        both = cls(first.rows + second.rows)
        for name in {**first.columns, **second.columns}:
            both.columns[name] = np.concatenate(
                [
                    side.columns.get(name, np.full(side.rows, NULL, dtype=np.int64))
                    for side in (first, second)
                ]
            )
        return both

    def remap(self, names: Iterable[str], mapping: Mapping[int, int]) -> None:
        """Replace the codes of text columns (a new vocabulary)."""
        for name in names:
            column = self.columns.get(name)
            if column is not None:
                self.columns[name] = np.array(
                    [NULL if v == NULL else mapping[v] for v in column.tolist()], dtype=np.int64
                )


def integers(values: Int64s, kind: pa.DataType) -> pa.Array:
    """An int64 column with NULLs → Arrow array of the given integer or boolean type."""
    missing: NDArray[np.bool_] = values == NULL
    if pa.types.is_boolean(kind):
        return pa.array(values == 1, mask=missing)
    return pa.array(np.where(missing, 0, values), mask=missing).cast(kind, safe=False)


def readable(octets: str) -> str:
    """Hexadecimal bytes of an identity → text where it is text, else `hex:...`."""
    try:
        text = bytes.fromhex(octets.removesuffix("…")).decode()
    except ValueError:
        return f"hex:{octets}"
    text = " ".join(text.replace("\0", " ").split())
    return text if text and text.isprintable() else f"hex:{octets}"
