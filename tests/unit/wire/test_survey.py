"""The first look: what a connection carries, told by content, and what was cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.wire.packets import ReadState, read_frames
from analyzer.wire.survey import Connection, Survey
from tests import captures_tools as tools
from tests.captures_tools import Packet
from tests.contract.judged import GANESHA, KERNEL, PYNFS
from tests.crafting import Conversation, call, compound, in_order, numbers, record, reply

BODY = compound(numbers(24), numbers(10))


def surveyed(path: Path) -> Survey:
    survey = Survey()
    for frames in read_frames(path, ReadState()):
        survey.feed(frames)
    survey.finish()
    return survey


def of(packets: list[Packet], folder: Path) -> Survey:
    path = folder / "a.pcap"
    tools.write_pcap(path, packets)
    return surveyed(path)


def only(survey: Survey) -> Connection:
    (connection,) = survey.connections.values()
    return connection


@pytest.mark.parametrize(
    ("path", "connections", "calls", "replies"),
    [(GANESHA, 5, 206, 206), (KERNEL, 2, 1659, 1659), (PYNFS, 2, 5738, 5738)],
)
def test_messages_of_the_captures(path: Path, connections: int, calls: int, replies: int) -> None:
    survey = surveyed(path)
    found = [survey.connections[n] for n in survey.rpc_connections]
    assert len(found) == connections
    assert sum(sum(c.calls.values()) for c in found) == calls
    assert sum(sum(c.replies.values()) for c in found) == replies
    assert not any(c.truncated or c.too_short for c in found)
    assert all("syn" in c.marks for c in found)


def test_the_server_is_where_nfs_calls_go(tmp_path: Path) -> None:
    one = Conversation(client=("10.0.0.1", 2049), server=("10.0.0.200", 705))  # ports tell the contrary
    packets = [*one.open(), *one.ask(call(1, 100003, 4, 1, BODY), reply(1))]
    survey = of(packets, tmp_path)
    connection = only(survey)
    end = connection.high if connection.towards_server() else connection.low
    assert survey.pairs.endpoint(end) == "10.0.0.200:705"


def test_callbacks_alone_come_from_the_server(tmp_path: Path) -> None:
    one = Conversation(client=("10.0.0.1", 999), server=("10.0.0.7", 40000))
    survey = of([*one.open(), *one.ask(call(1, 0x40000000, 1, 1), reply(1))], tmp_path)
    connection = only(survey)
    end = connection.high if connection.towards_server() else connection.low
    assert survey.pairs.endpoint(end) == "10.0.0.1:999"


def test_a_message_that_is_sent_again_counts_once(tmp_path: Path) -> None:
    one = Conversation()
    packets = [*one.open(), *one.ask(call(1, 100003, 4, 1, BODY), reply(1))]
    assert only(of([*packets, *packets[3:], *packets[3:]], tmp_path)).calls == {False: 1}


def test_a_call_in_several_fragments(tmp_path: Path) -> None:
    one = Conversation()
    message = call(1, 100003, 4, 1, BODY)
    fragments = numbers(len(message) - 8) + message[:-8] + numbers(1 << 31 | 8) + message[-8:]
    assert only(of([*one.open(), *one.send(fragments)], tmp_path)).calls == {False: 1}


@pytest.mark.parametrize(
    ("payload", "mark"),
    [
        (b"ceph v027" + b"\0" * 40, "ceph"),
        (b"\0\0\0\x80\xfeSMB" + b"\0" * 60, "smb"),
        (b"\x16\x03\x01\x02\x00" + b"\1" * 60, "tls"),
        (record(call(1, 100003, 4, 0, flavour=7)), "rpc-with-tls"),
    ],
)
def test_marks(payload: bytes, mark: str, tmp_path: Path) -> None:
    one = Conversation(server=("10.0.0.1", 9999))
    assert mark in only(of([*one.open(), *one.send(payload)], tmp_path)).marks


def test_other_programs_are_counted_by_procedure(tmp_path: Path) -> None:
    one = Conversation()
    packets = one.open()
    for xid, (program, version, procedure) in enumerate([(100003, 3, 6)] * 4 + [(100021, 4, 2)] * 3):
        packets += one.ask(call(xid, program, version, procedure), reply(xid))
    assert of(packets, tmp_path).programs == {(100003, 3, 6): 4, (100021, 4, 2): 3}


def test_what_was_cut(tmp_path: Path) -> None:
    one = Conversation()
    packets = [*one.open(), *one.ask(call(1, 100003, 4, 1, BODY), reply(1, b"\0" * 80))]
    found = only(of(list(tools.truncated(packets, 100)), tmp_path))
    assert (found.truncated, found.too_short) == (2, 0)
    found = only(of(list(tools.truncated(packets, 60)), tmp_path))
    assert (found.truncated, found.too_short, sum(found.calls.values())) == (2, 2, 0)


def test_ports_and_jumps_of_connections_that_were_open_before(tmp_path: Path) -> None:
    begun, whole = Conversation(client=("10.0.0.7", 862)), Conversation(client=("10.0.0.8", 1001))
    packets = list(in_order(begun.open()[2:], whole.open()))
    survey = of(packets, tmp_path)
    assert survey.doubtful_ports(survey.connections) == (862, 2049)
    ((row, which),) = survey.jumps(survey.connections, since=False)
    assert survey.connections[which >> 1].marks == set()
    assert packets[row].time_ns == begun.time_ns
    assert len(survey.jumps(survey.connections, since=True)) == 4


def test_tunnels(tmp_path: Path) -> None:
    packets = [tools.Packet(1, b"\2" * 12 + b"\x08\0\x45" + b"\0" * 8 + b"\x2f" + b"\0" * 40, 64)]
    assert of(packets, tmp_path).tunnels == {"GRE": 1}
