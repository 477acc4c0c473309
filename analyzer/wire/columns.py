"""The bulk decoder's columns: what tshark is asked to print, and how its lines become arrays.

tshark's custom columns give the same values as `-T fields` at about twice the speed, with two limits
(measured on 4.0.17): a column ends after 2,047 characters, and a field of bytes after 36 bytes with an
ellipsis. File handles are therefore told apart by their first 36 bytes *and* the CRC-32 of all of them.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from analyzer.wire.protocols import nfs4

FRAME_FIELDS: Final = {
    "number": "frame.number",
    "types": "rpc.msgtyp",
    "xid": "rpc.xid",
    "fragment": "rpc.fraglen",
    "service": "rpc.authgss.service",
}
#: Column → the tshark fields in it, in order.
COLUMNS: Final = {name: (field,) for name, field in FRAME_FIELDS.items()} | {
    column: tuple(nfs4.FIELDS[name] for name in names) for column, names in nfs4.COLUMNS.items()
}
#: Every field that tshark is asked for.
FIELDS: Final = tuple(field for fields in COLUMNS.values() for field in fields)
_SCALARS: Final = {text: pa.scalar(text) for text in "|/#\t"}
_SHARED: Final = tuple(column for column, fields in COLUMNS.items() if len(fields) > 1)
ELLIPSIS: Final = "…"
#: A cell this long has reached the end of its column (COL_MAX_LEN is 2048).
FULL: Final = 2046

_READ = csv.ReadOptions(column_names=list(COLUMNS), use_threads=False, block_size=1 << 30)
_CONVERT = csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.string()), strings_can_be_null=False)


def column_format() -> str:
    """The value of tshark's preference `gui.column.format` (U: values, not their names)."""
    return ",".join(f'"{n}","%Cus:{" or ".join(fields)}:0:U"' for n, fields in COLUMNS.items())


def parse(text: bytes) -> tuple[dict[str, pa.StringArray], int]:
    """Whole lines of tshark's output → one string array per column, and how many lines were unusable."""
    broken = 0

    def skip(_: csv.InvalidRow) -> str:
        nonlocal broken
        broken += 1
        return "skip"

    options = csv.ParseOptions(
        delimiter="\t",
        quote_char=False,
        double_quote=False,
        escape_char=False,
        ignore_empty_lines=False,
        invalid_row_handler=skip,
    )
    try:
        pa.array([text], type=pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        # not UTF-8 somewhere: replace what isn't, at the price of a copy
        text = text.decode("utf-8", "replace").encode()
    table = csv.read_csv(io.BytesIO(text), _READ, options, _CONVERT)
    found = {name: table.column(name).combine_chunks() for name in COLUMNS}
    for name in _SHARED:
        found[name] = _without_empty(found[name])
    return found, broken


def whole_numbers(values: pa.StringArray) -> pa.Int64Array:
    """Decimal or 0x-hexadecimal text → int64; 2**64 - 1 becomes -1 (NFSv4: to the end of the file)."""
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid:
        encoded = values.dictionary_encode()
        words = [_number(word) for word in encoded.dictionary.to_pylist()]
        return pa.array(words, type=pa.int64()).take(encoded.indices)


def _number(word: str) -> int | None:
    try:
        value = int(word, 0)
    except ValueError:
        return {"True": 1, "False": 0}.get(word)
    if not 0 <= value < 1 << 64:
        return None
    return value if value < 1 << 63 else value - (1 << 64)


def value_counts(values: pa.StringArray) -> NDArray[np.int32]:
    """How many comma-separated values each cell holds (0 for an empty one)."""
    some = filled(values)
    if not some.any():
        return some.astype(np.int32)
    separators: NDArray[np.int32] = pc.count_substring(values, ",").to_numpy(zero_copy_only=False)
    return separators + some


def _offsets(values: pa.StringArray) -> NDArray[np.int32]:
    """Where each cell begins in the array's text, and where the last one ends."""
    return np.frombuffer(values.buffers()[1], dtype=np.int32)[
        values.offset : values.offset + len(values) + 1
    ]


def _without_empty(values: pa.StringArray) -> pa.StringArray:
    """tshark 4.0 may print an empty value between two fields of one column."""
    text = values.buffers()[2]
    if text is None or text.to_pybytes().find(b",,") < 0:
        return values
    return pc.replace_substring(values, ",,", ",")


def lengths(values: pa.StringArray) -> NDArray[np.int32]:
    """The length of each cell in bytes."""
    return np.diff(_offsets(values))


def filled(values: pa.StringArray) -> NDArray[np.bool_]:
    """Which cells hold something."""
    return lengths(values) > 0


def joined(parts: Sequence[pa.StringArray], separator: str) -> pa.StringArray:
    """The cells of several columns as one text each."""
    # a scalar made beforehand: pyarrow looks for pandas each time that it makes one (50 times slower)
    return pc.binary_join_element_wise(*parts, _SCALARS[separator])


def split(values: pa.StringArray) -> pa.StringArray:
    """All comma-separated values of all cells, one after the other."""
    return pc.split_pattern(values, ",").flatten()


def every(values: pa.StringArray, total: int, index: int) -> pa.StringArray:
    """The `index`-th of every `total` values."""
    return values.take(pa.array(np.arange(index, len(values), total)))


def nth(values: pa.StringArray, total: int, index: int) -> pa.StringArray:
    """The `index`-th of exactly `total` comma-separated values in each cell."""
    return values if total == 1 else every(split(values), total, index)
