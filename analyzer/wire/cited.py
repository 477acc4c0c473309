"""The frames that a report cites, decoded once more and put into words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from analyzer.wire.decode import FrameMeta
from analyzer.wire.deep import Key, Place, decode, summary
from analyzer.wire.shard import PLACE_FIELDS, Selection, ShardTask, context, joined_meta

#: More frames than this are not put into words.
MAX_FRAMES: Final = 300


def cited_frames(references: Iterable[str], tasks: Sequence[ShardTask], scratch: Path) -> dict[str, str]:
    """`file#frame` → what the frame holds, for the references that could be decoded."""
    if not tasks:
        return {}
    names = {name: number for number, name in enumerate(tasks[0].names)}
    wanted: dict[Key, str] = {}
    for reference in dict.fromkeys(references):
        name, _, frame = reference.rpartition("#")
        if name in names and frame.isdigit() and len(wanted) < MAX_FRAMES:
            wanted[names[name], int(frame)] = reference
    found: dict[str, str] = {}
    for task in tasks:
        keys, places = _places(task, set(wanted))
        if keys:
            decoded = decode(keys, places, task.files, task.tshark, task.order, scratch)
            for key, messages in decoded.items():
                found[wanted[key]] = " | ".join(summary(m) for m in messages)
    return {reference: found[reference] for reference in wanted.values() if reference in found}


def _places(task: ShardTask, wanted: set[Key]) -> tuple[list[Key], list[Place]]:
    """Where the wanted frames of one share lie, with those before them on their connections."""
    last = max((key for key in wanted), default=(0, 0))
    keys: list[Key] = []
    places: dict[Key, Place] = {}
    before: FrameMeta | None = None
    for _, meta in Selection(task).blocks():
        log = meta if before is None else joined_meta([before, meta])
        shift = 0 if before is None else len(before)
        mine = [
            i
            for file in np.unique(meta.file).tolist()
            for i in np.flatnonzero(
                (meta.file == file) & np.isin(meta.number, [n for f, n in wanted if f == file])
            ).tolist()
        ]
        if mine:
            keys += [(int(meta.file[i]), int(meta.number[i])) for i in mine]
            chosen = context(log.connection, np.array(mine) + shift)
            for row in zip(*(getattr(log, n)[chosen].tolist() for n in PLACE_FIELDS), strict=True):
                places[row[0], row[1]] = Place(*row)
        before = meta
        if (int(meta.file[-1]), int(meta.number[-1])) >= last:
            break
    return keys, [places[key] for key in sorted(places)]
