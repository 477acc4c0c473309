"""The same traffic in another dress gives the same operations and findings, addresses apart."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analyzer.core.coverage import Loss
from analyzer.core.finding import Finding
from tests import captures_tools as tools
from tests.captures_tools import Packet
from tests.contract.judged import GANESHA, KERNEL, PYNFS, Judged, judged, judged_twin, rows

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark isn't installed")

_ADDRESS = re.compile(r"\[?(?:fd00::[0-9a-f:.]+|\d+\.\d+\.\d+\.\d+)\]?(?::\d+)?")
#: references name the file; op_id and the rest must be the same
_FILES = ("at_call", "at_return")

Twin = Callable[[list[Packet]], Iterable[Packet]]


@cache
def original(capture: Path) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
    return _shape(judged(capture))


def _shape(found: Judged) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
    table = [{k: _plain(v) for k, v in row.items()} for row in rows(found.operations, _FILES)]
    return table, [_finding(f) for f in found.outcome.findings]


def _plain(value: Any) -> Any:
    return _ADDRESS.sub("ADDRESS", value) if isinstance(value, str) else value


def _finding(finding: Finding) -> tuple[Any, ...]:
    frames = [reference.rsplit("#", 1)[1] for reference in finding.evidence]
    facts = {key: _plain(value) for key, value in finding.facts.items()}
    names = (_plain(finding.subject.name), _plain(finding.title))
    return finding.rule, finding.severity, finding.confidence, *names, finding.when, frames, facts


def link(number: int) -> tuple[Twin, int]:
    return lambda packets: tools.with_link(packets, number), number


DISGUISES: dict[str, tuple[Twin, int]] = {
    "BSD loopback": link(tools.NULL),
    "raw IP": link(tools.RAW),
    "Linux cooked": link(tools.SLL),
    "Linux cooked v2": link(tools.SLL2),
    "VLAN": (lambda packets: tools.with_vlan(packets, 7), tools.ETHERNET),
    "two VLAN tags": (lambda packets: tools.with_vlan(packets, 7, tags=2), tools.ETHERNET),
    "IPv6": (tools.as_ipv6, tools.ETHERNET),
}


@pytest.mark.parametrize("name", DISGUISES)
@pytest.mark.parametrize("capture", [GANESHA, KERNEL], ids=["ganesha", "kernel"])
def test_link_layers_and_address_families(name: str, capture: Path, tmp_path: Path) -> None:
    twin, number = DISGUISES[name]
    found = judged_twin(tmp_path, twin(list(tools.read(capture))), link=number)
    assert _shape(found) == original(capture)


#: 705 is AgentX, 3300 and 6789 are Ceph's, 445 is SMB's, 111 the portmapper's
@pytest.mark.parametrize(
    ("capture", "ports"),
    [
        (GANESHA, {20490: 12345}),
        (GANESHA, {20490: 2049, 50716: 705, 50732: 3300, 50738: 6789}),
        (KERNEL, {2049: 12345}),
        (KERNEL, {2049: 445, 906: 705, 670: 111}),
        (PYNFS, {2049: 12345, 56260: 705, 56276: 843}),
    ],
)
def test_any_port_on_either_side(capture: Path, ports: dict[int, int], tmp_path: Path) -> None:
    found = judged_twin(tmp_path, tools.with_ports(tools.read(capture), ports))
    assert _shape(found) == original(capture)
    assert "not decoded" not in found.notes


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("tsresol", [9, 0x80 + 30])
def test_pcapng_of_any_byte_order_and_resolution(order: str, tsresol: int, tmp_path: Path) -> None:
    path = tmp_path / "twin.pcapng"
    tools.write_pcapng(path, tools.read(GANESHA), tsresol=tsresol, order=order)
    found = judged(path)
    kept = [row["op"] for row in rows(found.operations)]
    assert kept == [row["op"] for row in original(GANESHA)[0]]
    assert len(found.outcome.findings) == len(original(GANESHA)[1])


def test_a_mirror_that_shows_every_frame_twice(tmp_path: Path) -> None:
    found = judged_twin(tmp_path, tools.duplicated(tools.read(KERNEL), 100, 1))
    assert found.operations.num_rows == len(original(KERNEL)[0])
    assert [f.title for f in found.outcome.findings] == [f.title for f in judged(KERNEL).outcome.findings]
    assert not found.coverage.gaps and not found.coverage.severe


def test_ring_files_in_any_order(tmp_path: Path) -> None:
    packets = list(tools.read(KERNEL))
    names = ["ring_00003.pcap", "ring_00001.pcap", "ring_00002.pcap"]
    size = len(packets) // 3 + 1
    for number, name in enumerate(names):  # the names tell nothing of the order
        part = packets[number * size : (number + 1) * size]
        tools.write_pcap(tmp_path / name, part, nanoseconds=True)
    there = [tmp_path / name for name in names]
    first, second, folder = judged(*there), judged(*reversed(there)), judged(tmp_path)
    assert rows(first.operations) == rows(second.operations) == rows(folder.operations)
    assert first.outcome == second.outcome == folder.outcome
    assert first.coverage == second.coverage == folder.coverage
    assert first.operations.num_rows == len(original(KERNEL)[0])


@pytest.mark.parametrize("to_server", [True, False])
def test_one_direction_alone_is_called_so(to_server: bool, tmp_path: Path) -> None:
    twin = tools.one_way(tools.read(KERNEL), 2049, to_server=to_server)
    found = judged_twin(tmp_path, twin)
    losses = [note.loss for note in found.coverage.notes]
    assert Loss.ONE_WAY in losses and found.coverage.severe
    assert not found.outcome.findings
