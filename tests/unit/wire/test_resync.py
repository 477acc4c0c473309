"""Finding the next RPC record after a gap."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from analyzer.wire.resync import Resync, cut, next_record, segment
from tests import captures_tools as tools
from tests.crafting import Conversation, call, compound, numbers, record, reply

BODY = compound(numbers(24), numbers(10))
CALL, REPLY = record(call(7, 100003, 4, 1, BODY)), record(reply(7, b"\0" * 40))
CALLBACK = record(call(9, 0x40000000, 1, 1, BODY))


@pytest.mark.parametrize("message", [CALL, REPLY, CALLBACK])
@pytest.mark.parametrize("before", [b"", b"abc", b"\0" * 50, b"\x80" * 9, b"\xff" * 30])
def test_a_record_is_found_behind_anything(message: bytes, before: bytes) -> None:
    assert next_record(before + message + message) == len(before)


def test_the_first_fragment_of_several_is_a_beginning() -> None:
    fragment = struct.pack(">I", len(CALL) - 4) + CALL[4:] + b"\x80\0\0\1x"
    assert next_record(b"tail" + fragment) == 4


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x80\0\0\x28",
        b"\0" * 400,
        b"y" * 400,
        record(call(7, 100003, 4, 1)[:8] + numbers(3, 100003, 4, 1, 0, 0, 0, 0)),  # no RPC version 2
        record(call(7, 300000, 4, 1)),  # no program that is looked for
        record(call(7, 100003, 4, 1))[:20],  # cut before the program
        CALL + b"garbage!",  # what follows is no record
    ],
)
def test_what_is_no_record(payload: bytes) -> None:
    assert next_record(payload) == -1


def raw(packet: tools.Packet) -> bytes:
    return packet.data[14:]


@pytest.mark.parametrize("six", [False, True])
def test_cutting_a_packet(six: bool) -> None:
    packets = Conversation().send(b"abcdef" + CALL)
    (packet,) = tools.as_ipv6(packets) if six else packets
    shorter = cut(raw(packet), 6)
    found = segment(shorter)
    assert found is not None
    _, payload, sequence = found
    assert sequence == 1006 and shorter[payload:] == CALL
    whole = tools.Packet(0, packet.data[:14] + shorter, 0)
    assert tools.tcp_payload(whole) == CALL


def test_sequence_numbers_wrap() -> None:
    one = Conversation()
    one.next[True] = (1 << 32) - 2
    (packet,) = one.send(b"abcdef" + CALL)
    found = segment(cut(raw(packet), 6))
    assert found is not None and found[2] == 4


@pytest.mark.parametrize("packet", [b"", b"\x45" * 10, b"\x45" + b"\0" * 60, b"\x60" + b"\0" * 60])
def test_what_is_no_segment(packet: bytes) -> None:
    assert segment(packet) is None


def fed(
    packets: list[bytes], jumps: list[tuple[int, int]], sizes: list[int]
) -> tuple[list[bool], dict[int, bytes]]:
    """Rows that are kept, and those that were cut, over blocks of these sizes; all of direction 0."""
    resync, kept, changed, first = Resync(list(jumps)), list[bool](), dict[int, bytes](), 0
    for size in sizes:
        wanted = np.ones(size, dtype=bool)
        read = packets[first : first + size].__getitem__
        for place, packet in resync.block(first, np.zeros(size, dtype=np.int64), wanted, read).items():
            changed[first + place] = packet
        kept += wanted.tolist()
        first += size
    return kept, changed


@pytest.mark.parametrize("sizes", [[6], [3, 3], [1] * 6, [2, 4]])
def test_segments_before_the_next_record_are_left_out(sizes: list[int]) -> None:
    """A record of three segments whose first is lost; the next record begins within its last."""
    one = Conversation()
    parts = [CALL, b"d" * 80, b"e" * 80, b"f" * 30 + CALL, CALL, b"g" * 10]
    packets = [raw(one.send(part)[0]) for part in parts]
    kept, changed = fed(packets, [(1, 0)], sizes)
    assert kept == [True, False, False, True, True, True]
    assert list(changed) == [3] and changed[3].endswith(CALL) and b"f" not in changed[3]


def test_a_record_at_the_beginning_changes_nothing() -> None:
    one = Conversation()
    packets = [raw(one.send(part)[0]) for part in (CALL, CALL, b"x" * 50)]
    assert fed(packets, [(1, 0)], [3]) == ([True] * 3, {})


def test_segments_from_before_the_gap_are_left_alone() -> None:
    one = Conversation()
    early = raw(one.send(b"old data, sent again")[0])
    packets = [raw(one.send(b"m" * 60)[0]), early, raw(one.send(CALL)[0])]
    assert fed(packets, [(0, 0)], [3])[0] == [False, True, True]


def test_other_directions_are_left_alone() -> None:
    one = Conversation()
    packets = [raw(one.send(b"x" * 60)[0]) for _ in range(3)]
    assert fed(packets, [(0, 1)], [3]) == ([True] * 3, {})
