"""Read a whole capture: survey, decode in shares, merge, resolve. The story of `wire` in one file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from analyzer.core.coverage import Coverage
from analyzer.core.errors import InputError, NothingToCheckError
from analyzer.wire.cited import cited_frames
from analyzer.wire.coverage import CaptureTotals, coverage, without_packets
from analyzer.wire.frame_index import FrameIndex
from analyzer.wire.inputs import resolve
from analyzer.wire.packets import ReadState, read_frames
from analyzer.wire.resolve import Resolver, merged
from analyzer.wire.shard import BatchFiles, ShardTask, run_shard
from analyzer.wire.survey import Survey
from analyzer.wire.tshark import Asked, Order, start_tshark
from analyzer.wire.workers import Workers

#: Files smaller than this together hold few frames.
SMALL_BYTES: Final = 4 << 20
#: Fewer frames than this aren't worth a second process (its start costs as much).
SMALL_FRAMES: Final = 20_000
#: Stages of the work, as progress tells them.
SURVEY, DECODE, JUDGE = "reading", "decoding", "judging"


@dataclass(frozen=True, slots=True)
class TimePoint:
    """ns since the epoch, or after the first frame."""

    ns: int
    relative: bool = False

    def absolute(self, first_ns: int) -> int:
        """ns since the epoch."""
        return self.ns + first_ns if self.relative else self.ns


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """What to read; `client` is an address."""

    since: TimePoint | None = None
    until: TimePoint | None = None
    client: str | None = None
    workers: int = 0  # 0 = one per processor


#: Called with (stage, done, total): bytes while reading, frames while decoding.
Progress = Callable[[str, int, int], None]


class Capture:
    """One capture, to be used in a `with` statement. `batches` may be walked once; after that `coverage`
    is complete. Decoding begins at once, in processes of their own where it's worth it."""

    def __init__(
        self, arguments: Sequence[str], scratch: Path, options: CaptureOptions, progress: Progress
    ) -> None:
        pa.set_memory_pool(pa.system_memory_pool())
        self.options, self.scratch, self.progress = options, scratch, progress
        asked = start_tshark()
        try:
            self.processors = options.workers or os.cpu_count() or 1
            skipped: list[str] = []
            self.files = resolve(arguments, scratch, skipped=skipped)
            self.workers = Workers(self.processors, sum(f.size for f in self.files) > SMALL_BYTES)
            try:
                self._begin(asked, skipped)
            except BaseException:
                self.workers.stop()
                raise
        except BaseException:
            asked.cancel()
            raise

    def _begin(self, asked: Asked, skipped: list[str]) -> None:
        """Survey the files, choose connections, and start to decode."""
        options, scratch = self.options, self.scratch
        self.index = FrameIndex(scratch / "frames", tuple(str(f.path) for f in self.files))
        self.survey, self.states = self._survey()
        _check_window(options, self.survey)
        self.tshark = asked.answer()
        self.chosen = self._choose()
        self.frames = sum(self.survey.connections[n].frames for n in self.chosen)
        self.suspects: dict[str, int] = {}  # connections that lost something
        self.totals = CaptureTotals(
            self.files, self.states, self.survey, self.chosen, filtered=self._filtered()
        )
        self.totals.skipped = skipped
        self.totals.whole = options.since is None and options.until is None
        self.totals.since = options.since is not None
        self.tasks = self._tasks()
        self.alone = len(self.tasks) == 1 or self.frames < SMALL_FRAMES
        if not self.alone:
            self.workers.start(self.tasks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.workers.stop()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Operations in stream order (EVENT_SCHEMA)."""
        if self.alone:
            done = 0

            def advance(frames: int) -> None:
                nonlocal done
                done += frames
                self._decoded(done)

            self.totals.results = [run_shard(task, advance) for task in self.tasks]
            there = [BatchFiles(task.output).follow(lambda: True) for task in self.tasks]
            yield from self._resolved(there)
        else:
            yield from self._resolved(self.workers.streams(self.tasks, self._decoded))
            self.totals.results = self.workers.results()

    def _decoded(self, frames: int) -> None:
        self.progress(DECODE, min(frames, self.frames), self.frames)

    def cited(self, references: Iterable[str]) -> dict[str, str]:
        """`file#frame` → what the frame holds, in words."""
        return cited_frames(references, self.tasks, self.scratch)

    @property
    def coverage(self) -> Coverage:
        """What was seen and lost."""
        return coverage(self.totals)

    # --- stages ------------------------------------------------------------------------------

    def _survey(self) -> tuple[Survey, list[ReadState]]:
        survey, states = Survey(), []
        total, done = sum(f.size for f in self.files), 0
        with self.index.path.open("wb") as out:
            for number, item in enumerate(self.files):
                state = ReadState()
                states.append(state)
                for frames in read_frames(item.path, state):
                    self.index.add(out, number, frames, survey.feed(frames))
                    self.progress(SURVEY, done + state.bytes, total)
                done += item.size
        survey.finish()
        if not survey.frames:
            raise without_packets(self.files, states)
        return survey, states

    def _choose(self) -> frozenset[int]:
        survey = self.survey
        chosen = survey.rpc_connections
        wanted = self.options.client
        if wanted is not None:
            chosen = [n for n in chosen if self._host(n, server=False) == wanted]
            if not chosen:
                known = sorted({self._host(n, server=False) for n in survey.rpc_connections})
                raise InputError(f"--client {wanted}: no such client. Seen: {', '.join(known) or 'none'}")
        return frozenset(chosen)

    def _host(self, number: int, server: bool) -> str:
        address = self._end(number, server).rpartition(":")[0]
        return address.strip("[]")

    def _end(self, number: int, server: bool) -> str:
        connection = self.survey.connections[number]
        high = connection.towards_server() is server
        return self.survey.pairs.endpoint(connection.high if high else connection.low)

    def _filtered(self) -> str:
        said = []
        if self.options.client is not None:
            said.append(f"connections of client {self.options.client}")
        if self.options.since is not None or self.options.until is not None:
            said.append("frames in the chosen time")
        return f"only {' and '.join(said)} were looked at" if said else ""

    def _tasks(self) -> list[ShardTask]:
        survey = self.survey
        small = self.frames < SMALL_FRAMES or survey.fragments > 0
        shares = [
            (order, share)
            for order, members in self._by_order().items()
            for share in _shares(survey, members, 1 if small else self.processors)
        ]
        size, first = len(survey.connections), survey.first_ns or 0
        since, until = self.options.since, self.options.until
        return [
            ShardTask(
                names=tuple(f.name for f in self.files),
                index=self.index,
                members=tuple(n in share for n in range(size)),
                fragments=survey.fragments > 0,
                order=order,
                since_ns=None if since is None else since.absolute(first),
                until_ns=None if until is None else until.absolute(first),
                tshark=self.tshark,
                output=str(self.scratch / f"shard-{number}"),
                ports=survey.doubtful_ports(share),
                jumps=survey.jumps(share, since is not None),
            )
            for number, (order, share) in enumerate(shares)
        ]

    def _by_order(self) -> dict[Order, frozenset[int]]:
        """Connections by how well their segments arrived. With IP fragments all stay together."""
        worst: dict[int, Order] = dict.fromkeys(self.chosen, Order.CLEAN)
        for which, direction in self.survey.tracker.directions.items():
            number = which >> 1
            if number in worst and direction.disorder:
                lossy = direction.missing() > 0 or worst[number] is Order.LOSSY
                worst[number] = Order.LOSSY if lossy else Order.DISORDER
        if self.survey.fragments:
            return {Order.LOSSY: self.chosen}
        return {
            order: members
            for order in Order
            if (members := frozenset(n for n, o in worst.items() if o is order))
        } or {Order.CLEAN: frozenset()}

    def _resolved(self, streams: Iterable[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        resolver, pool = self._resolver(), pa.default_memory_pool()
        clients: set[str] = set()
        for number, batch in enumerate(merged(streams)):
            resolved = resolver.batch(batch)
            self.totals.operations.update(_protocols(resolved))
            clients.update(resolved.column("client").dictionary.to_pylist())
            self._whose(resolved)
            yield resolved
            if number % 8 == 7:
                pool.release_unused()  # what batches left behind goes back to the system
        self.totals.clients = len(clients)

    def _whose(self, batch: pa.RecordBatch) -> None:
        """Notes the clients on connections that lost something."""
        if not self.suspects:
            return
        pairs = pa.table([batch.column(n).cast(pa.string()) for n in ("connection", "client")], ["c", "w"])
        for row in pairs.group_by(["c", "w"]).aggregate([]).to_pylist():
            number = self.suspects.get(row["c"])
            if number is not None and row["w"] is not None:
                self.totals.clients_on.setdefault(number, set()).add(row["w"])

    def _resolver(self) -> Resolver:
        size = len(self.survey.connections)
        used = [n in self.chosen for n in range(size)]
        servers = [self._end(n, True) if used[n] else "" for n in range(size)]
        clients = [self._end(n, False) if used[n] else "" for n in range(size)]
        labels = [f"{c}>{s}" for c, s in zip(clients, servers, strict=True)]
        damaged = {w >> 1 for w, d in self.survey.tracker.directions.items() if d.gaps()}
        damaged |= {n for n in self.chosen if self.survey.connections[n].truncated}
        self.suspects = {labels[n]: n for n in damaged & self.chosen}
        begun = {n for n in self.chosen if "syn" not in self.survey.connections[n].marks}
        return Resolver(servers, labels, clients, begun)


def _check_window(options: CaptureOptions, survey: Survey) -> None:
    """Raises `InputError` or `NothingToCheckError` where no frame can be in the chosen time."""
    first, last = survey.first_ns or 0, survey.last_ns or 0
    since = first if options.since is None else options.since.absolute(first)
    until = last if options.until is None else options.until.absolute(first)
    if options.since is not None and options.until is not None and until < since:
        raise InputError("--until lies before --since")
    if since > last or until < first:
        raise NothingToCheckError(
            f"no frame is in the chosen time: the capture runs from {_moment(first)} to {_moment(last)}"
            f" UTC ({(last - first) / 1e9:.2f} s)"
        )


def _moment(ns: int) -> str:
    """As `--since` takes it."""
    try:
        return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%dT%H:%M:%S}"
    except (OverflowError, ValueError, OSError):  # a time that no calendar has
        return str(ns // 10**9)


def _shares(survey: Survey, chosen: frozenset[int], wanted: int) -> list[set[int]]:
    """Connections in shares of about equal work: the largest first, each to the lightest share."""
    shares: list[set[int]] = [set() for _ in range(max(1, min(wanted, len(chosen))))]
    load = [0] * len(shares)
    by_size = sorted(chosen, key=lambda n: (-survey.connections[n].payload_bytes, n))
    for number in by_size:
        lightest = load.index(min(load))
        shares[lightest].add(number)
        connection = survey.connections[number]
        load[lightest] += connection.frames * 500 + connection.payload_bytes
    return shares


def _protocols(batch: pa.RecordBatch) -> Counter[str]:
    counts = pc.value_counts(batch.column("protocol")).to_pylist()
    return Counter({c["values"]: c["counts"] for c in counts if c["values"]})
