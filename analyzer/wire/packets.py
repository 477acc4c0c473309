"""Read pcap and pcapng files a block of frames at a time, headers only, without copying packet bytes.

Formats: the libpcap file format (microseconds or nanoseconds, either byte order) and pcapng
(draft-ietf-opsawg-pcapng: SHB, IDB, EPB, SPB, the old PB, and ISB for drop counts). A file that ends in
the middle of a frame, or turns to nonsense, yields what came before and says so in `ReadState`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from analyzer.core.errors import InputError

Int64s = NDArray[np.int64]

#: How much of a file is looked at in one go. Larger frames than this are refused.
BLOCK_BYTES = 4 << 20
#: Longest frame that is believed; libpcap's own limit (MAXIMUM_SNAPLEN) is 262,144 bytes.
MAX_FRAME_BYTES = 1 << 20
_YEAR_NS = 366 * 86400 * 10**9

_PCAP_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_SHB, _IDB, _PB, _SPB, _ISB, _EPB = 0x0A0D0D0A, 1, 2, 3, 5, 6


@dataclass(frozen=True, slots=True)
class Frames:
    """Some consecutive frames of one link type. `start` are offsets into `data`; `number` counts from 1
    over the whole file, as Wireshark does; `time_ns` is since the epoch."""

    data: NDArray[np.uint8]
    base: int  # where `data` begins in the file
    link_type: int
    start: Int64s
    captured: Int64s
    length: Int64s
    time_ns: Int64s
    number: Int64s

    def __len__(self) -> int:
        return len(self.start)


@dataclass(slots=True)
class ReadState:
    """What reading a file came to: frames and bytes so far, when they were captured, how the file ended,
    and the capture's own drops."""

    frames: int = 0
    bytes: int = 0
    first_ns: int = 0  # the earliest and the latest frame, ns since the epoch, if there are frames
    last_ns: int = 0
    cut_at: int | None = None  # byte offset where the file ends within a frame
    damaged_at: int | None = None  # byte offset of the first record that makes no sense
    odd_times: int = 0  # frames whose time stamp is far from those of their neighbours
    dropped: int = 0  # packets that the capturing side says it dropped (pcapng ISB)


@dataclass(slots=True)
class _Batch:
    starts: list[int] = field(default_factory=list)
    captured: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    links: list[int] = field(default_factory=list)


def read_frames(path: Path, state: ReadState) -> Iterator[Frames]:
    """The frames of one uncompressed capture file, in file order; `state` is kept up to date.

    Raises `InputError` if the file can't be read or is no capture.
    """
    try:
        with path.open("rb") as stream:
            magic = stream.read(4)
            if magic in _PCAP_MAGIC:
                yield from _read_pcap(stream, *_PCAP_MAGIC[magic], state)
            elif magic == b"\x0a\x0d\x0d\x0a":
                yield from _read_pcapng(stream, state)
            else:
                raise InputError(f"{path.name}: not a pcap or pcapng file")
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read: {error.strerror or error}") from error


def _read_pcap(stream: BinaryIO, order: str, unit: int, state: ReadState) -> Iterator[Frames]:
    header = stream.read(20)
    if len(header) < 20:
        state.cut_at = 4 + len(header)
        return
    # the upper bits of the link type field hold FCS information
    link = struct.unpack(order + "I", header[16:20])[0] & 0xFFFF
    size_at = struct.Struct(order + "I").unpack_from
    base, rest = 24, b""
    while chunk := stream.read(BLOCK_BYTES):
        data = rest + chunk if rest else chunk
        headers: list[int] = []
        position, end = 0, len(data)
        # the walk from header to header is all that has to go one by one
        while position + 16 <= end:
            (size,) = size_at(data, position + 8)
            if size > MAX_FRAME_BYTES:
                state.damaged_at = base + position
                break
            after = position + 16 + size
            if after > end:
                break
            headers.append(position)
            position = after
        if headers:
            octets, at = np.frombuffer(data, dtype=np.uint8), np.array(headers, dtype=np.int64)
            words = octets[at[:, None] + np.arange(16)].view(order + "u4").astype(np.int64)
            seconds, part, captured, length = words.T
            times = seconds * 1_000_000_000 + part * unit
            columns = (at + 16, captured, np.maximum(length, captured), times)
            yield from _frames(data, base, columns, np.full(len(at), link), state)
        base += position
        state.bytes = base
        if state.damaged_at is not None:
            return
        rest = data[position:]
    if rest:
        state.cut_at = base


@dataclass(frozen=True, slots=True)
class _Interface:
    link: int
    snaplen: int
    numerator: int  # ns per tick = numerator / denominator
    denominator: int
    offset_ns: int


def _read_pcapng(stream: BinaryIO, state: ReadState) -> Iterator[Frames]:
    reader = _PcapngReader(state)
    rest, base = b"\x0a\x0d\x0d\x0a", 0
    while chunk := stream.read(BLOCK_BYTES):
        data = rest + chunk
        batch, used = reader.walk(data, base)
        if batch.starts:
            lists = (batch.starts, batch.captured, batch.lengths, batch.times)
            columns = tuple(np.array(values, dtype=np.int64) for values in lists)
            yield from _frames(data, base, columns, np.array(batch.links), state)
        base += used
        state.bytes = base
        if state.damaged_at is not None:
            return
        rest = data[used:]
    if rest and state.damaged_at is None:
        state.cut_at = base


class _PcapngReader:
    """Block walker; keeps the byte order and the interfaces of the current section."""

    def __init__(self, state: ReadState) -> None:
        self.state = state
        self.order = "<"
        self.interfaces: list[_Interface] = []

    def walk(self, data: bytes, base: int) -> tuple[_Batch, int]:
        """All whole blocks in `data`, and how many bytes they took."""
        batch, position, end = _Batch(), 0, len(data)
        while position + 12 <= end:
            if data[position : position + 4] == b"\x0a\x0d\x0d\x0a":
                self.order = "<" if data[position + 8 : position + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            kind, size = struct.unpack_from(self.order + "II", data, position)
            if size < 12 or size % 4 or size > MAX_FRAME_BYTES + (1 << 16):
                self.state.damaged_at = base + position
                break
            if position + size > end:
                break
            try:
                self._block(kind, data, position, size, batch)
            except (struct.error, IndexError, OverflowError):
                self.state.damaged_at = base + position
                break
            position += size
        return batch, position

    def _block(self, kind: int, data: bytes, at: int, size: int, batch: _Batch) -> None:
        order = self.order
        if kind == _EPB:
            interface, high, low, captured, length = struct.unpack_from(order + "IIIII", data, at + 8)
            self._frame(batch, interface, (high << 32) | low, captured, length, at + 28, at + size - 4)
        elif kind == _SHB:
            self.interfaces = []
        elif kind == _IDB:
            self.interfaces.append(self._interface(data, at, size))
        elif kind == _PB:
            interface, _, high, low, captured, length = struct.unpack_from(order + "HHIIII", data, at + 8)
            self._frame(batch, interface, (high << 32) | low, captured, length, at + 28, at + size - 4)
        elif kind == _SPB:
            (length,) = struct.unpack_from(order + "I", data, at + 8)
            captured = min(length, size - 16, self.interfaces[0].snaplen or length)
            self._frame(batch, 0, 0, captured, length, at + 12, at + size - 4)
        elif kind == _ISB:
            for code, value in self._options(data, at + 20, at + size - 4):
                if code in (5, 7) and len(value) == 8:  # isb_ifdrop, isb_osdrop
                    self.state.dropped += struct.unpack(order + "Q", value)[0]

    def _frame(
        self, batch: _Batch, interface: int, ticks: int, captured: int, length: int, at: int, limit: int
    ) -> None:
        if at + captured > limit:
            raise IndexError("frame longer than its block")
        face = self.interfaces[interface]
        time_ns = ticks * face.numerator // face.denominator + face.offset_ns
        if time_ns >= 1 << 62:
            raise OverflowError("time stamp out of range")
        batch.starts.append(at)
        batch.captured.append(captured)
        batch.lengths.append(max(length, captured))
        batch.times.append(time_ns)
        batch.links.append(face.link)

    def _interface(self, data: bytes, at: int, size: int) -> _Interface:
        link, _, snaplen = struct.unpack_from(self.order + "HHI", data, at + 8)
        numerator, denominator, offset = 1000, 1, 0
        for code, value in self._options(data, at + 16, at + size - 4):
            if code == 9 and value:  # if_tsresol
                exponent = value[0] & 0x7F
                ticks = 2**exponent if value[0] & 0x80 else 10**exponent
                numerator, denominator = 1_000_000_000, ticks
            elif code == 14 and len(value) == 8:  # if_tsoffset, seconds
                offset = struct.unpack(self.order + "q", value)[0] * 1_000_000_000
        return _Interface(link, snaplen, numerator, denominator, offset)

    def _options(self, data: bytes, at: int, limit: int) -> Iterator[tuple[int, bytes]]:
        while at + 4 <= limit:
            code, size = struct.unpack_from(self.order + "HH", data, at)
            if code == 0 or at + 4 + size > limit:
                return
            yield code, data[at + 4 : at + 4 + size]
            at += 4 + (size + 3) // 4 * 4


def _plausible(time_ns: Int64s, state: ReadState) -> Int64s:
    """Times, those more than a year from most others replaced by that of the frame before."""
    if int(time_ns.max()) - int(time_ns.min()) <= _YEAR_NS:
        return time_ns
    middle = np.median(time_ns)
    far = np.abs(time_ns - middle) > _YEAR_NS
    state.odd_times += int(far.sum())
    place = np.maximum.accumulate(np.where(far, 0, np.arange(len(far))))
    return np.where(far[place], int(middle), time_ns[place])


def _frames(
    data: bytes, base: int, columns: tuple[Int64s, ...], links: NDArray[Any], state: ReadState
) -> Iterator[Frames]:
    """Frames from columns (start, captured, length, time), cut where the link type changes."""
    octets = np.frombuffer(data, dtype=np.uint8)
    low_ns, high_ns = int(columns[3].min()), int(columns[3].max())
    columns = (*columns[:3], _plausible(columns[3], state))
    numbers = np.arange(state.frames + 1, state.frames + 1 + len(links), dtype=np.int64)
    edges = [0, *(np.flatnonzero(np.diff(links)) + 1).tolist(), len(links)]
    for low, high in pairwise(edges):
        start, captured, length, time_ns = (c[low:high] for c in columns)
        yield Frames(octets, base, int(links[low]), start, captured, length, time_ns, numbers[low:high])
    state.first_ns = min(state.first_ns, low_ns) if state.frames else low_ns
    state.last_ns = max(state.last_ns, high_ns)
    state.frames += len(links)
