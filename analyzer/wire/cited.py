"""The frames that a report cites, decoded once more and put into words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from analyzer.wire.deep import decode, summary
from analyzer.wire.shard import ShardTask

#: More frames than this are not put into words.
MAX_FRAMES: Final = 300


def cited_frames(references: Iterable[str], tasks: Sequence[ShardTask], scratch: Path) -> dict[str, str]:
    """`file#frame` → what the frame holds, for the references that could be decoded."""
    if not tasks:
        return {}
    index = tasks[0].index
    names = {name: number for number, name in enumerate(tasks[0].names)}
    wanted: dict[int, str] = {}
    for reference in dict.fromkeys(references):
        name, _, frame = reference.rpartition("#")
        if name in names and frame.isdigit() and len(wanted) < MAX_FRAMES:
            wanted[index.row_of(names[name], int(frame))] = reference
    wanted.pop(-1, None)
    found: dict[str, str] = {}
    connections = index.connections(list(wanted))
    for task in tasks:
        mine = [r for r, c in zip(wanted, connections, strict=True) if c >= 0 and task.members[c]]
        if mine:
            for row, messages in decode(mine, index, task.tshark, task.order, scratch).items():
                found[wanted[row]] = " | ".join(summary(m) for m in messages)
    return {reference: found[reference] for reference in wanted.values() if reference in found}
