"""Metadata seconds, directories, I/O sizes, unanswered and resent calls, refused writes, stalls."""

from __future__ import annotations

import pytest

from analyzer.analysis import metadata, rpc, small_io, stalls, write_failures
from tests.unit.analysis.folding import fold

NS = 1_000_000_000
MS = 1_000_000


@pytest.mark.parametrize("places", [[], [100], [1, 299, 420]])
def test_a_second_full_of_metadata(places: list[int]) -> None:
    lines = [f"5.{i:03d}..5.{i:03d}5 {'AAB'[i % 3]} getattr f{i}" for i in range(300)]
    lines += [f"5.{i:03d}..5.{i:03d}5 B read g" for i in range(400, 500)]
    lines += [f"6.{i:03d}..6.{i:03d}5 B getattr g" for i in range(100)]
    (row,) = fold(metadata.FOLD, "\n".join(lines), metadata.MetadataSecond, places)
    assert (row.start_ns, row.calls, row.metadata, row.clients) == (5 * NS, 400, 300, 2)
    assert (row.top_client, row.top_client_calls) == ("A", 200)
    assert (row.top_op, row.top_op_calls) == ("GETATTR", 300)
    assert (row.at_first, row.at_last) == ("example#2", "example#600")


def test_small_files_of_a_directory() -> None:
    lines = []
    for i in range(60):
        lines.append(f"{i}.0..{i}.004 A open data/{i}")
        lines.append(f"{i}.1..{i}.101 A read data/{i} 0+4096 bytes=1000")
        lines.append(f"{i}.2..{i}.201 A close data/{i}")
    lines.append("0.5..0.6 A open other/1")
    (row,) = fold(metadata.FOLD, "\n".join(lines), metadata.DirectoryUse)
    assert (row.directory, row.opens, row.files, row.closes, row.data_calls) == ("/data", 60, 60, 60, 60)
    assert (row.bytes, row.open_close_ns, row.data_ns) == (60_000, 300 * MS, 60 * MS)


def test_adjoining_writes_by_size() -> None:
    lines = [f"{i}.0..{i}.001 A write f {i * 1000}+1000 unstable" for i in range(10)]
    lines += [f"{i}.5..{i}.501 A write g {i * 9000}+1000 unstable" for i in range(10)]
    lines.append("20.0..20.001 A getattr f max_write=1048576")
    (row,) = fold(small_io.FOLD, "\n".join(lines), small_io.IoSizes)
    assert (row.kind, sum(row.sizes), row.sizes[9], row.limit_bytes) == ("write", 20, 20, 1 << 20)
    assert (row.adjoining[9], row.adjoining_bytes[9], row.adjoining_ns[9]) == (9, 9000, 9 * MS)
    assert (row.path, row.first_ns, row.last_ns) == ("/f", 1001 * MS, 9001 * MS)


def test_unanswered_and_resent_calls() -> None:
    text = """
        1.0..1.1 A read f
        2.0.. A write f 0+1 unstable
        3.0..3.1 B read f
        4.0..9.0 A read f attempts=3
        5.0.. A read f attempts=2
        6.0.. A recall f
    """
    first, second = fold(rpc.FOLD, text, rpc.UnansweredCall)
    assert (first.op, first.start_ns, first.client_reply_ns, first.server_reply_ns) == (
        "WRITE",
        2 * NS,
        9 * NS,
        9 * NS,
    )
    assert second.attempts == 2
    (resent,) = fold(rpc.FOLD, text, rpc.ResentCalls)
    assert (resent.client, resent.calls, resent.resent, resent.sends, resent.unanswered) == (
        "A",
        4,
        2,
        3,
        1,
    )
    assert (resent.longest_ns, resent.at_call, resent.at_return) == (5 * NS, "example#7", "example#8")


def test_refused_writes_by_client_status_and_directory() -> None:
    text = """
        1.0..1.1 A open data/f create -> NOSPC
        1.2..1.3 A write data/g 0+10 unstable -> NOSPC
        1.4..1.5 A write data/g 10+10 unstable -> NOSPC
        1.6..1.7 B write data/g 0+10 unstable -> NOSPC
        1.8..1.9 A write other/g 0+10 unstable -> DQUOT
        2.0..2.1 A read data/g 0+10 -> IO
        2.2..2.3 A handle data/g op=PUTFH -> STALE
        2.4..2.5 A write data/g 0+10 unstable -> DELAY
    """
    rows = fold(write_failures.FOLD, text, write_failures.WriteFailure, [1, 3])
    assert [(r.client, r.status, r.directory, r.op, r.count, r.data) for r in rows] == [
        ("A", "NOSPC", "/data", "WRITE", 3, 2),
        ("B", "NOSPC", "/data", "WRITE", 1, 1),
        ("A", "DQUOT", "/other", "WRITE", 1, 1),
        ("A", "STALE", "/data", "PUTFH", 1, 0),
    ]
    assert (rows[0].path, rows[0].at_first, rows[0].at_last) == ("/data/g", "example#2", "example#6")


def test_a_stall_is_counted_from_the_last_reply_or_the_first_call() -> None:
    text = """
        1.0..1.1 A read f
        1.05..4.0 A write f 0+1 unstable
        2.0..4.4 B read g
        10.0..12.0 A commit f
        20.0..20.1 A read f
    """
    first, second = fold(stalls.FOLD, text, stalls.Stall)
    assert (first.start_ns, first.end_ns, first.outstanding) == (1100 * MS, 4 * NS, 2)
    assert (first.client, first.op, first.at_call) == ("A", "WRITE", "example#3")
    assert (first.at_before, first.at_after) == ("example#2", "example#4")
    assert (second.start_ns, second.end_ns, second.outstanding, second.op) == (
        10 * NS,
        12 * NS,
        1,
        "COMMIT",
    )


def test_a_call_that_was_sent_again_on_the_next_connection_is_answered() -> None:
    """After a restart a client sends what waits once more, with the same transaction ids."""
    first, second = "connection=10.0.0.1:700>10.0.0.9:2049", "connection=10.0.0.1:701>10.0.0.9:2049"
    text = f"""
        1.0..1.1 A read f xid=7 {first}
        2.0.. A write f 0+1 unstable xid=8 {first}
        2.1.. A write f 1+1 unstable xid=9 {first}
        5.0..5.1 A write f 0+1 unstable xid=8 {second} -> BADSESSION
    """
    (row,) = fold(rpc.FOLD, text, rpc.UnansweredCall)
    assert row.start_ns == 2100 * MS
