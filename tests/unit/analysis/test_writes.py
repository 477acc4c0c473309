from __future__ import annotations

from analyzer.analysis.uncommitted import UncommittedData
from analyzer.analysis.writes import FOLD
from tests.unit.analysis.folding import fold

NS = 1_000_000_000


def left(text: str) -> list[UncommittedData]:
    return fold(FOLD, text, UncommittedData)


def test_data_lost_by_a_restart_and_not_sent_again() -> None:
    (row,) = left("""
        1.0..1.1 A write f 0+4096 unstable value=aa
        1.2..1.3 A write f 4096+4096 unstable value=aa
        5.0..5.5 A commit f 0+0 value=bb
        9.0..9.1 A write g 0+100 file_sync value=bb
    """)
    assert (row.ended, row.ended_op, row.verifier, row.new_verifier) == ("verifier", "COMMIT", "aa", "bb")
    assert (row.writes, row.bytes, row.offset_lo, row.offset_hi) == (2, 8192, 0, 8192)
    assert (row.resent, row.resent_bytes, row.resent_ns) == (False, 0, None)
    assert (row.ended_ns, row.input_last_ns) == (5 * NS, 9 * NS + NS // 10)
    assert (row.at_first, row.at_last, row.at_end) == ("example#2", "example#4", "example#6")


def test_data_that_was_sent_again() -> None:
    (row,) = left("""
        1.0..1.1 A write f 0+4096 unstable value=aa
        5.0..5.1 A commit f 0+0 value=bb
        5.2..5.3 A write f 8192+4096 unstable value=bb
        5.4..5.5 A write f 0+4096 unstable value=bb
        5.6..5.7 A commit f 0+0 value=bb
    """)
    assert (row.resent, row.resent_bytes, row.at_resent) == (True, 4096, "example#8")


def test_a_write_may_show_the_new_verifier_and_be_the_first_one_sent_again() -> None:
    (row,) = left("""
        1.0..1.1 A write f 0+8192 unstable value=aa
        5.0..5.1 A write f 0+4096 file_sync value=bb
    """)
    assert (row.ended_op, row.resent, row.resent_bytes) == ("WRITE", False, 4096)


def test_each_client_and_each_server_has_its_own_data() -> None:
    rows = left("""
        1.0..1.1 A write f 0+4096 unstable value=aa
        1.0..1.1 B write f 0+10 unstable value=aa
        1.0..1.1 A write f 0+20 unstable value=cc endpoint=other:2049
        5.0..5.1 A commit f 0+0 value=aa
        5.0..5.1 B commit f 0+0 value=bb
        5.0..5.1 A commit f 0+0 value=cc endpoint=other:2049
    """)
    assert [(row.client, row.bytes) for row in rows] == [("B", 10)]


def test_two_commits_of_parts_are_one_of_the_whole() -> None:
    writes = "1.0..1.1 A write f 0+8192 unstable value=aa\n"
    first = "2.0..2.1 A commit f 0+4096 value=aa\n"
    assert left(writes + first + "3.0..3.1 A commit f 4096+0 value=aa") == []
    (row,) = left(writes + first)
    assert (row.ended, row.offset_lo, row.bytes, row.exact) == ("end", 4096, 4096, True)


def test_a_commit_in_the_middle_leaves_it_open_what_is_missing() -> None:
    (row,) = left("""
        1.0..1.1 A write f 0+9000 unstable value=aa
        2.0..2.1 A commit f 3000+3000 value=aa
    """)
    assert not row.exact


def test_closed_without_commit() -> None:
    (row,) = left("""
        1.0..1.1 A write f 0+4096 unstable value=aa stateid=11
        1.2..1.3 A close f stateid=11
    """)
    assert (row.ended, row.ended_ns, row.at_end) == ("close", NS * 13 // 10, "example#4")


def test_a_failed_or_unanswered_write_is_not_outstanding() -> None:
    assert (
        left("""
        1.0..1.1 A write f 0+4096 unstable -> NOSPC
        1.2.. A write f 0+4096 unstable
        1.3..1.4 A write f 0+4096 stable=unstable committed=data_sync value=aa
    """)
        == []
    )


def test_memory_is_bounded() -> None:
    text = "\n".join(f"{i}.0..{i}.1 A write f{i} 0+1 unstable value=aa" for i in range(9000))
    assert len(left(text)) == 8192
