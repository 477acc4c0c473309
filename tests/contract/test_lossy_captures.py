"""A capture that lost something says so, lowers every confidence, and accuses nobody on that ground."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from analyzer.core.coverage import Loss
from analyzer.core.finding import Confidence, ExitCode, Finding, Verdict
from tests import captures_tools as tools
from tests.captures_tools import Packet
from tests.contract.judged import CAPTURES, GANESHA, KERNEL, PYNFS, RULES, Judged, judged, judged_twin

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark isn't installed")

ALL = sorted(set(CAPTURES.glob("*.pcap*")) - set(CAPTURES.glob("cephfs-*")))
every_capture = pytest.mark.parametrize("capture", ALL, ids=[path.stem for path in ALL])


@cache
def whole(capture: Path) -> Judged:
    return judged(capture)


@cache
def packets(capture: Path) -> list[Packet]:
    return list(tools.read(capture))


def invented(found: Judged, base: Judged) -> list[Finding]:
    """Findings that the whole capture doesn't have. Where a rule stands on the frames that it cites, the
    same frames may be told of another subject; so may an incident where the client's name was lost."""
    known = {(f.rule, f.subject.kind, f.subject.name) for f in base.outcome.findings}
    times: dict[str, list[tuple[int, int]]] = {}
    for f in base.outcome.findings:
        times.setdefault(f.rule, []).append(f.when or (0, 1 << 63))
    return [
        f
        for f in found.outcome.findings
        if (f.rule, f.subject.kind, f.subject.name) not in known
        and not (not RULES[f.rule].follows_state and f.rule in times)
        and not any(
            f.when and f.when[0] <= last and f.when[1] >= first for first, last in times.get(f.rule, ())
        )
    ]


def too_sure(found: Judged, base: Judged) -> list[Finding]:
    """Findings whose confidence isn't lower than in the whole capture."""
    best: dict[str, Confidence] = {}
    for f in base.outcome.findings:
        best[f.rule] = max(f.confidence, best.get(f.rule, Confidence.LOW))
    return [f for f in found.outcome.findings if f.confidence > best[f.rule].lowered()]


def assert_honest(found: Judged, base: Judged) -> None:
    assert [f"{f.rule}: {f.title}" for f in invented(found, base)] == []
    assert [f"{f.rule}: {f.confidence}" for f in too_sure(found, base)] == []
    if found.coverage.severe and not found.outcome.findings:
        assert found.exit_code == ExitCode.UNKNOWN
        assert not any(j.verdict is Verdict.UPHELD for j in found.outcome.judgements)


# --- truncated frames --------------------------------------------------------------------------------


@every_capture
@pytest.mark.parametrize("snaplen", [160, 256])
def test_snaplen(capture: Path, snaplen: int, tmp_path: Path) -> None:
    found = judged_twin(tmp_path, tools.truncated(packets(capture), snaplen))
    assert_honest(found, whole(capture))
    assert found.coverage.severe and Loss.SNAPLEN in found.losses
    assert f"RPC frames hold only their first {snaplen} bytes or less" in found.notes
    assert "answers are incomplete" in found.notes
    assert all(j.verdict is not Verdict.UPHELD for j in found.outcome.judgements)


@pytest.mark.parametrize("snaplen", [54, 68, 96, 128])
@pytest.mark.parametrize("capture", [GANESHA, KERNEL], ids=["ganesha", "kernel"])
def test_frames_without_any_operation_are_unknown_not_clean(
    capture: Path, snaplen: int, tmp_path: Path
) -> None:
    found = judged_twin(tmp_path, tools.truncated(packets(capture), snaplen))
    assert found.operations.num_rows == 0
    assert found.coverage.severe and found.exit_code == ExitCode.UNKNOWN
    assert f"hold only their first {snaplen} bytes or less" in found.notes


def test_frames_that_lack_only_data_can_be_judged(tmp_path: Path) -> None:
    found = judged_twin(tmp_path, tools.truncated(packets(GANESHA), 512))
    assert found.operations.num_rows == whole(GANESHA).operations.num_rows == 603
    assert "all messages that begin in them could be read" in found.notes
    assert not found.coverage.severe and not found.coverage.gaps
    assert_honest(found, whole(GANESHA))
    assert [f.title for f in found.findings("lock-long-wait")] == [
        f.title for f in whole(GANESHA).findings("lock-long-wait")
    ]


# --- lost frames -------------------------------------------------------------------------------------


@every_capture
@pytest.mark.parametrize("percent", [0.1, 1, 5])
def test_lost_segments(capture: Path, percent: float, tmp_path: Path) -> None:
    found = judged_twin(tmp_path, tools.lost(packets(capture), percent, seed=3))
    base = whole(capture)
    if not found.coverage.degraded:  # only acknowledgements were lost
        assert found.operations.num_rows == base.operations.num_rows
        return
    assert_honest(found, base)
    if percent == 5:
        assert found.coverage.severe and Loss.GAP in found.losses


def test_what_lies_between_the_gaps_is_still_judged(tmp_path: Path) -> None:
    """2 % of the frames are lost, none of them during the 7 s in which B waits for A's lock."""
    data = packets(GANESHA)
    waited = range(30, 50)
    rest = random.Random(4).sample([at for at in _with_payload(GANESHA) if at not in waited], 10)
    kept = [packet for at, packet in enumerate(data) if at not in set(rest)]
    found = judged_twin(tmp_path, kept)
    assert found.coverage.severe and not found.coverage.blind
    (wait,) = found.findings("lock-long-wait")
    (base,) = whole(GANESHA).findings("lock-long-wait")
    assert wait.title == base.title and wait.confidence < base.confidence
    assert_honest(found, whole(GANESHA))


@pytest.mark.parametrize(
    ("capture", "percent", "share"),
    [(KERNEL, 0.1, 0.996), (KERNEL, 1, 0.98), (KERNEL, 5, 0.93), (PYNFS, 5, 0.94), (GANESHA, 5, 0.9)],
)
def test_most_operations_survive(capture: Path, percent: float, share: float, tmp_path: Path) -> None:
    found = judged_twin(tmp_path, tools.lost(packets(capture), percent, seed=8))
    assert found.operations.num_rows >= share * whole(capture).operations.num_rows


def _with_payload(capture: Path) -> list[int]:
    return [at for at, packet in enumerate(packets(capture)) if tools.tcp_payload(packet)]


@pytest.mark.parametrize("capture", [GANESHA, KERNEL, PYNFS], ids=["ganesha", "kernel", "pynfs"])
def test_one_lost_frame_costs_one_message(capture: Path, tmp_path: Path) -> None:
    base, data = whole(capture), packets(capture)
    for at in random.Random(11).sample(_with_payload(capture), 8):
        found = judged_twin(tmp_path, data[:at] + data[at + 1 :])
        assert base.operations.num_rows - found.operations.num_rows <= 8, at
        assert found.coverage.gaps and Loss.GAP in found.losses and not found.coverage.severe, at
        assert_honest(found, base)


def test_the_last_reply_is_missed_by_its_acknowledgement(tmp_path: Path) -> None:
    """Nothing follows it in its direction; only the other side tells that it came."""
    data = packets(GANESHA)
    ends = [tools.endpoints(packet) for packet in data]
    mine = [at for at in _with_payload(GANESHA) if (e := ends[at]) and (e[1], e[3]) == (20490, 50732)]
    last = mine[-1]
    without_end = [
        packet
        for at, packet in enumerate(data)
        if at != last and not (at > last and (e := ends[at]) and (e[1], e[3]) == (20490, 50732))
    ]
    found = judged_twin(tmp_path, without_end)
    assert found.coverage.gaps
    assert not found.findings("unanswered-call")


def test_a_gap_says_when_and_whose(tmp_path: Path) -> None:
    data = packets(KERNEL)
    at = _with_payload(KERNEL)[1000]
    found = judged_twin(tmp_path, data[:at] + data[at + 1 :])
    (gap,) = found.coverage.gaps
    assert gap.first_ns < data[at].time_ns < gap.last_ns
    ends = tools.endpoints(data[at])
    assert ends is not None
    host = ends[2] if ends[1] == 2049 else ends[0]
    (client,) = gap.clients
    letter = {"10.99.0.2": "clienta", "10.99.0.3": "clientb"}[host]
    assert letter in client


# --- begins, ends, one direction ---------------------------------------------------------------------


@every_capture
@pytest.mark.parametrize("part", [3, 2])
def test_begins_in_the_middle(capture: Path, part: int, tmp_path: Path) -> None:
    data = packets(capture)
    base = whole(capture)
    found = judged_twin(tmp_path, tools.from_middle(data, len(data) // part))
    assert Loss.MID_START in found.losses and found.coverage.degraded
    assert {f.rule for f in found.outcome.findings} <= {f.rule for f in base.outcome.findings}
    assert "already open when the capture began" in found.notes


@every_capture
def test_each_client_keeps_one_name(capture: Path, tmp_path: Path) -> None:
    """A kernel client has an address of its own: what names the middle shows must not split it."""
    if not capture.stem.startswith("kernel"):
        pytest.skip("several clients share an address")
    data = packets(capture)
    found = judged_twin(tmp_path, tools.from_middle(data, len(data) // 3))
    names: dict[str, set[str]] = {}
    for row in found.operations.select(["client", "connection"]).to_pylist():
        names.setdefault(row["connection"].rpartition(":")[0].partition(":")[0], set()).add(row["client"])
    assert {host: len(clients) for host, clients in names.items()} == dict.fromkeys(names, 1)


@every_capture
def test_ends_in_the_middle(capture: Path, tmp_path: Path) -> None:
    data = packets(capture)
    found = judged_twin(tmp_path, data[: len(data) // 2])
    assert not found.coverage.severe
    assert found.operations.num_rows > 0


@pytest.mark.parametrize("to_server", [True, False])
@pytest.mark.parametrize(("capture", "port"), [(GANESHA, 20490), (KERNEL, 2049)], ids=["ganesha", "kernel"])
def test_one_direction_missing(capture: Path, port: int, to_server: bool, tmp_path: Path) -> None:
    found = judged_twin(tmp_path, tools.one_way(packets(capture), port, to_server))
    assert_honest(found, whole(capture))
    assert Loss.ONE_WAY in found.losses and found.coverage.severe
    assert "show only one direction" in found.notes
    assert not found.findings("unanswered-call") and not found.findings("server-stall")


def test_a_server_that_is_silent_is_no_missing_direction(tmp_path: Path) -> None:
    """Calls that nobody acknowledges were not answered; the capture shows all there was."""
    data = packets(KERNEL)
    silent: list[Packet] = []
    half = len(data) // 2
    for at, packet in enumerate(data):
        ends = tools.endpoints(packet)
        if at < half or (ends is not None and ends[3] == 2049 and at < half + 40):
            silent.append(packet)
    found = judged_twin(tmp_path, _frozen_acknowledgements(silent, half))
    assert Loss.ONE_WAY not in found.losses and not found.coverage.severe


def _frozen_acknowledgements(data: Iterable[Packet], first: int) -> Iterable[Packet]:
    """From a packet on, each side acknowledges only what it had got before."""
    last: dict[tuple[str, int, str, int], bytes] = {}
    for at, packet in enumerate(data):
        ends, found = tools.endpoints(packet), tools.layers(packet)
        if ends is None or found is None or found.protocol != 6:
            yield packet
            continue
        place = found.transport + 8
        if at < first:
            last[ends] = packet.data[place : place + 4]
            yield packet
        else:
            kept = last.get(ends, packet.data[place : place + 4])
            changed = packet.data[:place] + kept + packet.data[place + 4 :]
            yield Packet(packet.time_ns, changed, packet.length, packet.link)
