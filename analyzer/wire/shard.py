"""One share of a capture's connections: read, give to tshark, decode, write operations to a file.

Each worker reads the capture by itself and picks its connections, so that nothing is copied between
processes but a task and a count. tshark gets raw IP packets (link layers differ, and it needs none),
and its rows come back in the same order, which is how they find their original frame numbers.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa

from analyzer.core.errors import AnalyzerError, ToolError
from analyzer.wire.connections import Pairs
from analyzer.wire.decode import DecodeCounts, Decoder, FrameMeta
from analyzer.wire.deep import CONTEXT, PCAP_HEADER, DeepMessage, Place, decode
from analyzer.wire.link import SUPPORTED, TCP, UDP, Octets, layers, segments
from analyzer.wire.packets import Frames, Int64s, ReadState, read_frames
from analyzer.wire.tshark import Order, Tshark, bulk_command, start

#: How much of tshark's output is decoded in one go: large enough that frames of one shape are many.
BLOCK_BYTES: Final = 3 << 20
#: tshark is given up when it takes nothing and says nothing for so long.
SILENCE_SECONDS: Final = 120.0
_RECORD: Final = np.dtype([("s", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("length", "<u4")])


@dataclass(frozen=True, slots=True)
class ShardTask:
    """What a worker needs. `members` tells for each connection number whether it is in this share."""

    files: tuple[str, ...]  # paths
    names: tuple[str, ...]  # how the files are called in references
    pairs: Pairs
    members: tuple[bool, ...]
    fragments: bool  # IP fragments belong to this share
    order: Order
    since_ns: int | None
    until_ns: int | None
    tshark: Tshark
    output: str


@dataclass(slots=True)
class ShardResult:
    """What a worker found. `failure` is a sentence if tshark did not get to the end."""

    counts: DecodeCounts = field(default_factory=DecodeCounts)
    frames: int = 0
    decoded_frames: int = 0
    failure: str = ""


class BatchFiles:
    """Batches of one share, each a file that appears whole, so that a reader can follow the writer."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self.count = prefix, 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add one batch."""
        part = f"{self.prefix}.part"
        with pa.OSFile(part, "wb") as sink, pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        os.rename(part, self.name(self.count))
        self.count += 1

    def name(self, number: int) -> str:
        """The file of the `number`-th batch."""
        return f"{self.prefix}.{number}"

    def follow(self, finished: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        """Batches in order, waiting for the writer until it has finished; each file is removed."""
        number = 0
        while True:
            name = self.name(number)
            done = finished()  # asked first: what is there afterwards was written before
            if os.path.exists(name):
                with pa.OSFile(name, "rb") as source, pa.ipc.open_stream(source) as reader:
                    batches = list(reader)
                os.unlink(name)
                number += 1
                yield from batches
            elif done:
                return
            else:
                time.sleep(0.02)


class Selection:
    """The frames of a task, block by block: their packets for tshark and what is known of them."""

    def __init__(self, task: ShardTask) -> None:
        self.task = task
        self.members = np.array([*task.members, False])  # -1 = unknown connection

    def blocks(self) -> Iterator[tuple[bytes, FrameMeta]]:
        """pcap records, and one `FrameMeta` entry for each."""
        for number, path in enumerate(self.task.files):
            for frames in read_frames(Path(path), ReadState()):
                if frames.link_type in SUPPORTED:
                    chosen = self._choose(number, frames)
                    if chosen is not None:
                        yield chosen

    def _choose(self, file: int, frames: Frames) -> tuple[bytes, FrameMeta] | None:
        octets = Octets(frames.data)
        found = layers(frames, octets)
        connection = np.full(len(frames), -1, dtype=np.int64)
        up = np.zeros(len(frames), dtype=np.int64)
        for protocol in (TCP, UDP):
            part = segments(found, octets, protocol)
            if len(part.index):
                numbers, way = self.task.pairs.of(found, part, octets, protocol == UDP, grow=False)
                connection[part.index] = numbers
                up[part.index] = way
        wanted = self.members[connection]
        if self.task.fragments:
            wanted |= found.fragment
        for limit, sign in ((self.task.since_ns, 1), (self.task.until_ns, -1)):
            if limit is not None:
                wanted &= (frames.time_ns - limit) * sign >= 0
        index = np.flatnonzero(wanted)
        if not len(index):
            return None
        low, high = found.network[index], found.end[index]
        header = np.empty(len(index), dtype=_RECORD)
        header["s"], header["ns"] = np.divmod(frames.time_ns[index], 1_000_000_000)
        header["captured"] = high - low
        header["length"] = frames.length[index] - (low - frames.start[index])
        heads, body = header.tobytes(), frames.data.data
        records = b"".join(
            piece
            for at, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True))
            for piece in (heads[at * 16 : at * 16 + 16], body[a:b])
        )
        meta = FrameMeta(
            file=np.full(len(index), file, dtype=np.int64),
            number=frames.number[index],
            time_ns=frames.time_ns[index],
            connection=connection[index],
            up=up[index],
            offset=low + frames.base,
            captured=high - low,
            length=frames.length[index] - (low - frames.start[index]),
        )
        return records, meta


def joined_meta(parts: list[FrameMeta]) -> FrameMeta:
    """Several runs of frames as one."""
    return FrameMeta(
        *(np.concatenate([getattr(p, n) for p in parts]) for n in FrameMeta.__dataclass_fields__)
    )


class Feeder(threading.Thread):
    """Writes the selected packets to tshark; keeps what is known of each until its row comes back."""

    def __init__(self, selection: Selection, pipe: IO[bytes], progress: Callable[[int], None]) -> None:
        super().__init__(daemon=True)
        self.selection, self.pipe, self.progress = selection, pipe, progress
        self.metas: deque[FrameMeta] = deque()
        self.frames = 0
        self.error: AnalyzerError | None = None

    def run(self) -> None:
        """Feed until the end, or until tshark is gone."""
        try:
            self.pipe.write(PCAP_HEADER)
            for records, meta in self.selection.blocks():
                self.metas.append(meta)
                self.frames += len(meta)
                self.pipe.write(records)
                self.progress(len(meta))
        except BrokenPipeError:
            pass
        except AnalyzerError as error:
            self.error = error
        finally:
            with contextlib.suppress(BrokenPipeError):
                self.pipe.close()

    def take(self, count: int) -> FrameMeta:
        """What is known of the next `count` frames."""
        parts: list[FrameMeta] = []
        while count > 0 and self.metas:
            meta = self.metas.popleft()
            if len(meta) > count:
                head, tail = (
                    FrameMeta(*(getattr(meta, n)[s] for n in FrameMeta.__dataclass_fields__))
                    for s in (slice(None, count), slice(count, None))
                )
                self.metas.appendleft(tail)
                meta = head
            parts.append(meta)
            count -= len(meta)
        return joined_meta(parts)


class SecondDecoder:
    """Hands frames of the current block, with those before them, to pyshark."""

    def __init__(self, task: ShardTask, scratch: Path) -> None:
        self.task, self.scratch = task, scratch
        self.before: FrameMeta | None = None  # the block before the current one

    def __call__(self, meta: FrameMeta, wanted: Int64s) -> dict[int, list[DeepMessage]]:
        """Messages of the frames at these places of the block."""
        log, shift = meta, 0
        if self.before is not None:
            log, shift = joined_meta([self.before, meta]), len(self.before)
        chosen = context(log.connection, wanted + shift)
        places = [Place(*row) for row in zip(
            *(getattr(log, n)[chosen].tolist() for n in PLACE_FIELDS), strict=True
        )]  # fmt: skip
        keys = list(zip(meta.file[wanted].tolist(), meta.number[wanted].tolist(), strict=True))
        answers = decode(keys, places, self.task.files, self.task.tshark, self.task.order, self.scratch)
        return {
            place: answers[key] for place, key in zip(wanted.tolist(), keys, strict=True) if key in answers
        }


PLACE_FIELDS: Final = ("file", "number", "time_ns", "connection", "offset", "captured", "length")


def context(connection: Int64s, wanted: Int64s) -> Int64s:
    """The wanted places and up to `CONTEXT` places before each on the same connection, ascending."""
    chosen = []
    for number in np.unique(connection[wanted]).tolist():
        places = np.flatnonzero(connection == number)
        at = np.searchsorted(places, wanted[connection[wanted] == number])
        keep = np.zeros(len(places), dtype=bool)
        for last in at.tolist():
            keep[max(0, last - CONTEXT) : last + 1] = True
        chosen.append(places[keep])
    return np.sort(np.concatenate(chosen))


def run_shard(task: ShardTask, progress: Callable[[int], None]) -> ShardResult:
    """Decode one share into an Arrow stream at `task.output`; `progress` gets frames done."""
    result = ShardResult()
    with (
        tempfile.TemporaryDirectory(prefix="storage-analyzer-") as folder,
        open(os.path.join(folder, "stderr"), "w+b") as errors,
    ):
        batches = BatchFiles(task.output)
        second = SecondDecoder(task, Path(folder))
        decoder = Decoder(task.names, second)
        result.counts = decoder.counts
        process = start(bulk_command(task.tshark, task.order), Path(folder), errors.fileno())
        assert process.stdin is not None
        feeder = Feeder(Selection(task), process.stdin, progress)
        feeder.start()
        try:
            for text in _blocks(process, feeder):
                lines = text.count(b"\n")
                meta = feeder.take(lines)
                for batch in decoder.feed(text, meta, result.decoded_frames):
                    batches.write(batch)
                result.decoded_frames += len(meta)
                second.before = meta
        finally:
            _end(process)
        feeder.join()
        if feeder.error is not None:
            raise feeder.error
        for batch in decoder.finish():
            batches.write(batch)
        result.frames = feeder.frames
        if result.decoded_frames < result.frames or process.returncode:
            result.failure = _failure(process, errors, result)
    return result


def _blocks(process: subprocess.Popen[bytes], feeder: Feeder) -> Iterator[bytes]:
    """tshark's output in blocks of whole lines; ends with the output, or when tshark hangs."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    pieces: list[bytes] = []
    size, fed = 0, -1
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if not selector.select(SILENCE_SECONDS):
                if feeder.frames == fed:
                    process.kill()
                    return
                fed = feeder.frames
                continue
            piece = os.read(descriptor, 1 << 20)
            if piece:
                pieces.append(piece)
                size += len(piece)
            if size >= BLOCK_BYTES or not piece:
                text = b"".join(pieces)
                cut = text.rfind(b"\n") + 1
                if cut:
                    yield text[:cut]
                pieces, size = [text[cut:]], len(text) - cut
            if not piece:
                return


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _failure(process: subprocess.Popen[bytes], errors: IO[bytes], result: ShardResult) -> str:
    errors.seek(0)
    said = errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
    told = [line for line in said if "could be dangerous" not in line]
    if result.decoded_frames == 0 and told:
        raise ToolError(f"tshark failed: {told[-1]}")
    code = process.returncode
    how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    return f"tshark {how} after {result.decoded_frames} of {result.frames} frames"
