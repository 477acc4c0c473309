"""Which segments belong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.wire import connections
from analyzer.wire.connections import Pairs
from analyzer.wire.link import TCP, Octets, layers, segments
from analyzer.wire.packets import ReadState, read_frames
from tests import captures_tools as tools
from tests.captures_tools import Packet
from tests.crafting import Conversation, in_order


def numbered(folder: Path, packets: list[Packet], pairs: Pairs) -> list[tuple[int, bool]]:
    path = folder / "a.pcap"
    tools.write_pcap(path, packets)
    (frames,) = read_frames(path, ReadState())
    octets = Octets(frames.data)
    found = layers(frames, octets)
    numbers, up = pairs.of(found, segments(found, octets, TCP), octets, False)
    return list(zip(numbers.tolist(), up.tolist(), strict=True))


def two() -> list[Packet]:
    first, second = Conversation(), Conversation(client=("10.0.0.8", 900))
    return list(in_order(first.open(), second.open()))


def test_both_directions_are_one_connection(tmp_path: Path) -> None:
    pairs = Pairs()
    found = numbered(tmp_path, two(), pairs)
    assert [number for number, _ in found] == [0, 1, 0, 1, 0, 1]
    # the server's address is the lower one
    assert [up for _, up in found] == [False, False, True, True, False, False]
    low, high, _ = next(iter(pairs.numbers))
    assert (pairs.endpoint(low), pairs.endpoint(high)) == ("10.0.0.1:2049", "10.0.0.7:900")


def test_ipv6_addresses(tmp_path: Path) -> None:
    pairs = Pairs()
    found = numbered(tmp_path, [*two(), *tools.as_ipv6(two())], pairs)
    assert [number for number, _ in found] == [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3]
    ends = {pairs.endpoint(end) for low, high, _ in list(pairs.numbers)[2:] for end in (low, high)}
    assert ends == {"[fd00::a00:1]:2049", "[fd00::a00:7]:900", "[fd00::a00:8]:900"}


def test_ports_tell_apart_what_addresses_do_not(tmp_path: Path) -> None:
    one, other = Conversation(), Conversation(client=("10.0.0.7", 901))
    found = numbered(tmp_path, [*one.open(), *other.open()], Pairs())
    assert [number for number, _ in found] == [0, 0, 0, 1, 1, 1]


def test_too_many_are_counted_not_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 1)
    pairs = Pairs()
    found = numbered(tmp_path, two(), pairs)
    assert sorted({n for n, _ in found}) == [-1, 0] and pairs.overflow
