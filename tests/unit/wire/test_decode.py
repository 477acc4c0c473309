"""Lines of tshark → operations: replies joined to calls, what can't be read, what is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from analyzer.wire import columns, decode
from analyzer.wire.decode import Decoder
from analyzer.wire.frame_index import FrameMeta

#: PUTROOTFH, GETFH
CALL = {"types": "0", "fragment": "72", "counts": "2", "ops": "24,10", "minor": "1"}
REPLY = {"types": "1", "fragment": "68", "counts": "2", "ops": "24,10", "status": "0,0,0",
         "handles": "01000100,0x6f976994"}  # fmt: skip


def call(xid: int, up: int = 0, connection: int = 0, **cells: str) -> dict[str, Any]:
    return CALL | {"xid": str(xid), "up": up, "connection": connection} | cells


def reply(xid: int, up: int = 1, connection: int = 0, **cells: str) -> dict[str, Any]:
    return REPLY | {"xid": str(xid), "up": up, "connection": connection} | cells


def fed(
    *blocks: list[dict[str, Any]], decoder: Decoder | None = None
) -> tuple[list[dict[str, Any]], Decoder]:
    """Operations of some blocks of frames, and the decoder; frame n comes at n microseconds."""
    decoder = decoder or Decoder(("a.pcap",))
    found, before = list[pa.RecordBatch](), 0
    for block in blocks:
        count = len(block)
        row = np.arange(before, before + count, dtype=np.int64)
        lines = []
        for number, frame in enumerate(block, before + 1):
            cells = {"number": str(number), **frame}
            lines.append("\t".join(cells.get(name, "") for name in columns.COLUMNS))
        meta = FrameMeta(
            row, np.zeros(count, dtype=np.int64), row + 1, (row + 1) * 1000,
            np.array([f.get("connection", 0) for f in block], dtype=np.int64),
            np.array([f.get("up", 0) for f in block], dtype=np.int64),
            np.array([f.get("cut", False) for f in block], dtype=bool),
        )  # fmt: skip
        found += decoder.feed(("\n".join(lines) + "\n").encode(), meta, before)
        before += count
    found += decoder.finish()
    names = ["op", "xid", "status", "outcome", "start_lo", "end_lo", "attempts", "at_call", "at_return"]
    return [row for batch in found for row in batch.select(names).to_pylist()], decoder


def test_a_call_and_its_reply() -> None:
    rows, decoder = fed([call(7), reply(7)])
    assert [(r["op"], r["status"], r["outcome"]) for r in rows] == [
        ("PUTROOTFH", "ok", "ok"),
        ("GETFH", "ok", "ok"),
    ]
    assert {(r["start_lo"], r["end_lo"], r["at_call"], r["at_return"]) for r in rows} == {
        (1000, 2000, "a.pcap#1", "a.pcap#2")
    }
    counts = decoder.counts
    assert (counts.rpc_messages, counts.messages, counts.compounds) == (2, {0: 2}, 2)
    assert counts.decoded_bytes == {0: 76, 1: 72}


def test_a_reply_belongs_to_its_connection_and_direction() -> None:
    rows, decoder = fed(
        [call(7), call(7, connection=1), call(7, up=1), reply(7, connection=1), reply(7), reply(7, up=0)]
    )
    assert [(r["at_call"][-1], r["at_return"][-1]) for r in rows[::2]] == [
        ("2", "4"),
        ("1", "5"),
        ("3", "6"),
    ]
    assert not decoder.counts.unmatched


def test_a_reply_in_a_later_block() -> None:
    rows, _ = fed([call(7), call(8)], [reply(8), call(9)], [reply(7), reply(9)])
    assert [r["xid"] for r in rows[::2]] == [8, 7, 9]


def test_a_call_that_is_sent_again() -> None:
    rows, decoder = fed([call(7), call(7), call(7)], [reply(7), call(7), reply(7)])
    assert [(r["attempts"], r["start_lo"], r["end_lo"]) for r in rows] == [(3, 1000, 4000)] * 2
    assert decoder.counts.sent_again == 3 and not decoder.counts.unmatched


def test_a_reply_without_its_call_and_a_call_without_its_reply() -> None:
    rows, decoder = fed([reply(7), call(8)])
    assert [(r["xid"], r["outcome"], r["end_lo"], r["status"]) for r in rows] == [
        (8, "info", None, None)
    ] * 2
    assert decoder.counts.unmatched == {0: 1} and decoder.counts.unanswered == 1
    assert decoder.counts.waiting_at == {0: [2000]}


def test_a_reply_that_failed_ends_with_the_failing_operation() -> None:
    failed = REPLY | {"counts": "1", "ops": "24", "status": "10013,10013", "handles": ""}
    rows, _ = fed([call(7), {**failed, "xid": "7", "up": 1}])
    assert [(r["op"], r["status"], r["outcome"]) for r in rows] == [("PUTROOTFH", "GRACE", "fail")]


def test_two_messages_in_a_frame() -> None:
    both = call(7, types="0,0", counts="2,2", ops="24,10,24,10", minor="1,2", fragment="72,72")
    rows, decoder = fed([both | {"xid": "7,8"}, reply(8), reply(7)])
    assert [r["xid"] for r in rows] == [8, 8, 7, 7] and decoder.counts.rpc_messages == 4


def test_what_does_not_add_up_is_unread_with_its_time() -> None:
    odd = call(7, handles="01,0x1,02,0x2")  # two handles, and no operation that has one
    rows, decoder = fed([call(6), odd, reply(6), reply(7)])
    assert [r["xid"] for r in rows] == [6, 6]
    counts = decoder.counts
    assert (counts.undecoded, counts.unread, counts.unread_at) == (1, {0: 1}, {0: [2000]})
    assert counts.unmatched == {0: 1}


def test_a_truncated_message_without_operations_is_unread() -> None:
    bare = {"types": "0", "xid": "7", "fragment": "300"}
    _, decoder = fed([bare | {"cut": True}, bare | {"xid": "8"}])
    assert decoder.counts.unread == {0: 1} and decoder.counts.undecoded == 0


def test_lines_that_are_no_lines_leave_a_gap_and_no_shift() -> None:
    decoder = Decoder(("a.pcap",))
    lines = ["\t".join({"number": n, **f}.get(c, "") for c in columns.COLUMNS)
             for n, f in (("1", call(7)), ("3", reply(7)))]  # fmt: skip
    text = f"{lines[0]}\nnonsense\n{lines[1]}\n".encode()
    row = np.arange(3, dtype=np.int64)
    zeros = np.zeros(3, dtype=np.int64)
    meta = FrameMeta(row, zeros, row + 1, row * 1000, zeros, np.array([0, 0, 1]), zeros.astype(bool))
    (batch,) = decoder.feed(text, meta, 0)
    assert batch.column("at_return").to_pylist() == ["a.pcap#3"] * 2
    assert decoder.counts.broken_lines == 1


def test_calls_that_wait_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(decode, "MAX_PENDING", 10)
    rows, decoder = fed([call(n) for n in range(30)], [reply(n) for n in range(30)])
    assert len(rows) == 20 and decoder.counts.given_up == 20
    assert decoder.counts.unmatched == {0: 20}
