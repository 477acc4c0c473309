"""From link layers to TCP and UDP headers."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from analyzer.wire.link import TCP, UDP, Layers, Octets, Segments, layers, segments
from analyzer.wire.packets import Frames, ReadState, read_frames
from tests import captures_tools as tools
from tests import crafting
from tests.captures_tools import Packet
from tests.crafting import Conversation

DATA = b"0123456789" * 10


def conversation() -> list[Packet]:
    one = Conversation()
    return [*one.open(), *one.send(DATA), *one.send(DATA[:7], to_server=False)]


def parsed(
    folder: Path, packets: list[Packet], link: int = 1, protocol: int = TCP
) -> tuple[Frames, Layers, Segments]:
    path = folder / "a.pcap"
    tools.write_pcap(path, packets, link=link)
    (frames,) = read_frames(path, ReadState())
    octets = Octets(frames.data)
    found = layers(frames, octets)
    return frames, found, segments(found, octets, protocol)


def dressed(name: str) -> tuple[list[Packet], int]:
    packets = conversation()
    links = {"null": tools.NULL, "raw": tools.RAW, "sll": tools.SLL, "sll2": tools.SLL2}
    if name in links:
        return list(tools.with_link(packets, links[name])), links[name]
    if name.startswith("vlan"):
        return list(tools.with_vlan(packets, 5, tags=int(name[-1]))), 1
    return (list(tools.as_ipv6(packets)) if name == "ipv6" else packets), 1


@pytest.mark.parametrize("name", ["plain", "null", "raw", "sll", "sll2", "vlan1", "vlan2", "vlan3", "ipv6"])
def test_every_dress_has_the_same_segments(name: str, tmp_path: Path) -> None:
    packets, link = dressed(name)
    frames, found, part = parsed(tmp_path, packets, link)
    assert part.index.tolist() == [0, 1, 2, 3, 4]
    assert part.source_port.tolist() == [900, 2049, 900, 900, 2049]
    assert part.target_port.tolist() == [2049, 900, 2049, 2049, 900]
    assert part.length.tolist() == part.captured.tolist() == [0, 0, 0, 100, 7]
    assert part.sequence.tolist() == [1000, 5000, 1001, 1001, 5001]
    assert part.acknowledged.tolist() == [0, 1001, 5001, 5001, 1101]
    assert part.flags.tolist() == [0x02, 0x12, 0x10, 0x18, 0x18]
    start = int(part.payload[3])
    assert bytes(frames.data[start : start + 100]) == DATA
    assert found.ipv6.all() == (name == "ipv6")


def test_truncated_payload(tmp_path: Path) -> None:
    _, _, part = parsed(tmp_path, list(tools.truncated(conversation(), 74)))
    assert part.length.tolist() == [0, 0, 0, 100, 7] and part.captured.tolist() == [0, 0, 0, 20, 7]


def test_ethernet_padding_is_no_payload(tmp_path: Path) -> None:
    padded = [Packet(p.time_ns, p.data.ljust(60, b"\xee"), max(p.length, 60)) for p in conversation()]
    _, _, part = parsed(tmp_path, padded)
    assert part.length.tolist() == part.captured.tolist() == [0, 0, 0, 100, 7]


def test_length_0_is_segmentation_offload(tmp_path: Path) -> None:
    packets = conversation()
    data = bytearray(packets[3].data)
    data[16:18] = b"\0\0"
    packets[3] = Packet(packets[3].time_ns, bytes(data), len(data))
    _, _, part = parsed(tmp_path, packets)
    assert part.length.tolist() == [0, 0, 0, 100, 7]


def test_ip_options_and_tcp_options(tmp_path: Path) -> None:
    whole = conversation()[3].data
    head, tcp = bytearray(whole[14:34]), bytearray(whole[34:54])
    head[0], tcp[12] = 0x47, 0x80  # 28 and 32 bytes
    head[2:4] = struct.pack(">H", 28 + 32 + len(DATA))
    data = whole[:14] + bytes(head) + b"\x01" * 8 + bytes(tcp) + b"\x01" * 12 + DATA
    frames, _, part = parsed(tmp_path, [Packet(1, data, len(data))])
    assert part.length.tolist() == [100]
    assert bytes(frames.data[part.payload[0] :][:10]) == b"0123456789"


def test_ipv6_extension_headers(tmp_path: Path) -> None:
    (packet,) = tools.as_ipv6(conversation()[3:4])
    data = packet.data
    hop, options = bytes([60, 0]) + b"\0" * 6, bytes([6, 1]) + b"\0" * 14
    size = struct.unpack(">H", data[18:20])[0] + len(hop) + len(options)
    longer = data[:18] + struct.pack(">H", size) + b"\0" + data[21:54] + hop + options + data[54:]
    _, _, part = parsed(tmp_path, [Packet(1, longer, len(longer))])
    assert part.source_port.tolist() == [900] and part.length.tolist() == [100]


@pytest.mark.parametrize(("field", "fragment"), [(0x2000, True), (0x00B9, True), (0x4000, False)])
def test_fragments_are_no_segments(field: int, fragment: bool, tmp_path: Path) -> None:
    packet = conversation()[3]
    data = packet.data[:20] + struct.pack(">H", field) + packet.data[22:]
    _, found, part = parsed(tmp_path, [Packet(1, data, len(data))])
    assert found.fragment.tolist() == [fragment] and len(part.index) == (0 if fragment else 1)


def test_udp(tmp_path: Path) -> None:
    packet = crafting.datagram(("10.0.0.7", 800), ("10.0.0.1", 111), b"abcdef", crafting.START_NS)
    _, _, part = parsed(tmp_path, [packet], protocol=UDP)
    assert (part.source_port.tolist(), part.length.tolist(), part.sequence.tolist()) == ([800], [6], [0])


@pytest.mark.parametrize("size", [0, 1, 13, 14, 20, 33, 34, 53])
def test_frames_too_short_for_their_headers(size: int, tmp_path: Path) -> None:
    _, found, part = parsed(tmp_path, list(tools.truncated(conversation(), size)))
    assert len(part.index) == 0
    assert found.ip.tolist() == [size >= 34] * 5


def test_an_unknown_link_type_has_no_ip(tmp_path: Path) -> None:
    _, found, _ = parsed(tmp_path, conversation(), link=105)
    assert not found.ip.any()


def test_places_outside_read_as_the_last_octet() -> None:
    octets = Octets(np.frombuffer(b"\1\2\3", dtype=np.uint8))
    assert octets.u16(np.array([0, 1])).tolist() == [0x0102, 0x0203]
    assert octets.u32(np.array([50])).tolist() == [0x03030303]
