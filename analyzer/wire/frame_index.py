"""Where every frame of a capture lies and which connection it belongs to, kept in a file.

Written once by the survey; read by the workers, block by block, and wherever single frames are needed
again. One fixed-size record per frame in capture order, so a frame is found by its number alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from analyzer.wire.link import RAW_IP
from analyzer.wire.packets import Frames, Int64s
from analyzer.wire.resync import Resync, ordered

_RECORD: Final = np.dtype(
    [
        ("time_ns", "<i8"),
        ("offset", "<i8"),  # of the IP packet in its file
        ("captured", "<i4"),  # bytes of the IP packet that the file holds
        ("length", "<i4"),  # bytes of the IP packet on the wire
        ("connection", "<i4"),  # -1 = none, -2 = IP fragment
        ("up", "<i2"),  # 1: from the lower endpoint to the higher
        ("bare", "<i2"),  # 1: an acknowledgement alone, nothing to decode
    ]
)
_HEADER: Final = np.dtype([("s", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("length", "<u4")])
PCAP_HEADER: Final = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, RAW_IP)
NO_CONNECTION, FRAGMENT = -1, -2
#: How far back frames of the same connection are looked for.
_LOOK_BACK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Located:
    """What the survey knows of each frame of a block."""

    network: Int64s  # offset of the IP packet in the block's data
    end: Int64s  # one past its last captured byte
    connection: Int64s
    up: Int64s
    bare: Int64s  # 1: an acknowledgement alone


@dataclass(frozen=True, slots=True)
class FrameMeta:
    """What is known of some frames, in order. `row` is their place in the index."""

    row: Int64s
    file: Int64s
    number: Int64s
    time_ns: Int64s
    connection: Int64s
    up: Int64s
    truncated: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)

    def part(self, low: int, high: int) -> FrameMeta:
        """Some of the frames."""
        return FrameMeta(*(getattr(self, n)[low:high] for n in FrameMeta.__dataclass_fields__))

    @classmethod
    def joined(cls, parts: Sequence[FrameMeta]) -> FrameMeta:
        """Several runs of frames as one."""
        return cls(*(np.concatenate([getattr(p, n) for p in parts]) for n in cls.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive frames of one file: rows `first`..`first + count` of the index."""

    file: int
    first: int
    count: int
    number: int  # of the first frame


@dataclass(slots=True)
class FrameIndex:
    """The index of a capture. `add` appends; the rest reads. Pickles as its path and its blocks."""

    path: Path
    files: tuple[str, ...]
    blocks: list[Block] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many frames there are."""
        return self.blocks[-1].first + self.blocks[-1].count if self.blocks else 0

    def add(self, out: IO[bytes], file: int, frames: Frames, located: Located) -> None:
        """Append one block."""
        records = np.empty(len(frames), dtype=_RECORD)
        records["time_ns"] = frames.time_ns
        records["offset"] = located.network + frames.base
        records["captured"] = np.maximum(located.end - located.network, 0)
        records["length"] = np.maximum(frames.length - (located.network - frames.start), 0)
        records["connection"], records["up"] = located.connection, located.up
        records["bare"] = located.bare
        out.write(records.tobytes())
        self.blocks.append(Block(file, self.rows, len(frames), int(frames.number[0])))

    def packets(
        self,
        members: NDArray[np.bool_],
        fragments: bool,
        since_ns: int | None,
        until_ns: int | None,
        bare: bool,
        jumps: Sequence[tuple[int, int]] = (),
    ) -> Iterator[tuple[bytes, FrameMeta]]:
        """Block by block the frames of some connections: pcap records of raw IP packets, and what is
        known of each. `members` tells for each connection number whether it's wanted, `bare` whether
        acknowledgements alone are, too; `jumps` are the first frames after gaps (see `resync`)."""
        lookup = np.append(members.astype(bool), [fragments, False])  # -2 and -1 count from the end
        resync = Resync(ordered(jumps))
        for block in self.blocks:
            records = self._read(block.first, block.count)
            wanted = lookup[records["connection"]]
            if not bare:
                wanted &= records["bare"] == 0
            if since_ns is not None:
                wanted &= records["time_ns"] >= since_ns
            if until_ns is not None:
                wanted &= records["time_ns"] <= until_ns
            with open(self.files[block.file], "rb") as stream:
                direction = records["connection"].astype(np.int64) * 2 + records["up"]
                cut = resync.block(block.first, direction, wanted, _reader(records, stream))
                rows = np.flatnonzero(wanted)
                octets = _pcap(records[rows], stream, _moved(cut, rows)) if len(rows) else b""
            if len(rows):
                yield octets, self._meta(block, rows, records[rows])

    def row_of(self, file: int, number: int) -> int:
        """The row of a frame; -1 if there is no such frame."""
        first = next((b for b in self.blocks if b.file == file), None)
        last = next((b for b in reversed(self.blocks) if b.file == file), None)
        if first is None or last is None or not 1 <= number < last.number + last.count:
            return -1
        return first.first + number - 1

    def key_of(self, row: int) -> tuple[int, int]:
        """(file, frame number) of a row."""
        block = next(b for b in self.blocks if b.first <= row < b.first + b.count)
        return block.file, block.number + row - block.first

    def connections(self, rows: Sequence[int]) -> list[int]:
        """The connection number of each row."""
        return [int(self._read(row, 1)["connection"][0]) for row in rows]

    def with_context(self, rows: Iterable[int], before: int) -> list[int]:
        """The rows, and up to `before` frames before each on the same connection, ascending."""
        chosen: set[int] = set()
        for row in rows:
            low = max(0, row - _LOOK_BACK)
            connection = self._read(low, row - low + 1)["connection"]
            same = np.flatnonzero(connection == connection[-1])[-before - 1 :]
            chosen.update((same + low).tolist())
        return sorted(chosen)

    def write_pcap(self, target: Path, rows: Sequence[int]) -> None:
        """A capture of raw IP packets with these frames."""
        with target.open("wb") as out:
            out.write(PCAP_HEADER)
            for row in rows:
                file, _ = self.key_of(row)
                with open(self.files[file], "rb") as stream:
                    out.write(_pcap(self._read(row, 1), stream, {}))

    def _read(self, first: int, count: int) -> NDArray[np.void]:
        return np.fromfile(self.path, dtype=_RECORD, count=count, offset=first * _RECORD.itemsize)

    def _meta(self, block: Block, rows: Int64s, records: NDArray[np.void]) -> FrameMeta:
        return FrameMeta(
            row=rows + block.first,
            file=np.full(len(rows), block.file, dtype=np.int64),
            number=rows + block.number,
            time_ns=records["time_ns"].copy(),
            connection=records["connection"].astype(np.int64),
            up=records["up"].astype(np.int64),
            truncated=records["captured"] < records["length"],
        )


def _reader(records: NDArray[np.void], stream: IO[bytes]) -> Callable[[int], bytes]:
    def read(place: int) -> bytes:
        stream.seek(int(records["offset"][place]))
        return stream.read(int(records["captured"][place]))

    return read


def _moved(cut: dict[int, bytes], rows: Int64s) -> dict[int, bytes]:
    """By place among `rows` instead of among all."""
    if not cut:
        return cut
    place = {row: at for at, row in enumerate(rows.tolist())}
    return {place[row]: packet for row, packet in cut.items()}


def _pcap(records: NDArray[np.void], stream: IO[bytes], instead: dict[int, bytes]) -> bytes:
    """pcap records of some frames that lie near each other in one file; `instead` are packets that
    take the place of what the file holds."""
    offset, captured = records["offset"], records["captured"]
    base = int(offset[0])
    stream.seek(base)
    data = memoryview(stream.read(int(offset[-1] + captured[-1]) - base))
    header = np.empty(len(records), dtype=_HEADER)
    seconds, header["ns"] = np.divmod(records["time_ns"], 1_000_000_000)
    header["s"] = seconds & 0xFFFFFFFF
    header["captured"], header["length"] = captured, records["length"]
    for at, packet in instead.items():
        header["length"][at] -= header["captured"][at] - len(packet)
        header["captured"][at] = len(packet)
    heads = header.tobytes()
    low = offset - base
    return b"".join(
        piece
        for at, (a, b) in enumerate(zip(low.tolist(), (low + captured).tolist(), strict=True))
        for piece in (heads[at * 16 : at * 16 + 16], instead.get(at, data[a:b]))
    )
