from __future__ import annotations

import struct
from pathlib import Path

import pytest

CAPTURE = Path(__file__).parents[2] / "captures" / "nfs41-ganesha-locks-restart-port20490.pcap"


@pytest.fixture
def coalesced(tmp_path: Path) -> Path:
    """The ganesha capture with client A's LOCK (frame 36) and LOCKU (frame 53) in one segment."""
    octets = CAPTURE.read_bytes()
    records, at = [], 24
    while at < len(octets):
        _, _, size, _ = struct.unpack_from("<IIII", octets, at)
        records.append((octets[at : at + 8], bytearray(octets[at + 16 : at + 16 + size])))
        at += 16 + size
    first, second = records[35][1], records[52][1]
    ip_header, tcp_header = (second[14] & 15) * 4, (second[46] >> 4) * 4
    first += second[14 + ip_header + tcp_header :]
    struct.pack_into(">H", first, 16, len(first) - 14)
    del records[52]
    target = tmp_path / "coalesced.pcap"
    with target.open("wb") as out:
        out.write(octets[:24])
        for times, packet in records:
            out.write(times + struct.pack("<II", len(packet), len(packet)) + packet)
    return target
