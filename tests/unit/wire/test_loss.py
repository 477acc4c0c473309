"""How much was lost, and when."""

from __future__ import annotations

from collections import Counter

from analyzer.core.coverage import Gap
from analyzer.wire.decode import DecodeCounts
from analyzer.wire.loss import Losses, gaps, losses
from analyzer.wire.sequence import Direction, Hole
from analyzer.wire.shard import ShardResult
from analyzer.wire.survey import Connection, Survey

LOW, HIGH = (1 << 16) + 2049, (2 << 16) + 900


def survey(messages: int = 1000, marks: tuple[str, ...] = ("syn",), truncated: int = 0) -> Survey:
    connection = Connection(LOW, HIGH, False, frames=messages, truncated=truncated)
    connection.calls, connection.replies = {True: messages // 2}, {False: messages // 2}
    connection.marks = set(marks)
    found = Survey(connections={0: connection}, frames=messages)
    found.tracker.directions = {
        0: Direction(0, position=100_000, last_ns=9),
        1: Direction(0, position=100_000, last_ns=9),
    }
    return found


def account(found: Survey, decoded: int = 1000, **counts: object) -> Losses:
    result = ShardResult(counts=DecodeCounts(messages=Counter({0: decoded})))
    for name, value in counts.items():
        setattr(result.counts, name, value)
    return losses(found, frozenset({0}), [result], whole=True, since=False)


def test_nothing_is_lost() -> None:
    lost = account(survey())
    assert (lost.share, lost.gaps, dict(lost.unread), lost.begun) == (0, 0, {}, frozenset())
    assert gaps(lost, {0: {"a"}}, 1, 9) == ()


def test_shares_of_segments_octets_and_messages() -> None:
    found = survey()
    found.tracker.directions[0].holes = [Hole(5, 1005, 2, 3), Hole(2000, 4000, 5, 6)]
    lost = account(found)
    assert (lost.gaps, lost.missing_bytes) == (2, 3000)
    assert lost.share == 3000 / 200_000
    found.connections[0].frames = 18
    assert account(found).share == 2 / 20
    assert account(survey(), decoded=900).share == 100 / 1000


def test_gaps_have_times_and_clients() -> None:
    found = survey()
    found.tracker.directions[0].holes = [Hole(5, 1005, 2, 4), Hole(2000, 2100, 6, 7)]
    found.tracker.directions[1].holes = [Hole(5, 1005, 3, 5)]
    lost = account(found)
    assert gaps(lost, {0: {"b", "a"}}, 1, 9) == (Gap(2, 5, ("a", "b")), Gap(6, 7, ("a", "b")))
    assert gaps(lost, {}, 1, 9)[0] == Gap(2, 5)  # anybody's
    assert gaps(lost, {0: set(map(str, range(99)))}, 1, 9)[0].clients == ()


def test_messages_that_nobody_could_read() -> None:
    lost = account(survey(), decoded=990)
    assert lost.unread == {0: 10}
    assert gaps(lost, {0: {"a"}}, 1, 9) == (Gap(1, 9, ("a",)),)  # no one knows when
    lost = account(survey(), decoded=998, unread=Counter({0: 2}), unread_at={0: [4, 6]})
    assert gaps(lost, {0: {"a"}}, 1, 9) == (Gap(4, 4, ("a",)), Gap(6, 6, ("a",)))


def test_what_was_under_way_when_the_capture_began_is_no_loss() -> None:
    lost = account(survey(marks=()), decoded=970)
    assert lost.begun == {0} and dict(lost.unread) == {} and lost.share == 0
    assert account(survey(marks=()), decoded=900).unread == {0: 100}
    assert account(survey(marks=(), truncated=1), decoded=970).unread == {0: 30}


def test_replies_to_lost_calls_are_accounted_for_by_the_gap() -> None:
    found = survey()
    found.tracker.directions[0].holes = [Hole(0, 400, 2, 3)]
    assert dict(account(found, decoded=991).unread) == {}
    assert account(found, decoded=980).unread == {0: 20}


def test_a_reply_may_be_among_what_was_not_decoded() -> None:
    """Only where the capture began in the middle: there a reply without its call hides others."""
    waiting = {0: [5]}
    lost = account(survey(marks=()), waiting_at=waiting, decoded_bytes=Counter({0: 100_000, 1: 99_000}))
    assert gaps(lost, {0: {"a"}}, 1, 9) == (Gap(5, 5, ("a",)),)
    full = Counter({0: 100_000, 1: 100_000})
    assert not account(survey(marks=()), waiting_at=waiting, decoded_bytes=full).waiting_at
    assert not account(survey(), waiting_at=waiting, decoded_bytes=Counter()).waiting_at


def test_a_direction_that_was_only_acknowledged() -> None:
    found = survey()
    found.tracker.directions[1].holes = [Hole(0, 100_000, 1, 9)]
    lost = account(found)
    assert lost.one_way == {0} and lost.share == 0.5


def test_what_follows_starttls_is_not_lost() -> None:
    found = survey(marks=("syn", "tls", "rpc-with-tls"))
    found.tracker.directions[0].holes = [Hole(0, 400, 2, 3)]
    lost = account(found, decoded=2)
    assert (lost.share, lost.gaps, dict(lost.unread)) == (0, 0, {})
