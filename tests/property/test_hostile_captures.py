"""Fuzzing for a bounded time: whatever a file holds, the tool ends soon, in bounds, and without a crash.

Bytes are mutated where the readers see them first (thousands of examples, no tshark), tshark's lines
where they are decoded, and whole captures with everything behind them. Seeds are fixed: a failure comes
again, and its number tells how to make the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from analyzer.core.errors import AnalyzerError, InputError
from analyzer.pipeline.capture import CaptureJob, analyse_capture
from analyzer.report.format import formats
from analyzer.wire import capture as wire_capture
from analyzer.wire.capture import CaptureOptions
from analyzer.wire.decode import Decoder
from analyzer.wire.frame_index import FrameIndex, FrameMeta
from analyzer.wire.packets import ReadState, read_frames
from analyzer.wire.resync import next_record
from analyzer.wire.survey import Survey
from analyzer.wire.tshark import Order, bulk_command, find_tshark
from tests import captures_tools as tools
from tests import crafting
from tests.captures_tools import Packet
from tests.contract.judged import CAPTURES, GANESHA, KERNEL, PYNFS, judged, rows

ROOT: Final = Path(__file__).parents[2]
SMALL: Final = [
    CAPTURES / f"kernel-{name}.pcap"
    for name in ("deadlock", "lost-lock-zombie", "restart-reclaim", "delegation-recall")
]
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark isn't installed")
#: Whole runs that are made; each takes about a third of a second.
RUNS: Final = 90
SECONDS: Final = 40.0


@cache
def packets(path: Path) -> tuple[Packet, ...]:
    return tuple(tools.read(path))


# --- the readers: any bytes ------------------------------------------------------------------------


def surveyed(path: Path, folder: Path) -> None:
    """Everything that is done with a file before tshark is asked."""
    state, survey = ReadState(), Survey()
    index = FrameIndex(folder / "index", (str(path),))
    with index.path.open("wb") as out:
        for frames in read_frames(path, state):
            assert (frames.captured >= 0).all() and (
                frames.start + frames.captured <= len(frames.data)
            ).all()
            assert (frames.length >= frames.captured).all()
            index.add(out, 0, frames, survey.feed(frames))
    survey.finish()
    assert survey.frames == state.frames == index.rows
    members = np.ones(len(survey.connections), dtype=bool)
    jumps = survey.jumps(survey.connections, since=False)
    fed = [meta for _, meta in index.packets(members, True, None, None, True, jumps)]
    assert sum(map(len, fed)) <= index.rows


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with bytes changed, cut out, doubled or put in."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        size = draw(st.sampled_from([1, 4, 16, 100]))
        how = draw(st.integers(0, 3))
        if how == 0:
            data[at : at + 4] = draw(
                st.sampled_from([b"\xff" * 4, b"\0" * 4, b"\0\0\0\x80", b"\x01\0\0\0"])
            )
        elif how == 1:
            del data[at : at + size]
        elif how == 2:
            data[at:at] = data[at : at + size]
        else:
            data[at:at] = draw(st.binary(max_size=64))
    return bytes(data)


def _head(path: Path, count: int, write: Callable[[Path, list[Packet]], Any], folder: Path) -> bytes:
    target = folder / "head"
    write(target, list(packets(path)[:count]))
    return target.read_bytes()


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("heads")
    return [
        _head(GANESHA, 40, tools.write_pcap, folder),
        _head(KERNEL, 40, lambda p, q: tools.write_pcap(p, q, order=">", nanoseconds=True), folder),
        _head(KERNEL, 40, tools.write_pcapng, folder),
        _head(PYNFS, 40, lambda p, q: tools.write_pcapng(p, q, order=">", tsresol=0x8A), folder),
        _head(KERNEL, 30, lambda p, q: tools.write_pcap(p, tools.as_ipv6(q)), folder),
    ]


@settings(
    max_examples=10000,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(data=st.data())
def test_readers_survive_any_bytes(
    data: st.DataObject, heads: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "fuzzed"
    path.write_bytes(data.draw(damaged(data.draw(st.sampled_from(heads)))))
    with contextlib.suppress(InputError):
        surveyed(path, folder)


@settings(max_examples=1000, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=3000))
@example(b"\x80\0\0\x28" * 400)
def test_the_search_for_a_record_ends(payload: bytes) -> None:
    assert -1 <= next_record(payload) < max(1, len(payload))


@pytest.mark.parametrize(
    ("size", "sentence"),
    [(0, "makes no sense"), (13, "makes no sense"), (0xFFFFFFFC, "makes no sense"), (0x7FFFFFFC, "sense")],
)
def test_lengths_of_blocks(size: int, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "blocks.pcapng"
    tools.write_pcapng(path, packets(KERNEL)[:5])
    data = path.read_bytes() + struct.pack("<II", 6, size) + b"\0" * 4000
    path.write_bytes(data)
    state = ReadState()
    assert sum(map(len, read_frames(path, state))) == 5
    assert state.damaged_at == len(data) - 4008, sentence


@pytest.mark.parametrize("seconds", [0, 7_258_118_400, (1 << 62) // 10**9, (1 << 63) // 10**9, 1 << 60])
def test_one_absurd_time_does_not_move_the_rest(seconds: int, tmp_path: Path) -> None:
    """1970, the year 2200, and what 64 bits can't hold."""
    some = list(packets(KERNEL)[:200])
    some[100] = Packet(seconds * 10**9, some[100].data, some[100].length, some[100].link)
    path = tmp_path / "times.pcapng"
    tools.write_pcapng(path, some, tsresol=0)
    state, times = ReadState(), list[int]()
    for frames in read_frames(path, state):
        times += frames.time_ns.tolist()
    assert max(times) - min(times) < 200 * 10**9
    assert state.odd_times == 1 or state.damaged_at is not None


# --- tshark's lines --------------------------------------------------------------------------------


@cache
def lines() -> tuple[bytes, ...]:
    """What tshark prints for some frames of three captures."""
    found: list[bytes] = []
    for path in (GANESHA, KERNEL, PYNFS):
        part = ROOT / "tests"  # any folder that exists: nothing is written there
        raw = path.read_bytes()
        command = bulk_command(find_tshark(), Order.CLEAN)
        done = subprocess.run(command, input=raw, capture_output=True, check=False, timeout=120, cwd=part)
        found += done.stdout.splitlines()[:400]
    return tuple(found)


def _meta(count: int) -> FrameMeta:
    zeros = np.zeros(count, dtype=np.int64)
    each = np.arange(count, dtype=np.int64)
    return FrameMeta(each, zeros, each + 1, each * 1000, each % 3, each % 2, each % 7 == 0)


_CELLS: Final = st.sampled_from(
    [
        *(b"", b"0", b"1", b"-1", b"4294967295", b"18446744073709551615", b"99999999999999999999999"),
        *(b"0x", b",", b"53,22,38", b"53,,22", b"True", b"abc", b"\xff\xfe", "…".encode(), b"1," * 900),
        b"0,0,0,10010",
    ]
)


@needs_tshark
@settings(max_examples=600, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_the_decoder_survives_any_line(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(lines()), min_size=1, max_size=30))
    table = []
    for number, line in enumerate(chosen, 1):
        cells = line.split(b"\t")
        cells[0] = str(number).encode()
        for _ in range(data.draw(st.integers(0, 3))):
            cells[data.draw(st.integers(0, len(cells) - 1))] = data.draw(_CELLS)
        table.append(b"\t".join(cells[: len(cells) - data.draw(st.sampled_from([0, 0, 0, 1]))]))
    decoder = Decoder(("file",))
    found = [*decoder.feed(b"\n".join(table) + b"\n", _meta(len(table)), 0), *decoder.finish()]
    assert sum(batch.num_rows for batch in found) < 2000


# --- whole runs ------------------------------------------------------------------------------------


def _flipped(some: list[Packet], chance: random.Random) -> Iterator[Packet]:
    return tools.flipped(
        some, chance.choice([1, 10, 50]), chance.randrange(99), chance.choice([0, 14, 34, 66])
    )


def _noise(some: list[Packet], chance: random.Random) -> Iterator[Packet]:
    for p in some:
        noise = bytes(b ^ (chance.getrandbits(8) if chance.random() < 0.02 else 0) for b in p.data)
        yield Packet(p.time_ns, noise, p.length, p.link)


def _spliced(some: list[Packet], chance: random.Random) -> Iterator[Packet]:
    other = packets(chance.choice(SMALL))
    for pair in zip(some, other, strict=False):
        yield chance.choice(pair)


def _times(some: list[Packet], chance: random.Random) -> Iterator[Packet]:
    for p in some:
        at = chance.choice([p.time_ns, p.time_ns, 0, 1 << 31, ((1 << 32) - 1) * 10**9, p.time_ns - 10**12])
        yield Packet(at, p.data, p.length, p.link)


def _numbers(some: list[Packet], chance: random.Random) -> Iterator[Packet]:
    """Counts and lengths of four billion, of nothing, of one."""
    for p in some:
        data = bytearray(p.data)
        if len(data) > 100 and chance.random() < 0.2:
            at = chance.randrange(66, len(data) - 4)
            data[at : at + 4] = chance.choice([b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\0\0\0\1"])
        yield Packet(p.time_ns, bytes(data), p.length, p.link)


def _truncated(some: list[Packet], chance: random.Random) -> Iterator[Packet]:
    for p in some:
        size = chance.randrange(len(p.data) + 1) if chance.random() < 0.3 else len(p.data)
        yield Packet(p.time_ns, p.data[:size], p.length, p.link)


def _blanked(some: list[Packet], chance: random.Random) -> Iterator[Packet]:
    for p in some:
        blank = len(p.data) > 66 and chance.random() < 0.2
        yield Packet(
            p.time_ns, p.data[:66] + bytes(len(p.data) - 66) if blank else p.data, p.length, p.link
        )


MUTATIONS: Final[list[Callable[[list[Packet], random.Random], Iterator[Packet]]]] = [
    _flipped, _noise, _spliced, _times, _numbers, _truncated, _blanked,
    lambda some, chance: tools.reordered(some, chance.choice([2, 5, 50, 500]), chance.randrange(99)),
    lambda some, chance: tools.duplicated(some, chance.choice([5, 50, 100]), chance.randrange(99)),
    lambda some, chance: tools.lost(some, chance.choice([1, 5, 30, 70]), chance.randrange(99)),
    lambda some, _chance: iter(some),
]  # fmt: skip


def mutated(seed: int, folder: Path) -> Path:
    """The file of one seed."""
    chance = random.Random(seed)
    some = list(chance.choice(MUTATIONS)(list(packets(chance.choice(SMALL))), chance))
    path = folder / f"seed-{seed}"
    if chance.random() < 0.4:
        try:
            tools.write_pcapng(path, some, tsresol=chance.choice([9, 6, 0, 0x80, 0x80 + 40]))
        except struct.error:  # the time doesn't fit
            tools.write_pcapng(path, some)
    else:
        tools.write_pcap(path, some, link=chance.choice([1] * 9 + [0, 101]))
    raw = bytearray(path.read_bytes())
    for _ in range(chance.choice([0, 0, 1, 5, 30])):
        raw[chance.randrange(len(raw))] = chance.getrandbits(8)
    path.write_bytes(raw)
    return path


@needs_tshark
def test_whole_runs_survive_mutated_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: said.append(repr(args.exc_value)))
    monkeypatch.setattr(sys, "unraisablehook", lambda args: said.append(repr(args.exc_value)))
    began, longest = time.monotonic(), 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(RUNS):
            start = time.monotonic()
            if start - began > SECONDS:
                break
            path = mutated(seed, tmp_path)
            with contextlib.suppress(AnalyzerError):
                view = analyse_capture(CaptureJob((str(path),))).view
                for form in formats().values():
                    assert form.render(view), seed
                assert not [j for j in view.judgements if "rule failed" in j.reason], seed
            assert not said, (seed, said)
            path.unlink()
            longest = max(longest, time.monotonic() - start)
    assert longest < 30


# --- floods ----------------------------------------------------------------------------------------

_MEASURED: Final = """
import resource, sys
from analyzer import cli
try:
    cli.main()
finally:
    print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def measured(path: Path) -> tuple[int, int, str]:
    """Exit code, peak memory of our process in MiB, and what was said."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, "capture", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert "Traceback" not in done.stderr, done.stderr
    peak = int(done.stderr.rsplit("peak ", 1)[1])
    return done.returncode, peak // 1024, done.stdout + done.stderr


@needs_tshark
def test_a_flood_of_connections_is_bounded(tmp_path: Path) -> None:
    """10,000 SYNs from everywhere beside real traffic, and 10,000 connections that carry one call."""
    chance = random.Random(2)
    flood = []
    for number in range(10_000):
        host = f"172.{16 + number % 16}.{chance.randrange(256)}.{chance.randrange(1, 255)}"
        one = crafting.Conversation(client=(host, 1024 + number), server=("10.99.0.1", 2049))
        flood += one.open()[:1]
    body = crafting.compound(crafting.numbers(24), crafting.numbers(10))
    for number in range(10_000):
        host = f"10.{number % 200}.{number // 200 % 256}.7"
        one = crafting.Conversation(client=(host, 700), server=("10.99.0.1", 2049))
        flood += one.open() + one.send(crafting.record(crafting.call(number, 100003, 4, 1, body)))
    path = tmp_path / "flood.pcap"
    tools.write_pcap(path, [*packets(KERNEL), *flood])
    base, flooded = measured(KERNEL), measured(path)
    assert flooded[0] in (0, 1, 4)
    assert flooded[1] < base[1] + 200


@needs_tshark
def test_connections_that_begin_again_and_again_are_bounded(tmp_path: Path) -> None:
    one = crafting.Conversation()
    again = [packet for _ in range(20_000) for packet in one.open()[:1]]
    path = tmp_path / "again.pcap"
    tools.write_pcap(path, [*packets(KERNEL), *again])
    survey = Survey()
    for frames in read_frames(path, ReadState()):
        survey.feed(frames)
    assert len(survey.tracker.directions) <= 6
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0


# --- the same again --------------------------------------------------------------------------------


def reports(files: list[Path], folder: Path) -> tuple[bytes, bytes]:
    """The JSON and the HTML of a run."""
    analyse_capture(CaptureJob(tuple(map(str, files)), output=folder))
    json.loads((folder / "report.json").read_bytes())
    return (folder / "report.json").read_bytes(), (folder / "report.html").read_bytes()


@needs_tshark
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of processes, and in whatever order the files of a ring are named."""
    some = list(tools.lost(packets(KERNEL), 0.2, seed=1)) + list(
        tools.copies(packets(SMALL[0]), 3, gap_ns=10**9)
    )
    some.sort(key=lambda packet: packet.time_ns)
    files = [tmp_path / f"ring-{number}.pcap" for number in range(3)]
    size = len(some) // 3 + 1
    for number, path in enumerate(files):
        tools.write_pcap(path, some[number * size : (number + 1) * size], nanoseconds=True)
    first = reports(files, tmp_path / "first")
    assert reports(files, tmp_path / "second") == first
    assert reports(files[::-1], tmp_path / "third") == first
    monkeypatch.setattr(wire_capture, "SMALL_FRAMES", 0)
    assert reports([files[1], files[2], files[0]], tmp_path / "fourth") == first


@needs_tshark
@pytest.mark.parametrize("path", [GANESHA, KERNEL, PYNFS], ids=["ganesha", "kernel", "pynfs"])
def test_the_number_of_workers_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = judged(path, workers=1)
    monkeypatch.setattr(wire_capture, "SMALL_FRAMES", 0)
    assert CaptureOptions().workers == 0
    for workers in (2, 3):
        shared = judged(path, workers=workers)
        assert rows(shared.operations, ["compound"]) == rows(alone.operations, ["compound"])
        assert shared.outcome == alone.outcome and shared.coverage == alone.coverage
