"""One share of a capture's connections: read, give to tshark, decode, write operations to a file.

Each worker reads its packets by the frame index, so that nothing is copied between processes but a task
and a count. tshark gets raw IP packets (link layers differ, and it needs none), and its rows come back
in the same order, which is how they find their original frame numbers.
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
from analyzer.wire.decode import DecodeCounts, Decoder
from analyzer.wire.deep import DeepMessage, decode
from analyzer.wire.frame_index import PCAP_HEADER, FrameIndex, FrameMeta
from analyzer.wire.packets import Int64s
from analyzer.wire.tshark import Order, Tshark, bulk_command, start

#: How much of tshark's output is decoded in one go: large enough that frames of one shape are many.
BLOCK_BYTES: Final = 3 << 19
#: tshark is given up when it takes nothing and says nothing for so long.
SILENCE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class ShardTask:
    """What a worker needs. `members` tells for each connection number whether it is in this share."""

    names: tuple[str, ...]  # how the files are called in references
    index: FrameIndex
    members: tuple[bool, ...]
    fragments: bool  # IP fragments belong to this share
    order: Order
    since_ns: int | None
    until_ns: int | None
    tshark: Tshark
    output: str
    ports: tuple[int, ...] = ()  # see `tshark.bulk_command`
    jumps: tuple[tuple[int, int], ...] = ()  # see `resync`

    def packets(self) -> Iterator[tuple[bytes, FrameMeta]]:
        """The share's packets for tshark, block by block, and what is known of each."""
        # tshark learns from bare acknowledgements only where it has to put segments in order
        bare = self.order is not Order.CLEAN
        return self.index.packets(
            np.array(self.members, dtype=bool),
            self.fragments,
            self.since_ns,
            self.until_ns,
            bare,
            self.jumps,
        )


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


class Feeder(threading.Thread):
    """Writes the selected packets to tshark; keeps what is known of each until its row comes back."""

    def __init__(self, task: ShardTask, pipe: IO[bytes], progress: Callable[[int], None]) -> None:
        super().__init__(daemon=True)
        self.task, self.pipe, self.progress = task, pipe, progress
        self.metas: deque[FrameMeta] = deque()
        self.frames = 0
        self.error: AnalyzerError | None = None

    def run(self) -> None:
        """Feed until the end, or until tshark is gone."""
        try:
            self.pipe.write(PCAP_HEADER)
            for records, meta in self.task.packets():
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
                self.metas.appendleft(meta.part(count, len(meta)))
                meta = meta.part(0, count)
            parts.append(meta)
            count -= len(meta)
        return FrameMeta.joined(parts)


class SecondDecoder:
    """Hands frames of the current block, with those before them, to pyshark."""

    def __init__(self, task: ShardTask, scratch: Path) -> None:
        self.task, self.scratch = task, scratch

    def __call__(self, meta: FrameMeta, wanted: Int64s) -> dict[int, list[DeepMessage]]:
        """Messages of the frames at these places of the block."""
        rows = meta.row[wanted].tolist()
        answers = decode(rows, self.task.index, self.task.tshark, self.task.order, self.scratch)
        return {p: answers[row] for p, row in zip(wanted.tolist(), rows, strict=True) if row in answers}


def run_shard(task: ShardTask, progress: Callable[[int], None]) -> ShardResult:
    """Decode one share into an Arrow stream at `task.output`; `progress` gets frames done."""
    result = ShardResult()
    with (
        tempfile.TemporaryDirectory(prefix="storage-analyzer-") as folder,
        open(os.path.join(folder, "stderr"), "w+b") as errors,
    ):
        batches = BatchFiles(task.output)
        decoder = Decoder(task.names, SecondDecoder(task, Path(folder)))
        result.counts = decoder.counts
        process = start(bulk_command(task.tshark, task.order, task.ports), Path(folder), errors.fileno())
        assert process.stdin is not None
        feeder = Feeder(task, process.stdin, progress)
        feeder.start()
        try:
            for text in _blocks(process, feeder):
                lines = text.count(b"\n")
                meta = feeder.take(lines)
                for batch in decoder.feed(text, meta, result.decoded_frames):
                    batches.write(batch)
                result.decoded_frames += len(meta)
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
