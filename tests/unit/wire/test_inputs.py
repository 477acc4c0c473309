"""Which files of a folder are captures, and which only say so."""

from pathlib import Path

from analyzer.wire.inputs import resolve
from tests.captures_tools import Packet, write_pcap


def test_a_file_that_is_only_called_a_capture_is_named(tmp_path: Path) -> None:
    ring, scratch = tmp_path / "ring", tmp_path / "scratch"
    ring.mkdir()
    scratch.mkdir()
    write_pcap(ring / "ring_1.pcap", [Packet(1_000, b"\0" * 60, 60)])
    (ring / "ring_2.pcap").write_bytes(b"no capture")
    (ring / "ring_3.pcap").write_bytes(b"")  # the recorder has just begun it
    (ring / "notes.txt").write_text("no capture")
    skipped: list[str] = []
    found = resolve([str(ring)], scratch, skipped=skipped)
    assert [f.name for f in found] == ["ring_1.pcap"]
    assert skipped == ["ring_2.pcap"]
