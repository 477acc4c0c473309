from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import captures_tools as tools
from tests.captures_tools import Packet

CLIENT, SERVER = "10.0.0.7", "10.0.0.1"
START = 1_700_000_000_123_456_789


def frame(number: int, to_server: bool = True, payload: bytes = b"payload") -> Packet:
    """A TCP segment between client port 900 and server port 2049."""
    ends = [bytes(map(int, a.split("."))) for a in (CLIENT, SERVER)]
    ports = [900, 2049]
    if not to_server:
        ends.reverse()
        ports.reverse()
    tcp = struct.pack(">HHIIBBHHH", *ports, number, 0, 0x50, 0x18, 1000, 0, 0) + payload
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), number, 0, 64, 6, 0) + ends[0] + ends[1]
    data = b"\2" * 6 + b"\4" * 6 + b"\x08\x00" + ip + tcp
    return Packet(START + number * 1_000_000, data, len(data))


PACKETS = [frame(n, n % 2 == 0, b"%04d" % n * 5) for n in range(40)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("nanoseconds", "unit"), [(True, 1), (False, 1000)])
def test_pcap_both_orders_and_resolutions(tmp_path: Path, order: str, nanoseconds: bool, unit: int) -> None:
    path = tmp_path / "x.pcap"
    assert tools.write_pcap(path, PACKETS, nanoseconds=nanoseconds, order=order) == 40
    back = list(tools.read(path))
    assert [p.data for p in back] == [p.data for p in PACKETS]
    assert [p.time_ns for p in back] == [p.time_ns // unit * unit for p in PACKETS]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("tsresol", "error"), [(9, 0), (6, 1000), (3, 1_000_000), (0x80 + 30, 2)])
def test_pcapng_both_orders_and_resolutions(tmp_path: Path, order: str, tsresol: int, error: int) -> None:
    path = tmp_path / "x.pcapng"
    tools.write_pcapng(path, PACKETS, tsresol=tsresol, order=order)
    back = list(tools.read(path))
    assert [p.data for p in back] == [p.data for p in PACKETS]
    assert all(0 <= p.time_ns - b.time_ns <= error for p, b in zip(PACKETS, back, strict=True))


def test_truncated_keeps_the_length() -> None:
    (packet,) = tools.truncated(PACKETS[:1], 30)
    assert len(packet.data) == 30 and packet.length == PACKETS[0].length and packet.cut
    assert not next(tools.truncated(PACKETS, 10_000)).cut


def test_endpoints_and_payload() -> None:
    assert tools.endpoints(PACKETS[0]) == (CLIENT, 900, SERVER, 2049)
    assert tools.endpoints(PACKETS[1]) == (SERVER, 2049, CLIENT, 900)
    assert tools.tcp_payload(PACKETS[3]) == b"0003" * 5
    assert tools.endpoints(Packet(0, b"\0" * 10, 10)) is None


def test_less() -> None:
    assert len(list(tools.dropped(PACKETS, lambda p: p.time_ns > PACKETS[9].time_ns))) == 10
    kept = list(tools.lost(PACKETS, 50, seed=1))
    assert 5 < len(kept) < 35 and kept == list(tools.lost(PACKETS, 50, seed=1))
    assert list(tools.one_way(PACKETS, 2049)) == PACKETS[::2]
    assert list(tools.one_way(PACKETS, 2049, to_server=False)) == PACKETS[1::2]
    assert list(tools.from_middle(PACKETS, 30)) == PACKETS[30:]


def test_disorder() -> None:
    mixed = list(tools.reordered(PACKETS, 8, seed=3))
    assert [p.time_ns for p in mixed] == [p.time_ns for p in PACKETS]
    assert [p.data for p in mixed] != [p.data for p in PACKETS]
    for at in range(0, 40, 8):
        assert {p.data for p in mixed[at : at + 8]} == {p.data for p in PACKETS[at : at + 8]}
    doubled = list(tools.duplicated(PACKETS, 100, seed=3))
    assert doubled[::2] == doubled[1::2] == PACKETS


def test_flipped_turns_one_bit() -> None:
    for old, new in zip(PACKETS, tools.flipped(PACKETS, 100, seed=5, start=34), strict=True):
        changed = [(a ^ b) for a, b in zip(old.data, new.data, strict=True) if a != b]
        assert len(changed) == 1 and changed[0].bit_count() == 1
        assert old.data[:34] == new.data[:34]


def test_cut_file_ends_in_the_middle_of_a_packet(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.pcap", tmp_path / "cut.pcap"
    tools.write_pcap(whole, PACKETS, nanoseconds=True)
    tools.cut_file(whole, cut, 10)
    assert cut.stat().st_size == 24 + sum(16 + len(p.data) for p in PACKETS[:10]) + 20
    assert list(tools.read(cut)) == PACKETS[:10]


@pytest.mark.parametrize("link", [tools.NULL, tools.RAW, tools.SLL, tools.SLL2])
def test_other_link_types_hold_the_same_segments(link: int) -> None:
    for old, new in zip(PACKETS, tools.with_link(PACKETS, link), strict=True):
        assert new.link == link and len(new.data) == new.length
        assert tools.endpoints(new) == tools.endpoints(old)
        assert tools.tcp_payload(new) == tools.tcp_payload(old)


@pytest.mark.parametrize("tags", [1, 2])
def test_vlan(tags: int) -> None:
    for old, new in zip(PACKETS, tools.with_vlan(PACKETS, 12, tags), strict=True):
        assert len(new.data) == new.length == old.length + 4 * tags
        assert tools.endpoints(new) == tools.endpoints(old)
        assert tools.tcp_payload(new) == tools.tcp_payload(old)


def test_ipv6() -> None:
    for old, new in zip(PACKETS, tools.as_ipv6(PACKETS), strict=True):
        ends = tools.endpoints(new)
        assert ends is not None and ends[0] in ("fd00::a00:7", "fd00::a00:1")
        assert tools.tcp_payload(new) == tools.tcp_payload(old)
        assert len(new.data) == new.length == old.length + 20


def test_ports() -> None:
    (packet,) = tools.with_ports(PACKETS[:1], {900: 705, 2049: 12345})
    assert tools.endpoints(packet) == (CLIENT, 705, SERVER, 12345)


def test_copies_have_addresses_of_their_own_and_grow_in_time() -> None:
    made = list(tools.copies(PACKETS, 300))
    assert len(made) == 300 * 40
    assert [p.time_ns for p in made] == sorted(p.time_ns for p in made)
    pairs = {frozenset((e[0], e[2])) for p in made if (e := tools.endpoints(p))}
    assert len(pairs) == 300
    assert tools.endpoints(made[0]) == ("10.0.0.1", 900, "10.0.0.2", 2049)
    assert tools.endpoints(made[40 * 299]) == ("10.1.43.1", 900, "10.1.43.2", 2049)
    assert tools.tcp_payload(made[-1]) == tools.tcp_payload(PACKETS[-1])


def test_copies_at_once_are_merged_by_time() -> None:
    made = list(tools.copies(PACKETS, 10, at_once=5))
    assert len(made) == 400
    assert [p.time_ns for p in made] == sorted(p.time_ns for p in made)
    assert len({tools.endpoints(p) for p in made[:5]}) == 5


# against tshark, on a real capture

CAPTURE = Path(__file__).parents[2] / "captures" / "nfs41-ganesha-locks-restart-port20490.pcap"


def calls_seen(path: Path, wanted: str = "nfs && rpc.msgtyp == 0") -> int:
    """NFS calls that tshark decodes, or the frames that another filter shows."""
    command = ["tshark", "-n", "-o", "tcp.try_heuristic_first:TRUE", "-r", str(path)]
    done = subprocess.run(
        [*command, "-Y", wanted], capture_output=True, text=True, check=False, timeout=120
    )
    return len(done.stdout.splitlines())


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark isn't installed")
@pytest.mark.skipif(not CAPTURE.exists(), reason="the capture is missing")
def test_tshark_reads_every_disguise(tmp_path: Path) -> None:
    packets = list(tools.read(CAPTURE))
    expected = calls_seen(CAPTURE)
    assert expected == 206

    def seen(twin: Iterable[Packet], link: int = tools.ETHERNET) -> int:
        path = tmp_path / "twin.pcap"
        tools.write_pcap(path, twin, link=link)
        return calls_seen(path)

    for link in (tools.NULL, tools.RAW, tools.SLL, tools.SLL2):
        assert seen(tools.with_link(packets, link), link) == expected, link
    assert seen(tools.with_vlan(packets, 7)) == expected
    assert seen(tools.as_ipv6(packets)) == expected
    assert seen(tools.with_ports(packets, {20490: 12345})) == expected
    assert seen(tools.copies(packets, 3)) == 3 * expected
    assert seen(tools.copies(packets, 4, at_once=2)) == 4 * expected
    cut = tmp_path / "cut.pcap"
    tools.write_pcap(cut, tools.truncated(packets, 160))
    assert calls_seen(cut, "nfs.opcode == 12") < calls_seen(CAPTURE, "nfs.opcode == 12") == 26
    assert seen(tools.one_way(packets, 20490, to_server=False)) == 0
    path = tmp_path / "twin.pcapng"
    tools.write_pcapng(path, packets, tsresol=0x80 + 20, order=">")
    assert calls_seen(path) == expected
