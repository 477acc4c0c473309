"""What the connections that were decoded have lost: how much, when, and whose it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from analyzer.core.coverage import Gap
from analyzer.wire.sequence import Direction
from analyzer.wire.shard import ShardResult
from analyzer.wire.survey import Survey

#: Calls that may wait for their replies when a capture begins, on one connection: the replies can't be
#: decoded, and nothing is wrong with that.
_IN_FLIGHT: Final = 64
#: Octets of an RPC call, at least.
_SHORTEST_CALL: Final = 40
#: More gaps than this are told as one for each connection.
_MAX_GAPS: Final = 20_000
#: More clients on one connection than this aren't named: a gap may be anybody's.
_MAX_CLIENTS: Final = 16


@dataclass(frozen=True, slots=True)
class Losses:
    """`unread`: RPC messages by connection that were seen to begin and that no decoder understood, and
    frames cut too short to tell (what was under way when the capture began left out, and the replies
    to calls that were lost). `unread_at`: their times in ns, for connections of which all are known.
    `waiting_at`: times of calls that seem to have no reply, where it may be among what wasn't decoded.
    `one_way`: connections of which one direction is missing though it was acknowledged. `begun`: those
    that were open before the capture."""

    directions: Mapping[int, Direction]
    unread: Mapping[int, int]
    unread_at: Mapping[int, Sequence[int]]
    messages: int
    frames: int
    waiting_at: Mapping[int, Sequence[int]]
    one_way: frozenset[int]
    begun: frozenset[int]

    @property
    def gaps(self) -> int:
        """How many times segments were missed."""
        return sum(direction.gaps() for direction in self.directions.values())

    @property
    def missing_bytes(self) -> int:
        """Octets that never reached the capture."""
        return sum(direction.missing() for direction in self.directions.values())

    @property
    def payload_bytes(self) -> int:
        """Octets that were sent, missing ones included."""
        return sum(direction.payload for direction in self.directions.values())

    @property
    def share(self) -> float:
        """How much is missing, 0 to 1: of segments, of octets, or of messages, whichever is worst."""
        return max(
            self.gaps / max(1, self.frames + self.gaps),
            self.missing_bytes / max(1, self.payload_bytes),
            sum(self.unread.values()) / max(1, self.messages),
        )


def losses(
    survey: Survey, chosen: frozenset[int], results: Sequence[ShardResult], whole: bool, since: bool
) -> Losses:
    """The account of the `chosen` connections. `whole` is False where only a part of their frames was
    decoded because the user asked for that, `since` tells whether the beginning is left out."""
    # what follows STARTTLS can't be read, and isn't lost
    chosen = frozenset(n for n in chosen if not survey.connections[n].marks >= {"rpc-with-tls", "tls"})
    directions = {
        which: state for which, state in survey.tracker.directions.items() if which >> 1 in chosen
    }
    decoded: Counter[int] = Counter()
    unread: Counter[int] = Counter()
    unread_at: dict[int, list[int]] = {}
    for result in results:
        decoded.update(result.counts.messages)
        unread.update(result.counts.unread)
        unread_at |= result.counts.unread_at
    begun = frozenset(
        n
        for n in chosen
        if since or not (survey.connections[n].udp or "syn" in survey.connections[n].marks)
    )
    seen = {n: _messages(survey, n) for n in chosen}
    for number, count in seen.items() if whole else ():
        missed = count - decoded[number]
        if missed > unread[number] + _excused(survey, directions, number, number in begun):
            unread[number] = missed
    return Losses(
        directions=directions,
        unread=unread,
        unread_at={n: times for n, times in unread_at.items() if len(times) == unread[n]},
        messages=max(sum(seen.values()), sum(decoded.values())),
        frames=sum(survey.connections[n].frames for n in chosen),
        waiting_at={
            n: times
            for result in results
            for n, times in result.counts.waiting_at.items()
            if (n in begun or _torn(directions, n))
            and _undecoded(directions, result.counts.decoded_bytes, n)
        },
        one_way=frozenset(which >> 1 for which, state in directions.items() if _unseen(state)),
        begun=begun,
    )


def _torn(directions: Mapping[int, Direction], number: int) -> bool:
    return any(s.gaps() for n in (number * 2, number * 2 + 1) if (s := directions.get(n)) is not None)


def _undecoded(directions: Mapping[int, Direction], decoded: Mapping[int, int], number: int) -> bool:
    """Whether octets of a connection are there and were not understood. A reply whose call came before
    the capture, or was lost, hides those that share its segment."""
    return any(
        state.payload - state.missing() > decoded.get(which, 0)
        for which in (number * 2, number * 2 + 1)
        if (state := directions.get(which)) is not None
    )


def _excused(survey: Survey, directions: Mapping[int, Direction], number: int, begun: bool) -> int:
    """Messages that can't be decoded for a reason that is accounted for elsewhere."""
    states = [directions[n] for n in (number * 2, number * 2 + 1) if n in directions]
    lost = sum(state.gaps() + state.missing() // _SHORTEST_CALL for state in states)
    in_flight = _IN_FLIGHT if begun and not survey.connections[number].truncated else 0
    return in_flight + lost


def _messages(survey: Survey, number: int) -> int:
    connection = survey.connections[number]
    named = sum(connection.calls.values()) + sum(connection.replies.values())
    return named + connection.too_short


def _unseen(state: Direction) -> bool:
    return 0 < state.payload == state.missing()


def gaps(
    found: Losses, clients: Mapping[int, Collection[str]], first_ns: int, last_ns: int
) -> tuple[Gap, ...]:
    """When messages may have passed unseen, and whose. `clients` by connection."""
    total = sum(direction.gaps() for direction in found.directions.values())
    spans: dict[tuple[str, ...], list[tuple[int, int]]] = {}

    def named(number: int) -> tuple[str, ...]:
        known = clients.get(number, ())
        return () if len(known) > _MAX_CLIENTS else tuple(sorted(known))

    for which, direction in sorted(found.directions.items()):
        times = direction.times()
        if times and total > _MAX_GAPS:
            times = [(min(low for low, _ in times), max(high for _, high in times))]
        spans.setdefault(named(which >> 1), []).extend(times)
    for number, calls in found.waiting_at.items():
        spans.setdefault(named(number), []).extend((at, at) for at in calls)
    for number in found.unread:
        times = [(at, at) for at in found.unread_at.get(number, ())]
        spans.setdefault(named(number), []).extend(times or [(first_ns, last_ns)])
    return tuple(
        Gap(low, high, names) for names, times in sorted(spans.items()) for low, high in _merged(times)
    )


def _merged(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans in order, those that overlap or touch as one."""
    spans.sort()
    begin: int | None = None
    end = 0
    for low, high in spans:
        if begin is None:
            begin, end = low, high
        elif low <= end:
            end = max(end, high)
        else:
            yield begin, end
            begin, end = low, high
    if begin is not None:
        yield begin, end
