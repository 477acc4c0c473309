"""The readers of pcap and pcapng: times, byte orders, ends, damage, lengths."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from analyzer.core.errors import InputError
from analyzer.wire import packets as reader
from analyzer.wire.packets import MAX_FRAME_BYTES, Frames, ReadState, read_frames
from tests import captures_tools as tools
from tests.captures_tools import Packet

START = 1_700_000_000_123_456_789
SOME = [Packet(START + n * 1_000_000_007, bytes([n]) * (60 + n), 60 + n) for n in range(5)]


def read(path: Path) -> tuple[list[Frames], ReadState]:
    state = ReadState()
    return list(read_frames(path, state)), state


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link: int = 1, snaplen: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    return block(1, struct.pack(order + "HHI", link, 0, snaplen) + options, order)


def packet_block(number: int, ticks: int, data: bytes, length: int = 0) -> bytes:
    head = struct.pack("<IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), length or len(data))
    return block(6, head + data + b"\0" * (-len(data) % 4))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("nanoseconds", "unit"), [(True, 1), (False, 1000)])
def test_pcap(order: str, nanoseconds: bool, unit: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    tools.write_pcap(path, SOME, order=order, nanoseconds=nanoseconds)
    (frames,), state = read(path)
    assert frames.time_ns.tolist() == [p.time_ns // unit * unit for p in SOME]
    assert frames.captured.tolist() == frames.length.tolist() == [60, 61, 62, 63, 64]
    assert frames.number.tolist() == [1, 2, 3, 4, 5] and frames.link_type == 1
    assert bytes(frames.data[frames.start[3] : frames.start[3] + 4]) == b"\3\3\3\3"
    assert (state.frames, state.cut_at, state.damaged_at) == (5, None, None)


@pytest.mark.parametrize(
    ("tsresol", "unit"), [(6, 1000), (9, 1), (3, 10**6), (0, 10**9), (0x80 + 30, 1), (0x80, 10**9)]
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_units_of_time(tsresol: int, unit: int, order: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    tools.write_pcapng(path, SOME, tsresol=tsresol, order=order)
    (frames,), _ = read(path)
    for packet, time_ns in zip(SOME, frames.time_ns.tolist(), strict=True):
        assert abs(packet.time_ns - time_ns) <= unit
        assert time_ns % unit == 0


def test_pcapng_offset_of_times(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    options = struct.pack("<HHqHH", 14, 8, 1000, 0, 0)
    path.write_bytes(section() + interface(options=options) + packet_block(0, 5_000_000, b"x" * 60))
    (frames,), _ = read(path)
    assert frames.time_ns.tolist() == [1005 * 10**9]


def test_pcapng_several_sections_and_interfaces(tmp_path: Path) -> None:
    """A second section may have the other byte order, and numbers its interfaces anew."""
    path = tmp_path / "a.pcapng"
    second = section(">") + interface(101, order=">")
    body = struct.pack(">IIIII", 0, 0, 9, 40, 40) + b"z" * 40
    path.write_bytes(
        section() + interface(1) + interface(113) + packet_block(1, 1, b"a" * 60)
        + packet_block(0, 2, b"b" * 60) + second + block(6, body, ">")
    )  # fmt: skip
    found, state = read(path)
    assert [(f.link_type, f.number.tolist()) for f in found] == [(113, [1]), (1, [2]), (101, [3])]
    assert found[2].time_ns.tolist() == [9000]
    assert state.frames == 3


def test_pcapng_simple_and_old_packets_and_drops(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    simple = block(3, struct.pack("<I", 200) + b"s" * 64)  # cut to the interface's snap length
    old = block(2, struct.pack("<HHIIII", 0, 3, 0, 7, 20, 20) + b"o" * 20)
    drops = block(5, struct.pack("<III", 0, 0, 0) + struct.pack("<HHQHHQHH", 5, 8, 11, 7, 8, 4, 0, 0))
    path.write_bytes(section() + interface(snaplen=64) + simple + old + drops + block(0xBAD, b"skip"))
    (frames,), state = read(path)
    assert frames.captured.tolist() == [64, 20] and frames.length.tolist() == [200, 20]
    assert frames.time_ns.tolist() == [0, 7000]
    assert state.dropped == 15 and state.damaged_at is None


@pytest.mark.parametrize("extra", [1, 15, 16, 40])
def test_cut_in_the_middle(extra: int, tmp_path: Path) -> None:
    path, cut = tmp_path / "a.pcap", tmp_path / "cut.pcap"
    tools.write_pcap(path, SOME)
    tools.cut_file(path, cut, 3, extra)
    (frames,), state = read(cut)
    assert len(frames) == 3
    assert state.cut_at == 24 + 3 * 16 + 60 + 61 + 62 and state.damaged_at is None


def test_blocks_of_reading_meet_in_the_middle_of_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BLOCK_BYTES", 101)
    for name, write in (("a.pcap", tools.write_pcap), ("a.pcapng", tools.write_pcapng)):
        write(tmp_path / name, SOME)
        found, state = read(tmp_path / name)
        assert [n for f in found for n in f.number.tolist()] == [1, 2, 3, 4, 5]
        data = [bytes(f.data[s : s + 60]) for f in found for s in f.start.tolist()]
        assert data == [bytes([n]) * 60 for n in range(5)]
        assert state.bytes == (tmp_path / name).stat().st_size and state.cut_at is None


def test_a_frame_too_large_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    tools.write_pcap(path, SOME[:2])
    end = path.stat().st_size
    path.write_bytes(path.read_bytes() + struct.pack("<IIII", 1, 1, MAX_FRAME_BYTES + 1, 9) + b"\0" * 99)
    (frames,), state = read(path)
    assert len(frames) == 2 and state.damaged_at == end


def test_a_frame_longer_than_its_block_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    good = section() + interface() + packet_block(0, 1, b"a" * 60)
    head = struct.pack("<IIIII", 0, 0, 2, 5000, 5000)
    path.write_bytes(good + block(6, head + b"b" * 60))
    (frames,), state = read(path)
    assert len(frames) == 1 and state.damaged_at == len(good)


def test_an_unknown_interface_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(section() + packet_block(0, 1, b"a" * 60))
    found, state = read(path)
    assert found == [] and state.damaged_at == 28


def test_length_on_the_wire_is_never_below_what_was_captured(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    tools.write_pcap(path, [Packet(START, b"x" * 60, 10), Packet(START, b"x" * 60, 1500)])
    (frames,), _ = read(path)
    assert frames.length.tolist() == [60, 1500] and frames.captured.tolist() == [60, 60]


def test_a_time_far_from_all_others_takes_its_neighbours(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    odd = [SOME[0], Packet(0, b"x" * 60, 60), *SOME[1:]]
    tools.write_pcap(path, odd, nanoseconds=True)
    (frames,), state = read(path)
    assert frames.time_ns.tolist() == [START, START, *(p.time_ns for p in SOME[1:])]
    assert state.odd_times == 1


def test_what_is_no_capture(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"GIF89a" + b"\0" * 90)
    with pytest.raises(InputError, match="not a pcap or pcapng file"):
        read(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(tmp_path / "b")
