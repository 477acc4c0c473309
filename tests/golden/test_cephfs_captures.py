"""CephFS captures and what their clients wrote down. Until CephFS is decoded: that they fit together."""

from __future__ import annotations

import pytest

from analyzer.core.errors import NothingToCheckError
from analyzer.pipeline.capture import CaptureJob, analyse_capture
from tests import captures_tools as tools
from tests.golden.truth import CAPTURES, SECOND, calls, took, truth

ALL = sorted(path.stem for path in CAPTURES.glob("cephfs-*.pcap"))


def test_all_are_there() -> None:
    assert len(ALL) == 9


@pytest.mark.parametrize("name", ALL)
def test_capture_and_truth_are_of_one_time(name: str) -> None:
    capture = CAPTURES / f"{name}.pcap"
    assert capture.stat().st_size < 2_000_000
    times = [packet.time_ns for packet in tools.read(capture)]
    lines = truth(name)
    assert (
        times[0] < lines[0]["wall_start_ns"]
        and max(line["wall_end_ns"] for line in lines) < times[-1] + SECOND
    )
    assert {line["who"] for line in lines} >= {"clienta", "clientb"}


@pytest.mark.parametrize("name", ALL)
def test_nothing_of_the_machine_is_in_it(name: str) -> None:
    octets = (CAPTURES / f"{name}.pcap").read_bytes()
    for word in (b"/run/", b"/work", b"/root", b"Intel", b"AMD", b"GenuineIntel"):
        assert word not in octets
    assert b"client1" in octets and b"ceph v" in octets


def test_it_is_said_that_ceph_is_seen() -> None:
    with pytest.raises(NothingToCheckError, match="connections carry Ceph: seen, not judged"):
        analyse_capture(CaptureJob((str(CAPTURES / f"{ALL[0]}.pcap"),)))


@pytest.mark.parametrize("client", ["fuse", "kernel"])
def test_an_evicted_client_is_told_by_write_and_not_by_fsync(client: str) -> None:
    """Data that was in the client's cache is lost; fsync returned 0 for it."""
    name = f"cephfs-eviction-{client}"
    first, after, last = calls(name, what="fsync", who="clienta")
    assert first["result"] == after["result"] == last["result"] == "ok"
    _, _, refused = calls(name, what="write", who="clienta")
    assert refused["result"] in ("EIO", "ESHUTDOWN")
    (waited,) = calls(name, what="lock", who="clientb")
    assert waited["result"] == "ok" and took(waited) > SECOND / 2


def test_locks_survive_a_restart_of_the_metadata_server() -> None:
    (held,) = calls("cephfs-mds-restart", what="lock", who="clienta")
    (freed,) = calls("cephfs-mds-restart", what="unlock", who="clienta")
    waited = calls("cephfs-mds-restart", what="lock", who="clientb")[-1]
    assert waited["wall_end_ns"] > freed["wall_start_ns"] > held["wall_end_ns"]
    assert 0 <= waited["wall_end_ns"] - freed["wall_end_ns"] < SECOND  # the MDS queues: nobody polls
