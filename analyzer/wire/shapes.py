"""The shape of a frame: what all frames that are decoded together have in common."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analyzer.wire.columns import joined
from analyzer.wire.grammar import Shape
from analyzer.wire.packets import Int64s
from analyzer.wire.protocols import nfs4
from analyzer.wire.values import VALUES

_SHAPE_TEXT = ("types", "counts", "ops", "callbacks", "status", *nfs4.SHAPING)


def shape_codes(
    values: dict[str, pa.StringArray], counts: dict[str, NDArray[np.int32]]
) -> tuple[Int64s, list[str]]:
    """The shape of each frame as a number, and the text of each shape."""
    texts = joined([values[n] for n in _SHAPE_TEXT], "|").dictionary_encode()
    sizes = np.stack([counts[n] for n in VALUES], axis=1)
    octets = np.minimum(sizes, 255).astype(np.uint8)
    packed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(len(VALUES)), len(octets), [None, pa.py_buffer(np.ascontiguousarray(octets))]
    ).dictionary_encode()
    text_codes = texts.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    both = text_codes * len(packed.dictionary) + packed.indices.to_numpy(zero_copy_only=False)
    unique, codes = np.unique(both, return_inverse=True)
    words, numbers = texts.dictionary.to_pylist(), packed.dictionary.to_pylist()
    shapes = [
        words[code // len(numbers)] + "|" + ",".join(map(str, numbers[code % len(numbers)]))
        for code in unique.tolist()
    ]
    return codes, shapes


def parse_shape(word: str) -> Shape:
    """The shape that a text of `shape_codes` stands for; raises `ValueError` where it holds no numbers."""
    *texts, sizes = word.split("|")
    lists = dict(zip(_SHAPE_TEXT, texts, strict=True))
    numbers = {n: _integers(t) for n, t in lists.items()}
    return Shape(
        types=numbers["types"],
        counts=numbers["counts"],
        ops=numbers["ops"],
        callbacks=numbers["callbacks"],
        status=numbers["status"],
        shaping={n: numbers[n] for n in nfs4.SHAPING},
        values=dict(zip(VALUES, map(int, sizes.split(",")), strict=True)),
    )


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(t, 0) if t[0] not in "TF" else int(t == "True") for t in text.split(",") if t)
