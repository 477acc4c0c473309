"""Lock timelines: one per contended file, with a lane per client."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyzer.analysis.clients import ClientRow
from analyzer.analysis.locks import LockHold, LockWait
from analyzer.core.table import Table, Tables
from analyzer.report.longest import Numbers, Score, span, top
from analyzer.report.text import byte_range, duration

MAX_FILES = 20
MAX_SEGMENTS = 10_000
MAX_LANES = 40
#: overlapping holds of one client (other ranges, other owners) are drawn below each other, up to this
MAX_ROWS = 5

HOLD = "hold"
WAIT = "wait"
BACK_OFF = "back-off"


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of time in a lane. `row` is its 0-based place below others that overlap it. `open_end` is
    True where the input ended before the span did; `end_ns` is then the end of the input."""

    kind: str  # hold, wait, back-off
    start_ns: int
    end_ns: int
    detail: str
    refs: tuple[str, ...]
    row: int = 0
    open_end: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """What one client did with the file's locks, in order of start."""

    client: str
    rows: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One file. `waited_ns` sums all waits for it; `left_out` counts the segments that aren't here."""

    endpoint: str
    file: str
    waits: int
    waited_ns: int
    lanes: tuple[Lane, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Labels:
    """What to call a client in the report."""

    known: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, tables: Tables) -> Labels:
        """The labels of all clients of the input."""
        return cls({(r.endpoint, r.client): r.label or r.client for r in tables.of(ClientRow)})

    def name(self, endpoint: str, client: str) -> str:
        """The client's label at that server, or its identity if nobody gave it one."""
        return self.known.get((endpoint, client), client)


@dataclass(slots=True)
class _File:
    waits: int = 0
    waited_ns: int = 0
    holds: int = 0
    clients: int = 0


Key = tuple[str, str]  # endpoint, object


def build_timelines(
    tables: Tables, labels: Labels, end_ns: int, left_out: dict[str, int]
) -> tuple[Timeline, ...]:
    """Timelines of the files that clients waited for longest, then of those that several clients locked."""
    files = _contended(tables)
    chosen = heapq.nsmallest(
        MAX_FILES, files, key=lambda k: (-files[k].waited_ns, -files[k].waits, -files[k].clients, k)
    )
    left_out["files with shared locks"] = len(files) - len(chosen)
    left_out["lock segments"] = 0
    timelines = []
    for key in chosen:
        share = MAX_SEGMENTS // len(chosen)
        waits = top(tables.of(LockWait), _of(key, "asked_ns", "last_ns"), share)
        holds = top(tables.of(LockHold), _of(key, "start_ns", "end_ns"), share)
        timeline = _timeline(key, files[key], waits, holds, labels=labels, end_ns=end_ns, share=share)
        left_out["lock segments"] += timeline.left_out
        timelines.append(timeline)
    return tuple(timelines)


def _contended(tables: Tables) -> dict[Key, _File]:
    """Files that a client waited for, or whose locks were held by at least two clients."""
    files: dict[Key, _File] = defaultdict(_File)
    for row in _grouped(tables.of(LockWait), "asked_ns", "last_ns", [("span", "sum"), ("span", "count")]):
        file = files[(row["endpoint"], row["object"])]
        file.waits, file.waited_ns = row["span_count"], row["span_sum"]
    for row in _grouped(
        tables.of(LockHold), "start_ns", "end_ns", [("span", "count"), ("client", "count_distinct")]
    ):
        key = (row["endpoint"], row["object"])
        if row["client_count_distinct"] > 1 or key in files:
            files[key].holds, files[key].clients = row["span_count"], row["client_count_distinct"]
    return files


def _grouped(table: Table[Any], start: str, end: str, sums: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Sums over the rows of each file; `span` is the length of a row in ns."""
    columns = ["endpoint", "object", "client"]
    batches = [
        pa.record_batch(
            [*(b.column(c) for c in columns), pa.array(span(b, start, end))], [*columns, "span"]
        )
        for b in table.batches()
    ]
    if not batches:
        return []
    found = pa.Table.from_batches(batches).group_by(["endpoint", "object"]).aggregate(sums).to_pylist()
    return cast(list[dict[str, Any]], found)


def _of(key: Key, start: str, end: str) -> Score:
    """Scores the rows of one file by their length."""

    def score(batch: pa.RecordBatch) -> Numbers:
        ours = pc.and_(pc.equal(batch.column("object"), key[1]), pc.equal(batch.column("endpoint"), key[0]))
        mask = np.asarray(ours.to_numpy(zero_copy_only=False))
        return np.where(mask, span(batch, start, end), -1)

    return score


def _timeline(
    key: Key,
    file: _File,
    waits: list[LockWait],
    holds: list[LockHold],
    *,
    labels: Labels,
    end_ns: int,
    share: int,
) -> Timeline:
    """Long segments win; a third of the share is kept for holds, for a wait means little without them."""
    by_client: dict[str, list[Segment]] = defaultdict(list)
    dropped = max(0, file.waits - len(waits))
    room = share
    for wait in waits:
        pieces = _wait_segments(wait, labels)
        if room - len(pieces) < min(len(holds), share // 3):
            dropped += len(pieces)
            continue
        room -= len(pieces)
        by_client[labels.name(wait.endpoint, wait.client)] += pieces
    for hold in holds[:room]:
        by_client[labels.name(hold.endpoint, hold.client)].append(_hold_segment(hold, end_ns))
    dropped += file.holds - min(room, len(holds))
    shown = [client for client, pieces in by_client.items() if pieces]  # a wait of no time has none
    names = sorted(shown, key=lambda c: (min(s.start_ns for s in by_client[c]), c))
    dropped += sum(len(by_client[name]) for name in names[MAX_LANES:])
    lanes = tuple(_lane(name, by_client[name]) for name in names[:MAX_LANES])
    path = next((p for p in [*(w.path for w in waits), *(h.path for h in holds)] if p), None)
    return Timeline(key[0], path or key[1], file.waits, file.waited_ns, lanes, dropped)


def _wait_segments(wait: LockWait, labels: Labels) -> list[Segment]:
    """The wait behind others, then the back-off. Their lengths are exact; where locks of several holders
    came between, the back-off may in truth have been in several pieces."""
    ended = wait.last_ns if wait.granted_ns is None else wait.granted_ns
    freed = max(wait.asked_ns, ended - wait.backoff_ns) if wait.backoff_ns > 0 else ended
    what = f"{wait.lock_type} lock {byte_range(wait.offset, wait.length)}"
    parts = []
    if wait.hold_ns:
        holder = (
            "another client"
            if wait.holder_client is None
            else labels.name(wait.endpoint, wait.holder_client)
        )
        parts.append(f"{duration(wait.hold_ns)} behind {holder}")
    if wait.queue_ns:
        parts.append(f"{duration(wait.queue_ns)} behind others that were served first")
    found = []
    if freed > wait.asked_ns:
        reason = "; ".join(parts) or f"denied {wait.denials} times"
        never = wait.granted_ns is None
        found.append(
            Segment(WAIT, wait.asked_ns, freed, f"{what}: {reason}", wait.evidence, open_end=never)
        )
    if ended > freed:
        reason = "the range was free, the client had not asked again"
        found.append(Segment(BACK_OFF, freed, ended, f"{what}: {reason}", wait.evidence))
    return found


def _hold_segment(hold: LockHold, end_ns: int) -> Segment:
    ended = max(hold.start_ns, end_ns if hold.end_ns is None else hold.end_ns)
    fate = "still held when the input ends" if hold.end_ns is None else f"ended by {hold.ended}"
    refs = (hold.at_start,) if hold.at_end is None else (hold.at_start, hold.at_end)
    detail = f"{hold.lock_type} lock {byte_range(hold.offset, hold.length)}, {fate}"
    return Segment(HOLD, hold.start_ns, ended, detail, refs, open_end=hold.end_ns is None)


def _lane(client: str, segments: list[Segment]) -> Lane:
    """Place segments that overlap below each other (first row that is free)."""
    free: list[int] = []
    placed = []
    for segment in sorted(segments, key=lambda s: (s.start_ns, s.end_ns, s.kind, s.detail, s.refs)):
        row = next((i for i, until in enumerate(free) if until <= segment.start_ns), len(free))
        if row == len(free) and row < MAX_ROWS:
            free.append(segment.end_ns)
        row = min(row, MAX_ROWS - 1)
        free[row] = max(free[row], segment.end_ns)
        placed.append(replace(segment, row=row))
    return Lane(client, max(1, len(free)), tuple(placed))
