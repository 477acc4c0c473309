"""Waits: what they are made of, in numbers."""

from __future__ import annotations

import pytest

from analyzer.analysis.lock_waits import merged_ns
from analyzer.analysis.locks import LockCycle, LockFile, LockHold, LockRefusal, LockServer, LockWait
from tests.unit.analysis.lock_tables import tables_of

MS = 1_000_000

POLLED = """
0.023..0.024 A lock f 0+10 write owner=a new_stateid=sa -> ok
0.025..0.026 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a \
holder_offset=0 holder_length=0 holder_type=write
1.029..1.030 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
3.031..3.032 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
5.526..5.527 A unlock f 0+eof stateid=sa
7.033..7.034 B lock f 0+10 write blocking owner=b -> ok new_stateid=sb
7.034..7.035 B unlock f 0+10 stateid=sb
"""


def the_wait(text: str, batches: int = 1) -> LockWait:
    (wait,) = tables_of(text, batches=batches).of(LockWait)
    return wait


@pytest.mark.parametrize("batches", [1, 3, 7])
def test_a_wait_is_the_hold_and_the_back_off_after_it(batches: int) -> None:
    wait = the_wait(POLLED, batches)
    assert (wait.client, wait.owner, wait.holder_client, wait.holder_owner) == ("B", "b", "A", "a")
    assert wait.wait_ns == 7_009 * MS
    assert wait.hold_ns == 5_502 * MS
    assert wait.backoff_ns == 1_507 * MS
    assert wait.queue_ns == 0
    assert wait.denials == 3
    assert wait.gaps_ns == (1_004 * MS, 2_002 * MS, 4_002 * MS)
    assert wait.released_ns == 5_527 * MS
    assert not wait.notified
    # first DENIED, the LOCKU call, the grant
    assert wait.evidence == ("example#4", "example#9", "example#12")


def test_queue_is_what_others_held_meanwhile() -> None:
    wait = the_wait("""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        4..4.1 A unlock f 0+10 stateid=sa
        5..5.1 C lock f 0+10 write owner=c new_stateid=sc
        7..7.1 C unlock f 0+10 stateid=sc
        9..9.1 B lock f 0+10 write blocking owner=b new_stateid=sb
    """)
    assert wait.hold_ns == 3_100 * MS  # 1.0 to 4.1
    assert wait.queue_ns == 2_000 * MS  # 5.1 to 7.1
    assert wait.backoff_ns == 3_000 * MS  # 4.1 to 5.1 and 7.1 to 9.1
    assert wait.bypassed == 1


def test_a_holder_that_asked_before_is_no_bypass() -> None:
    waits = {
        w.client: w
        for w in tables_of("""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 C lock f 0+10 write blocking owner=c -> DENIED holder_clientid=A holder_owner=a
        2..2.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        4..4.1 A unlock f 0+10 stateid=sa
        5..5.1 C lock f 0+10 write blocking owner=c new_stateid=sc
        7..7.1 C unlock f 0+10 stateid=sc
        9..9.1 B lock f 0+10 write blocking owner=b new_stateid=sb
    """).of(LockWait)
    }
    assert waits["B"].bypassed == 0
    assert waits["B"].queue_ns == 2_000 * MS


def test_an_unlock_that_is_answered_after_the_grant_still_ends_the_hold() -> None:
    wait = the_wait("""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        4.0..4.5 A unlock f 0+10 stateid=sa
        4.2..4.3 B lock f 0+10 write blocking owner=b new_stateid=sb
    """)
    assert (wait.hold_ns, wait.queue_ns, wait.backoff_ns) == (3_300 * MS, 0, 0)
    assert wait.released_ns == 4_300 * MS


def test_a_denied_that_is_answered_after_the_unlock_names_no_new_holder() -> None:
    wait = the_wait("""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1.0..1.2 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a \
holder_offset=0 holder_length=10 holder_type=write
        1.05..1.1 A unlock f 0+10 stateid=sa
        3.0..3.1 B lock f 0+10 write blocking owner=b new_stateid=sb
    """)
    assert wait.hold_ns == 100 * MS
    assert wait.backoff_ns == 2_000 * MS


def test_a_holder_known_from_the_denied_alone() -> None:
    text = """
        1.0..1.1 B lock f 5+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a \
holder_offset=0 holder_length=0 holder_type=write
        3.0..3.1 A unlock f 0+eof stateid=sa
        4.0..4.1 B lock f 5+10 write blocking owner=b new_stateid=sb
    """
    wait = the_wait("0.5 A getattr f\n" + text)
    assert (wait.holder_client, wait.holder_owner) == ("A", "a")
    assert (wait.hold_ns, wait.backoff_ns) == (2_100 * MS, 1_000 * MS)
    assert wait.released_ns == 3_100 * MS


def test_an_unknown_holder_takes_the_whole_wait() -> None:
    wait = the_wait("""
        1.0..1.1 B lock f 5+10 write blocking owner=b -> DENIED holder_clientid=0x0000000000000000
        4.0..4.1 B lock f 5+10 write blocking owner=b new_stateid=sb
    """)
    assert wait.holder_client is None
    assert wait.holder_clientid == "0x0000000000000000"
    assert (wait.hold_ns, wait.queue_ns, wait.backoff_ns) == (3_100 * MS, 0, 0)
    assert wait.released_ns is None


def test_notified_though_the_callback_is_answered_after_the_grant() -> None:
    text = """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        4..4.1 A unlock f 0+10 stateid=sa
        4.05..4.4 B notify_lock f
        4.2..4.3 B lock f 0+10 write blocking owner=b new_stateid=sb
    """
    assert the_wait(text).notified
    assert the_wait(text, batches=5).notified
    (server,) = tables_of(text).of(LockServer)
    assert (server.waits, server.notifications) == (1, 1)


def test_abandoned_wait_ends_with_its_last_denied() -> None:
    wait = the_wait("""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        3..3.1 B lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        9..9.1 A unlock f 0+10 stateid=sa
    """)
    assert wait.granted_ns is None
    assert wait.last_ns == 3_100 * MS
    assert wait.wait_ns == wait.hold_ns == 2_100 * MS


def test_tries_far_apart_are_separate_waits() -> None:
    waits = list(
        tables_of("""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write owner=b -> DENIED holder_clientid=A holder_owner=a
        90..90.1 A unlock f 0+10 stateid=sa
        600..600.1 B lock f 0+10 write owner=b -> DENIED holder_clientid=A holder_owner=a
        601..601.1 B lock f 0+10 write owner=b new_stateid=sb
    """).of(LockWait)
    )
    assert [w.wait_ns for w in waits] == [100 * MS, 1_100 * MS]


def test_a_lock_test_is_no_wait() -> None:
    tables = tables_of("""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock_test f 0+10 write owner=b -> DENIED holder_clientid=A holder_owner=a
    """)
    assert list(tables.of(LockWait)) == []
    assert list(tables.of(LockFile)) == []


def test_a_replayed_denied_names_no_holder() -> None:
    """NFSv4.0: the same sequence id again is answered from the server's replay cache."""
    lines = """
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.1 B lock f 0+10 write owner=b stateid=ob owner_seq=7 protocol=nfs4.0 -> DENIED
        2..2.1 A unlock f 0+10 stateid=sa
    """
    again = "3..3.1 B lock f 0+10 write owner=b stateid=ob owner_seq={} protocol=nfs4.0 -> DENIED"
    (replayed,) = tables_of(lines + again.format(7)).of(LockWait)
    assert (replayed.denials, replayed.last_ns) == (1, 1_100 * MS)
    (evaluated,) = tables_of(lines + again.format(8)).of(LockWait)
    assert evaluated.denials == 2


def test_owner_is_found_through_the_lock_stateid() -> None:
    """A LOCK with an existing lock stateid repeats no owner; LOCKU never has one."""
    tables = tables_of("""
        0..0.1 A lock f 0+10 write owner=a stateid=oa new_stateid=sa
        0.2..0.3 A lock f 20+10 write stateid=sa new_stateid=sa
        1..1.1 B lock f 20+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        2..2.1 A unlock f 0+eof stateid=sa
        3..3.1 B lock f 20+10 write blocking owner=b new_stateid=sb
    """)
    (wait,) = tables.of(LockWait)
    assert (wait.hold_ns, wait.backoff_ns) == (1_100 * MS, 1_000 * MS)
    holds = [h for h in tables.of(LockHold) if h.client == "A"]
    assert [(h.offset, h.owner, h.ended) for h in holds] == [(0, "a", "unlock"), (20, "a", "unlock")]


def test_contended_file_counts() -> None:
    (row,) = tables_of(POLLED).of(LockFile)
    assert (row.clients, row.grants, row.denials, row.waits) == (2, 2, 3, 1)
    assert row.wait_ns == row.longest_wait_ns == 7_009 * MS
    assert row.top_client == "A"
    assert row.top_held_ns == 5_501 * MS  # from the first DENIED's call to the LOCKU call


CIRCLE = """
0..0.1 A lock f 0+10 write owner=a new_stateid=sa
0..0.1 B lock g 0+10 write owner=b new_stateid=sb
1..1.1 A lock g 0+10 write blocking owner={a} -> DENIED holder_clientid=B holder_owner=b
2..2.1 B lock f 0+10 write blocking owner={b} -> DENIED holder_clientid=A holder_owner=a
10..10.1 A lock g 0+10 write blocking owner={a} -> DENIED holder_clientid=B holder_owner=b
11..11.1 B lock f 0+10 write blocking owner={b} -> DENIED holder_clientid=A holder_owner=a
20..20.1 A lock g 0+10 write blocking owner={a} -> DENIED holder_clientid=B holder_owner=b
"""


def test_circle_of_owners() -> None:
    (cycle,) = tables_of(CIRCLE.format(a="a", b="b")).of(LockCycle)
    assert cycle.same_owners
    assert set(cycle.clients) == {"A", "B"}
    assert cycle.from_ns == 2_100 * MS
    assert cycle.at_end and not cycle.resolved


def test_circle_of_clients_with_other_owners() -> None:
    (cycle,) = tables_of(CIRCLE.format(a="a2", b="b2")).of(LockCycle)
    assert not cycle.same_owners


def test_no_circle_if_one_gives_back_first() -> None:
    text = CIRCLE.format(a="a", b="b").replace(
        "2..2.1 B lock", "1.5..1.6 B unlock g 0+10 stateid=sb\n2..2.1 B lock"
    )
    assert list(tables_of(text).of(LockCycle)) == []


def test_merged_ns() -> None:
    assert merged_ns([(0, 5), (3, 8), (20, 30)], 2, 25) == 11


DEADLOCK = """
0..0.1 A lock f 0+10 write owner=a1 new_stateid=sa
0..0.1 B lock g 0+10 write owner=b1 new_stateid=sb
1..1.1 A lock g 0+10 write blocking owner=a2 -> DENIED holder_clientid=B holder_owner=b1
2..2.1 B lock f 0+10 write blocking owner=b2 -> DENIED holder_clientid=A holder_owner=a1
6..6.1 B unlock g 0+10 stateid=sb
6.2..6.3 A lock g 0+10 write blocking owner=a2 new_stateid=sa2
6.4..6.5 A unlock f 0+10 stateid=sa
6.6..6.7 B notify_lock f callback op=CB_NOTIFY_LOCK
"""


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_a_wait_that_the_client_gave_up(batches: int) -> None:
    """It was told that the lock was free, and didn't ask."""
    text = f"{DEADLOCK}9..9.1 B close f"
    (given_up,) = [w for w in tables_of(text, batches=batches).of(LockWait) if w.client == "B"]
    assert (given_up.granted_ns, given_up.gave_up_by_ns, given_up.wait_ns) == (None, 6_600 * MS, 100 * MS)


def test_a_circle_that_ended_when_one_gave_up() -> None:
    (circle,) = tables_of(f"{DEADLOCK}9..9.1 B close f").of(LockCycle)
    assert (circle.gave_up, circle.resolved, circle.same_owners) == (True, True, False)
    assert (circle.from_ns, circle.until_ns) == (2_100 * MS, 6_000 * MS)


@pytest.mark.parametrize(
    "end",
    [
        "6.8..6.9 B lock f 0+10 write blocking owner=b2 new_stateid=sb2\n9..9.1 B close f",  # it asked
        "",  # the input ended before it could
    ],
)
def test_a_client_that_may_still_ask_gave_nothing_up(end: str) -> None:
    tables = tables_of(DEADLOCK + end)
    assert [w.gave_up_by_ns for w in tables.of(LockWait)] == [None, None]
    assert not any(circle.gave_up for circle in tables.of(LockCycle))


@pytest.mark.parametrize(("unlocked", "refusals"), [(1.005, 0), (1.009, 0), (1.02, 1), (5.0, 1)])
def test_a_refusal_that_raced_with_the_unlock_says_nothing(unlocked: float, refusals: int) -> None:
    """The kernel lets its next process ask before the LOCKU of the one before is out."""
    found = tables_of(f"""
        0..0.1 A lock f 0+10 write owner=a new_stateid=sa
        1..1.02 A lock f 0+10 write blocking owner=b -> DENIED holder_clientid=A holder_owner=a
        {unlocked}..{unlocked + 0.02} A unlock f 0+10 stateid=sa
        6..6.1 A lock f 0+10 write blocking owner=b new_stateid=sb
    """).of(LockRefusal)
    assert [row.count for row in found] == [1] * refusals


def test_a_refusal_by_a_lock_that_was_just_granted_says_nothing() -> None:
    found = tables_of("""
        0..0.1 A lock f 0+10 read owner=a new_stateid=sa
        0.105..0.2 A lock f 0+10 write owner=b -> DENIED holder_clientid=A holder_owner=a
    """).of(LockRefusal)
    assert list(found) == []
