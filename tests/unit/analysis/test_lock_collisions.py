"""Two grants at once, lost locks, WRITEs into another's lock."""

from __future__ import annotations

from analyzer.analysis.locks import LockConflict, LockHold, LockLost, LockRefusal, LockTrespass
from tests.unit.analysis.lock_tables import tables_of

MS = 1_000_000

BOTH = """
0..0.1 A lock f 0+10 write owner=a new_stateid=sa
1..1.1 B lock f 5+10 write owner=b new_stateid=sb
{}
"""


def conflicts(rest: str) -> list[LockConflict]:
    return list(tables_of(BOTH.format(rest)).of(LockConflict))


def test_two_grants_that_surely_stood_at_once() -> None:
    (row,) = conflicts("3..3.1 A unlock f 0+10 stateid=sa\n4..4.1 B unlock f 5+10 stateid=sb")
    assert (row.first_client, row.second_client) == ("A", "B")
    assert (row.offset, row.length) == (5, 5)
    assert (row.from_ns, row.until_ns) == (1_100 * MS, 3_000 * MS)


def test_the_second_may_end_first() -> None:
    (row,) = conflicts("2..2.1 B unlock f 5+10 stateid=sb\n3..3.1 A unlock f 0+10 stateid=sa")
    assert row.until_ns == 2_000 * MS


def test_an_unlock_called_before_the_other_grant_was_answered_proves_nothing() -> None:
    assert conflicts("1.05..1.3 A unlock f 0+10 stateid=sa") == []


def test_a_holder_that_never_comes_back_proves_nothing() -> None:
    assert conflicts("4..4.1 B unlock f 5+10 stateid=sb") == []


def test_used_afterwards_but_never_given_back() -> None:
    (row,) = conflicts("2..2.1 A lock f 100+1 write stateid=sa new_stateid=sa")
    assert row.until_ns == 2_000 * MS


def test_read_locks_share() -> None:
    text = BOTH.replace("write", "read").format("3..3.1 A unlock f 0+10 stateid=sa")
    assert list(tables_of(text).of(LockConflict)) == []


def test_a_missed_unlock_is_no_conflict() -> None:
    """A locks again what it seems to hold: it must have given it back before B got it."""
    assert (
        conflicts("""
        2..2.1 B unlock f 5+10 stateid=sb
        3..3.1 A lock f 0+10 write stateid=sa new_stateid=sa
        4..4.1 A unlock f 0+10 stateid=sa
    """)
        == []
    )


def test_expired_state_is_no_conflict_but_lost() -> None:
    tables = tables_of(BOTH.format("3..3.1 A unlock f 0+10 stateid=sa -> EXPIRED"))
    assert list(tables.of(LockConflict)) == []
    (row,) = tables.of(LockLost)
    assert (row.client, row.cause, row.next_client, row.held_since_ns) == ("A", "EXPIRED", "B", 100 * MS)


def test_close_drops_locks_of_that_open() -> None:
    text = """
        0..0.1 A lock f 0+10 write owner=a stateid=oa new_stateid=sa
        0.5..0.6 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        1..1.1 A close f stateid={}
        2..2.1 B lock f 0+10 write blocking owner=b new_stateid=sb
    """
    ended = {h.client: h.ended for h in tables_of(text.format("oa")).of(LockHold)}
    assert ended == {"A": "close", "B": "open"}
    ended = {h.client: h.ended for h in tables_of(text.format("other")).of(LockHold)}
    assert ended == {"A": "lost", "B": "open"}


RESTART = """
0..0.1 A lock f 0+10 write owner=a stateid=oa new_stateid=sa
0.2..0.3 A lock f 100+10 write stateid=sa new_stateid=sa
5..5.1 A session - op=SEQUENCE -> BADSESSION
5.2..5.3 A session - op=EXCHANGE_ID clientid=A2 value=boot1
6..6.1 A lock f 0+10 write owner=a stateid=oa2 new_stateid=sa2 reclaim
{}
7..7.1 A session - op=RECLAIM_COMPLETE
9..9.1 A unlock f 0+eof stateid=sa2
"""


def test_a_lock_that_was_not_reclaimed_is_lost() -> None:
    tables = tables_of(RESTART.format(""))
    (row,) = tables.of(LockLost)
    assert (row.client, row.offset, row.cause) == ("A", 100, "not reclaimed")


def test_all_reclaimed() -> None:
    again = "6.2..6.3 A lock f 100+10 write stateid=sa2 new_stateid=sa2 reclaim"
    assert list(tables_of(RESTART.format(again)).of(LockLost)) == []


def test_refused_reclaim() -> None:
    refused = "6.2..6.3 A lock f 100+10 write stateid=sa2 reclaim -> NO_GRACE"
    (row,) = tables_of(RESTART.format(refused)).of(LockLost)
    assert (row.offset, row.cause, row.held_since_ns) == (100, "NO_GRACE", 300 * MS)


def test_a_rebooted_client_lost_nothing() -> None:
    text = """
        0..0.1 A session - op=EXCHANGE_ID clientid=A value=boot1
        1..1.1 A lock f 0+10 write owner=a new_stateid=sa
        5..5.1 A session - op=EXCHANGE_ID clientid=A2 value={}
        6..6.1 A session - op=RECLAIM_COMPLETE
    """
    assert list(tables_of(text.format("boot2")).of(LockLost)) == []
    assert len(list(tables_of(text.format("boot1")).of(LockLost))) == 1


def test_a_session_error_alone_loses_nothing() -> None:
    tables = tables_of("""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 A session - op=SEQUENCE -> BADSESSION
        2..2.1 A unlock f 0+10 stateid=sa
    """)
    assert list(tables.of(LockLost)) == []


WRITES = """
0..0.1 A lock f 0+100 write owner=a new_stateid=sa
{}
3..3.1 A unlock f 0+100 stateid=sa
"""


def trespasses(line: str) -> list[LockTrespass]:
    return list(tables_of(WRITES.format(line)).of(LockTrespass))


def test_write_into_a_locked_range() -> None:
    (row,) = trespasses("1..1.1 B write f 50+10\n1.2..1.3 B write f 60+10")
    assert (row.client, row.holder_client, row.writes, row.bytes) == ("B", "A", 2, 20)
    assert not row.lost and row.released


def test_writes_that_prove_nothing() -> None:
    assert trespasses("1..1.1 A write f 50+10") == []  # its own lock
    assert trespasses("1..1.1 B write f 100+10") == []  # behind the range
    assert trespasses("0.05..0.2 B write f 0+10") == []  # perhaps before the grant
    assert trespasses("2.9..3.05 B write f 0+10") == []  # perhaps after the unlock
    assert trespasses("1..1.1 B write f 50+10 -> LOCKED") == []


def test_zombie_write_after_the_lock_went_to_another() -> None:
    (row,) = tables_of("""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        40..40.1 B lock f 0+10 write owner=b new_stateid=sb
        41..41.1 A session - op=SEQUENCE -> BADSESSION
        42..42.1 A write f 0+10
        45..45.1 B unlock f 0+10 stateid=sb
    """).of(LockTrespass)
    assert (row.client, row.holder_client, row.lost) == ("A", "B", True)


def test_denied_by_itself() -> None:
    text = """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 A lock f 5+10 write owner={} -> DENIED holder_clientid=A holder_owner=a
        2..2.1 A lock f 5+10 write owner={} -> DENIED holder_clientid=A holder_owner=a
    """
    (row,) = tables_of(text.format("a", "a")).of(LockRefusal)
    assert (row.reason, row.count) == ("same owner", 2)
    (row,) = tables_of(text.format("b", "b")).of(LockRefusal)
    assert (row.reason, row.count) == ("own client", 2)


def test_deadlock_status() -> None:
    (row,) = tables_of("1..1.1 A lock f 5+10 write blocking owner=a -> DEADLOCK").of(LockRefusal)
    assert row.reason == "deadlock"


def test_a_lost_lock_tells_when_the_next_client_got_it() -> None:
    (row,) = tables_of("""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        40..40.1 B lock f 0+10 write owner=b new_stateid=sb
        43..43.2 A session - op=SEQUENCE -> BADSESSION
    """).of(LockLost)
    assert (row.next_client, row.next_ns, row.lost_ns) == ("B", 40_100 * MS, 43_200 * MS)
