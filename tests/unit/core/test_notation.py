"""The notation: what a line says, what it leaves unsaid, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from analyzer.core.errors import NotationError
from analyzer.core.notation import DEFAULT_OP, parse_events
from analyzer.core.operations import operations, validate
from analyzer.core.schema import EVENT_SCHEMA, KINDS


def one(line: str) -> Any:
    batch = parse_events(line)
    validate(batch)
    (row,) = operations(batch)
    return row


def test_a_denied_lock() -> None:
    row = one("0.024..0.026 B lock f 0+10 write blocking -> DENIED holder_clientid=A holder_owner=a")
    assert (row.start_lo, row.start_hi, row.end_lo, row.end_hi) == (24_000_000,) * 2 + (26_000_000,) * 2
    assert (row.client, row.clientid, row.kind, row.op) == ("B", "B", "lock", "LOCK")
    assert (row.object, row.path) == ("f", "/f")
    assert (row.offset, row.length, row.lock_type, row.blocking) == (0, 10, "write", True)
    assert (row.status, row.status_code, row.outcome) == ("DENIED", 10010, "fail")
    assert (row.holder_clientid, row.holder_owner) == ("A", "a")
    assert (row.at_call, row.at_return) == ("example#1", "example#2")


def test_what_is_not_said() -> None:  # defaults that the module's docstring promises
    row = one("1 A write f 0+4096 unstable")
    assert (row.protocol, row.endpoint, row.session, row.connection) == (
        "nfs4.1",
        "server:2049",
        "session-A",
        "A:900>server:2049",
    )
    assert (row.status, row.outcome, row.attempts, row.witness) == ("ok", "ok", 1, "wire")
    assert (row.stable, row.committed, row.bytes) == ("unstable", "unstable", 4096)
    assert row.start_lo == row.end_lo == 1_000_000_000


def test_an_answer_that_never_came() -> None:
    row = one("1.5.. A write f 0+4096")
    assert (row.start_lo, row.end_lo, row.end_hi) == (1_500_000_000, None, None)
    assert (row.outcome, row.status, row.status_code, row.at_return) == ("info", None, None, None)


def test_to_the_end_of_the_file_and_no_file() -> None:
    assert one("0 A unlock f 5+eof").length == -1
    row = one("0 A session - op=RECLAIM_COMPLETE one_fs=true")
    assert (row.object, row.path, row.op, row.one_fs) == (None, None, "RECLAIM_COMPLETE", True)


def test_numbers_in_any_base_and_a_status_by_number() -> None:
    assert one("0 A session - flags=0x100").flags == 256
    row = one("0 A getattr f -> NEWER:10999")
    assert (row.status, row.status_code) == ("NEWER", 10999)


def test_callbacks_are_known_by_kind() -> None:
    assert one("0 A recall f").callback is True
    assert one("0 A lock f 0+1 write").callback is False


def test_comments_and_empty_lines() -> None:
    batch = parse_events("# a note\n\n  0 A open f # why\n   \n1 A close f")
    assert batch.num_rows == 2
    assert [r.at_call for r in operations(batch)] == ["example#1", "example#3"]


def test_rows_come_in_stream_order() -> None:
    batch = parse_events("0.. A read f\n1..9 B read f\n2..3 C read f\n0.5.. D read f")
    assert [r.client for r in operations(batch)] == ["C", "B", "A", "D"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("0 A frobnicate f", "no such kind: frobnicate"),
        ("soon A open f", "no time: soon"),
        ("3..2 A open f", "ends before it starts"),
        ("0 A open", "not enough values"),
        ("0 A open f sideways", "can't read 'sideways'"),
        ("0 A open f -> FROBNICATED", "write FROBNICATED:NUMBER"),
        ("0 A open f ->", "no status after ->"),
        ("0 A open f colour=red", "colour"),
        ("0 A open f slot=x", "invalid literal"),
    ],
)
def test_a_line_that_cant_be_read_is_named(line: str, says: str) -> None:
    with pytest.raises(NotationError, match="line 2:") as caught:
        parse_events(f"# first\n{line}")
    assert says in str(caught.value)


def test_names_that_stand_for_others_are_known() -> None:
    assert set(DEFAULT_OP) <= KINDS


def test_every_column_can_be_set() -> None:
    assert one("0 A open f share_access=3 share_deny=2 claim=previous").share_access == 3
    assert "share_access" in EVENT_SCHEMA.names
