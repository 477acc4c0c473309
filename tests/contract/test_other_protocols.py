"""Traffic that is seen and not judged is named in coverage, and never passes for a clean NFSv4."""

from __future__ import annotations

import os
import random
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.core.errors import NothingToCheckError
from analyzer.core.finding import ExitCode
from analyzer.pipeline.capture import CaptureJob, analyse_capture
from tests import captures_tools as tools
from tests import crafting
from tests.captures_tools import Packet
from tests.contract.judged import KERNEL, judged, judged_twin
from tests.crafting import Conversation, call, compound, numbers, opaque, record, reply, results

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark isn't installed")

CEPH = Path(os.environ.get("CEPH_CAPTURE", ""))
PUTROOTFH = numbers(24)
GETATTR = numbers(9, 1, 1 << 3)


def v3_session() -> list[Packet]:
    """Portmapper over UDP, MOUNT, NFSv3 reads, and NLM locks as `nolock` isn't set."""
    rpcbind = [
        crafting.datagram(("10.0.0.7", 800), ("10.0.0.1", 111), call(1, 100000, 2, 3), crafting.START_NS),
        crafting.datagram(("10.0.0.1", 111), ("10.0.0.7", 800), reply(1), crafting.START_NS + 1000),
    ]
    mount = Conversation(server=("10.0.0.1", 20048), client=("10.0.0.7", 801))
    nfs = Conversation(time_ns=crafting.START_NS + 10**9)
    locks = Conversation(
        server=("10.0.0.1", 32768), client=("10.0.0.7", 802), time_ns=crafting.START_NS + 2 * 10**9
    )
    packets = [*rpcbind, *mount.open(), *mount.ask(call(2, 100005, 3, 1), reply(2)), *nfs.open()]
    for xid in range(10, 30):
        packets += nfs.ask(call(xid, 100003, 3, 6), reply(xid, numbers(0)))
    packets += locks.open()
    for xid, procedure in ((40, 2), (41, 2), (42, 4), (43, 1), (44, 5), (45, 22)):
        packets += locks.ask(call(xid, 100021, 4, procedure), reply(xid, opaque(b"c") + numbers(1)))
    packets += nfs.close()
    return packets


def test_nfs3_and_its_locks_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "v3.pcap"
    tools.write_pcap(path, v3_session())
    with pytest.raises(NothingToCheckError) as error:
        analyse_capture(CaptureJob((str(path),)))
    said = str(error.value)
    assert "no NFSv4 to judge in v3.pcap" in said and error.value.exit_code == ExitCode.NOTHING
    assert "20 NFSv2 or NFSv3 calls" in said
    assert "NLM lock calls (NFSv3): TEST 1, LOCK 2, UNLOCK 1, GRANTED 1, NM_LOCK 1" in said
    assert "1 MOUNT call" in said and "1 portmapper call" in said


def test_nfs3_beside_nfs4(tmp_path: Path) -> None:
    packets = list(tools.read(KERNEL))
    shift = packets[0].time_ns - crafting.START_NS
    older = [replace(packet, time_ns=packet.time_ns + shift) for packet in v3_session()]
    found = judged_twin(tmp_path, [*packets, *older])
    assert found.operations.num_rows == judged(KERNEL).operations.num_rows
    assert "20 NFSv2 or NFSv3 calls" in found.notes and "NLM lock calls" in found.notes
    assert not found.coverage.degraded and found.exit_code == ExitCode.CLEAN


def tls(conversation: Conversation, records: int = 20) -> list[Packet]:
    chance, packets = random.Random(3), list[Packet]()
    hello = struct.pack(">BHH", 22, 0x0301, 512) + chance.randbytes(512)
    packets += conversation.send(hello) + conversation.send(hello, to_server=False)
    for at in range(records):
        data = struct.pack(">BHH", 23, 0x0303, 300) + chance.randbytes(300)
        packets += conversation.send(data, to_server=at % 2 == 0)
    return packets


def test_tls(tmp_path: Path) -> None:
    conversation = Conversation(server=("10.0.0.1", 443))
    path = tmp_path / "tls.pcap"
    tools.write_pcap(path, [*conversation.open(), *tls(conversation), *conversation.close()])
    with pytest.raises(NothingToCheckError, match="1 connection carries TLS: seen, not judged"):
        analyse_capture(CaptureJob((str(path),)))


def test_rpc_with_tls(tmp_path: Path) -> None:
    """RFC 9289: a NULL call with AUTH_TLS, answered STARTTLS, then nothing but TLS."""
    conversation = Conversation()
    packets = [
        *conversation.open(),
        *conversation.ask(call(1, 100003, 4, 0, flavour=7), reply(1, verifier=b"STARTTLS", flavour=0)),
        *tls(conversation),
        *conversation.close(),
    ]
    found = judged_twin(tmp_path, packets)
    assert "1 connection carries RPC-with-TLS (xprtsec=tls): seen, not judged" in found.notes
    assert found.operations.num_rows == 0
    with pytest.raises(NothingToCheckError, match="RPC-with-TLS"):
        analyse_capture(CaptureJob((str(tmp_path / "twin.pcap"),)))


def gss(procedure: int, sequence: int, service: int, handle: bytes = b"ctx1") -> bytes:
    return numbers(1, procedure, sequence, service) + opaque(handle)


def test_krb5p(tmp_path: Path) -> None:
    """RFC 2203: privacy hides the COMPOUND; the RPC header and the service stay readable."""
    chance, conversation = random.Random(5), Conversation()
    packets = conversation.open()
    for xid in range(1, 31):
        secret = opaque(chance.randbytes(160))
        packets += conversation.ask(
            call(xid, 100003, 4, 1, secret, flavour=6, credential=gss(0, xid, 3)),
            reply(xid, opaque(chance.randbytes(120)), verifier=chance.randbytes(28), flavour=6),
        )
    path = tmp_path / "krb5p.pcap"
    tools.write_pcap(path, packets)
    found = judged(path)
    assert "30 RPC messages are encrypted by Kerberos (sec=krb5p): seen, not judged" in found.notes
    assert found.operations.num_rows == 0
    with pytest.raises(NothingToCheckError, match="sec=krb5p"):
        analyse_capture(CaptureJob((str(path),)))


def test_rpc_that_is_rejected(tmp_path: Path) -> None:
    """MSG_DENIED and accept errors are RPC's own: no operation took place."""
    conversation = Conversation()
    packets = conversation.open()
    body = compound(PUTROOTFH, GETATTR)
    packets += conversation.ask(call(1, 100003, 4, 1, body), numbers(1, 1, 1, 1, 5))
    packets += conversation.ask(call(2, 100003, 4, 1, body), numbers(2, 1, 0, 0, 0, 1))
    packets += conversation.ask(
        call(3, 100003, 4, 1, body), reply(3, results(numbers(24, 0), numbers(9, 10013), status=10013))
    )
    found = judged_twin(tmp_path, packets)
    rows = found.operations.select(["op", "status"]).to_pylist()
    assert [r["status"] for r in rows] == ["RPC_REJECTED", "RPC_REJECTED", "ok", "GRACE"]


def test_tunnels_and_unknown_links_are_named(tmp_path: Path) -> None:
    inner = next(iter(tools.read(KERNEL))).data
    packets = [
        crafting.datagram(("10.0.0.7", 5000), ("10.0.0.1", 4789), b"\x08\0\0\0\0\0\1\0" + inner, at)
        for at in range(crafting.START_NS, crafting.START_NS + 5)
    ]
    path = tmp_path / "vxlan.pcap"
    tools.write_pcap(path, packets)
    with pytest.raises(NothingToCheckError, match="5 frames are in VXLAN: not looked into"):
        analyse_capture(CaptureJob((str(path),)))
    tools.write_pcap(path, tools.read(KERNEL), link=105)  # IEEE 802.11
    with pytest.raises(NothingToCheckError, match="3,591 frames of link type 105, which is not supported"):
        analyse_capture(CaptureJob((str(path),)))


@pytest.mark.parametrize("banner", [b"ceph v027", b"ceph v2\n\x10\0"], ids=["messenger 1", "messenger 2"])
def test_ceph(banner: bytes, tmp_path: Path) -> None:
    conversation = Conversation(server=("10.0.0.1", 6789))
    packets = conversation.open()
    packets += conversation.send(banner + b"\0" * 100) + conversation.send(banner + b"\0" * 90, False)
    path = tmp_path / "ceph.pcap"
    tools.write_pcap(path, packets)
    with pytest.raises(NothingToCheckError, match="1 connection carries Ceph: seen, not judged"):
        analyse_capture(CaptureJob((str(path),)))


def test_large_records_in_many_segments(tmp_path: Path) -> None:
    """Messages run across segments; one lost segment costs its message and no more."""
    conversation = Conversation(step_ns=1000)
    packets = conversation.open()
    body = compound(PUTROOTFH, GETATTR, tag=b"t" * 900)
    calls = b"".join(record(call(xid, 100003, 4, 1, body)) for xid in range(1, 201))
    answer = results(numbers(24, 0), numbers(9, 0, 1, 1 << 3) + opaque(b"\0" * 8), tag=b"t" * 900)
    packets += conversation.send(calls)
    packets += conversation.send(b"".join(record(reply(x, answer)) for x in range(1, 201)), False)
    whole = judged_twin(tmp_path, packets)
    assert whole.operations.num_rows == 400 and not whole.coverage.degraded
    lossy = judged_twin(tmp_path, packets[:50] + packets[51:])
    assert lossy.operations.num_rows >= 350
    assert lossy.coverage.gaps and lossy.coverage.degraded
