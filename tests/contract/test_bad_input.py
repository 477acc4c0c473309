"""Input that is no use: each case gets its sentence and exit code, never a traceback, a hang, a "clean"."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import stat
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from analyzer import cli
from analyzer.wire import shard
from tests import captures_tools as tools
from tests.contract.judged import GANESHA, KERNEL, judged

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark isn't installed")

RAW = GANESHA.read_bytes()
NEXT_GENERATION = KERNEL.read_bytes()
CLEAN, FINDINGS, USAGE, NOTHING, UNKNOWN = range(5)


def capture(*arguments: Path | str, stdin: bytes = b"") -> tuple[int, str]:
    """Exit code, and what was said on both streams with the breaks of lines undone."""
    result = CliRunner().invoke(
        cli.app, ["capture", *map(str, arguments)], input=stdin, prog_name="storage-analyzer"
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code in {USAGE, NOTHING}:
        assert result.stderr.count("\n") == 1 and result.stderr.startswith("storage-analyzer: ")
    return result.exit_code, " ".join((result.stdout + " " + result.stderr).split())


def made(folder: Path, content: bytes, name: str = "made.pcap") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


# --- no capture --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "code", "sentence"),
    [
        (b"", USAGE, "the file is empty"),
        (b"hello, world\n" * 9, USAGE, "not a pcap or pcapng file"),
        (random.Random(1).randbytes(4000), USAGE, "not a pcap or pcapng file"),
        (RAW[:24], NOTHING, "no packet in the capture"),
        (RAW[:4], NOTHING, "cut off before the first one"),
        (RAW[:23], NOTHING, "cut off before the first one"),
        (RAW[:60], NOTHING, "cut off before the first one"),
        (RAW[:24] + b"\xff" * 400, USAGE, "makes no sense from byte 24 on, before any packet"),
        (NEXT_GENERATION[:4], NOTHING, "cut off before the first one"),
        (NEXT_GENERATION[:100], NOTHING, "cut off before the first one"),
        (NEXT_GENERATION[:8] + b"\0" * 400, USAGE, "makes no sense from byte"),
        (gzip.compress(b"hello " * 50, mtime=0), USAGE, "inside it is not a pcap or pcapng file"),
        (gzip.compress(RAW, mtime=0)[:9], USAGE, "the gzip stream ends early or is damaged"),
        (gzip.compress(b"", mtime=0), USAGE, "the file is empty"),
    ],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else str(value)[:20],
)
def test_what_is_no_capture(content: bytes, code: int, sentence: str, tmp_path: Path) -> None:
    found, said = capture(made(tmp_path, content))
    assert (found, sentence in said) == (code, True), said
    found, said = capture("-", stdin=content)
    assert (found, sentence in said) == (code, True), said
    assert "stdin" in said and str(tmp_path) not in said


def test_what_is_no_file(tmp_path: Path) -> None:
    assert capture(tmp_path / "missing.pcap") == (
        USAGE,
        f"storage-analyzer: {tmp_path / 'missing.pcap'}: no such file",
    )
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert capture(tmp_path / "link")[0] == USAGE
    os.mkfifo(tmp_path / "pipe")
    code, said = capture(tmp_path / "pipe")
    assert code == USAGE and "use - for standard input" in said
    code, said = capture("/dev/null")
    assert code == USAGE and "not a regular file" in said


def test_folders(tmp_path: Path) -> None:
    assert capture(tmp_path)[0] == NOTHING
    made(tmp_path, b"a text", "notes.txt")
    made(tmp_path, b"", "empty.pcap")
    (tmp_path / "below").mkdir()
    os.mkfifo(tmp_path / "pipe")
    code, said = capture(tmp_path)
    assert code == NOTHING and "no capture file in this folder" in said
    made(tmp_path, RAW, "good.pcap")
    assert capture(tmp_path)[0] == FINDINGS


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = made(tmp_path, RAW)
    path.chmod(0)
    code, said = capture(path)
    assert code == USAGE and "cannot be read: Permission denied" in said


# --- cut and damaged ---------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [RAW, NEXT_GENERATION], ids=["pcap", "pcapng"])
def test_cut_anywhere_in_a_packet(whole: bytes, tmp_path: Path) -> None:
    chance = random.Random(4)
    for _ in range(12):
        at = chance.randrange(2000, len(whole))
        path = made(tmp_path, whole[:at])
        found = judged(path)
        assert f"made.pcap ends in the middle of a packet, at byte {_boundary(whole, at)}" in found.notes
        assert found.coverage.degraded and not found.coverage.severe


def _boundary(whole: bytes, at: int) -> int:
    """Where the record begins into which byte `at` falls."""
    pcap = whole[:4] == b"\xd4\xc3\xb2\xa1"
    place = following = 24 if pcap else 0
    while following <= at:
        place = following
        size = struct.unpack_from("<I", whole, place + (8 if pcap else 4))[0]
        following = place + size + (16 if pcap else 0)
    return place


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_compressed_stream_that_ends_early_gives_what_it_holds(kind: str, tmp_path: Path) -> None:
    packed = pa.compress(RAW, codec=kind, asbytes=True)
    found = judged(made(tmp_path, packed[: len(packed) * 9 // 10], "half.pcap.x"))
    assert f"half.pcap.x: the {kind} stream ends early or is damaged" in found.notes
    assert found.operations.num_rows > 150 and found.coverage.degraded
    assert capture(made(tmp_path, packed))[0] == FINDINGS


def test_several_streams_in_one_file_are_one_capture(tmp_path: Path) -> None:
    joined = gzip.compress(RAW[:700_001]) + gzip.compress(RAW[700_001:])
    found = judged(made(tmp_path, joined))
    assert found.operations.num_rows == 603 and not found.coverage.degraded


def test_damage_in_the_middle_keeps_what_came_before(tmp_path: Path) -> None:
    at = _boundary(RAW, 1_000_000)
    found = judged(made(tmp_path, RAW[:at] + b"\xff" * 4000 + RAW[at + 4000 :]))
    assert f"makes no sense from byte {at} on; the rest was not read" in found.notes
    assert found.operations.num_rows > 200 and found.coverage.degraded


# --- options -----------------------------------------------------------------------------------------


def test_times_and_clients_that_leave_nothing(tmp_path: Path) -> None:
    code, said = capture(GANESHA, "--since", "+1000")
    assert code == NOTHING and "no frame is in the chosen time" in said
    code, said = capture(GANESHA, "--client", "192.0.2.1")
    assert code == USAGE and "no such client. Seen: 127.0.0.1" in said
    code, said = capture(GANESHA, "--until", "noon")
    assert code == USAGE and "'noon' is no time" in said
    code, said = capture(GANESHA, "--until", "1")  # 1970
    assert code == NOTHING and "no frame is in the chosen time" in said
    code, said = capture(GANESHA, "--since", "+9", "--until", "+8")
    assert code == USAGE and "--until lies before --since" in said


def test_a_later_beginning_is_a_beginning_in_the_middle() -> None:
    code, said = capture(GANESHA, "--since", "+5")
    assert code == FINDINGS and "begins mid-connection" in said


# --- tshark ------------------------------------------------------------------------------------------


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program called tshark that is found first."""
    path = folder / "bin" / "tshark"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


VERSION = 'case "$1" in --version) echo "TShark (Wireshark) 4.2.1 (Git)"; exit 0;; esac'


def test_no_tshark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, said = capture(GANESHA)
    assert code == USAGE and "tshark is not installed. Install it with: apt-get install tshark" in said


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ('echo "TShark (Wireshark) 3.6.2 (Git v3.6.2)"', "tshark 3.6 is too old, 4.0 is needed. Install"),
        ("echo hello", "does not say its version"),
        ("exit 1", "does not say its version"),
        (f"{VERSION}; echo 'tshark: the moon is in the wrong house' >&2; exit 2", "tshark failed: "),
    ],
)
def test_a_tshark_that_is_no_use(
    script: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, script)
    code, said = capture(GANESHA)
    assert code == USAGE and sentence in said


def test_a_tshark_that_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "")
    (tmp_path / "bin" / "tshark").write_bytes(b"\x7fELF, or so it seems")
    code, said = capture(GANESHA)
    assert code == USAGE and "does not start" in said


def test_a_tshark_that_dies_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("tshark")
    fake(tmp_path, monkeypatch, f'{VERSION}\n{real} "$@" | head -n 150\nkill -9 $$')
    code, said = capture(GANESHA, "--fail-on", "critical")
    assert code == UNKNOWN
    assert "tshark was ended by signal 9 after 150 of" in said


def test_a_tshark_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "SILENCE_SECONDS", 0.5)
    fake(tmp_path, monkeypatch, f"{VERSION}\nexec sleep 600")
    code, said = capture(GANESHA)
    assert code in (USAGE, UNKNOWN)
    assert "tshark" in said


def test_a_tshark_that_talks_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rubbish = "cat > /dev/null; head -c 200000 /dev/urandom; printf '\\t\\t1\\t,,\\n999999999\\t0\\n'"
    fake(tmp_path, monkeypatch, f"{VERSION}\n{rubbish}")
    code, _ = capture(GANESHA)
    assert code in (USAGE, UNKNOWN)


# --- not NFS -----------------------------------------------------------------------------------------


def test_another_protocol_is_nothing_to_check(tmp_path: Path) -> None:
    packets = []
    for packet in tools.read(GANESHA):
        payload = tools.tcp_payload(packet)
        web = (b"GET /index.html HTTP/1.1\r\nHost: files\r\n\r\n" * len(payload))[: len(payload)]
        head = packet.data[: len(packet.data) - len(payload)]
        packets.append(tools.Packet(packet.time_ns, head + web, packet.length, packet.link))
    path = tmp_path / "web.pcap"
    tools.write_pcap(path, packets)
    code, said = capture(path)
    assert code == NOTHING and "no NFSv4 to judge in web.pcap: 512 frames; no RPC connection" in said
