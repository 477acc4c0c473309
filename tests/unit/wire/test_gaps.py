"""TCP sequence numbers: holes, their times, wrap-around, reuse of ports, late and repeated segments."""

from __future__ import annotations

import numpy as np
import pytest

from analyzer.wire import sequence
from analyzer.wire.sequence import Direction, Hole, Tracker

S, A, F, R = 0x02, 0x10, 0x01, 0x04
Row = tuple[int, int, int]  # sequence, length, flags


def fed(*blocks: list[Row], which: int = 0) -> Direction:
    """One direction; each segment takes a microsecond."""
    tracker, row = Tracker(), 0
    for block in blocks:
        order = np.arange(row, row + len(block), dtype=np.int64)
        numbers, length, flags = (np.array(c, dtype=np.int64) for c in zip(*block, strict=True))
        ways = np.full(len(block), which, dtype=np.int64)
        tracker.feed(ways, numbers, length, flags, np.zeros_like(ways), 1000 + order * 1000, order)
        row += len(block)
    return tracker.directions[which]


def test_one_after_the_other() -> None:
    found = fed([(100, 0, S), (101, 50, A), (151, 50, A), (201, 0, F | A)])
    assert (found.payload, found.missing(), found.gaps(), found.disorder) == (100, 0, 0, False)
    assert found.jumps() == []


def test_a_hole_has_its_time_and_its_frame() -> None:
    found = fed([(101, 50, A), (151, 50, A), (301, 50, A)])
    assert (found.payload, found.missing(), found.gaps()) == (250, 100, 1)
    assert found.times() == [(2000, 3000)]
    assert found.jumps() == [0, 2]  # nobody knows what came before the first frame


def test_a_hole_between_two_blocks() -> None:
    found = fed([(101, 50, A)], [(201, 50, A), (251, 50, A)])
    assert found.missing() == 50 and found.times() == [(1000, 2000)]


def test_a_hole_that_is_filled_late() -> None:
    found = fed([(100, 0, S), (101, 50, A), (201, 50, A)], [(151, 50, A), (251, 50, A)])
    assert (found.missing(), found.late, found.resent, found.disorder) == (0, 1, 0, True)
    assert found.jumps() == []


def test_a_hole_that_is_filled_in_part() -> None:
    found = fed([(101, 50, A), (301, 50, A), (171, 50, A)])
    assert [(h.first, h.after) for h in found.holes] == [(50, 70), (120, 200)]
    assert found.missing() == 100


def test_sent_again() -> None:
    found = fed([(101, 50, A), (151, 50, A), (101, 50, A), (101, 100, A)])
    assert (found.payload, found.missing(), found.resent) == (100, 0, 2)


def test_sent_again_with_more() -> None:
    found = fed([(101, 50, A), (101, 80, A), (181, 20, A)])
    assert (found.payload, found.missing()) == (100, 0)


def test_what_is_new_is_told_from_what_was_seen() -> None:
    tracker = Tracker()
    which, number, length, flags, row = np.array(
        [[0] * 4, [1, 51, 1, 101], [50] * 4, [A] * 4, [0, 1, 2, 3]], dtype=np.int64
    )
    fresh = tracker.feed(which, number, length, flags, which, row, row)
    assert fresh.tolist() == [True, True, False, True]


@pytest.mark.parametrize("split", [1, 2, 3])
def test_numbers_wrap_around(split: int) -> None:
    top = (1 << 32) - 60
    rows = [(top, 50, A), (top + 50, 50, A), (40, 50, A), (140, 50, A)]
    found = fed(rows[:split], rows[split:])
    assert (found.payload, found.missing()) == (250, 50)


def test_a_port_that_is_used_again() -> None:
    """A SYN begins a new numbering; what was missed before stays missed."""
    found = fed([(101, 50, A), (201, 50, A), (9000, 0, S), (9001, 70, A)], [(9071, 30, A)])
    assert (found.missing(), found.gaps(), found.payload) == (50, 1, 250)
    found = fed([(101, 50, A), (5, 0, S), (6, 70, A), (5, 0, S), (6, 70, A)])
    assert found.missing() == 0


def test_a_bare_acknowledgement_tells_how_far_its_sender_is() -> None:
    found = fed([(100, 0, S), (101, 50, A), (251, 0, A), (251, 50, A)])
    assert (found.missing(), found.times()) == (100, [(2000, 3000)])


def test_keep_alives_and_resets_are_no_gaps() -> None:
    found = fed([(101, 50, A), (150, 1, A), (150, 0, A), (999_999, 0, R), (151, 50, A)])
    assert (found.missing(), found.gaps(), found.resent) == (0, 0, 0)
    found = fed([(150, 0, A), (151, 50, A)])  # a keep-alive is the first that is seen
    assert found.missing() == 0


def test_what_is_acknowledged_beyond_what_was_seen() -> None:
    tracker = Tracker()
    rows = [(0, 100, 50, 7000), (1, 7000, 30, 150), (0, 150, 0, 7030), (0, 150, 0, 7090)]
    which, number, length, ack = (np.array(c, dtype=np.int64) for c in zip(*rows, strict=True))
    tracker.feed(which, number, length, np.full(4, A), ack, np.arange(4) * 1000, np.arange(4))
    tracker.finish()
    assert tracker.directions[1].holes == [Hole(30, 90, 1000, 3000)]
    assert tracker.directions[0].missing() == 0


def test_very_many_holes_are_counted_and_their_times_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "_MAX_HOLES", 10)
    monkeypatch.setattr(sequence, "_MAX_SPANS", 20)
    found = fed([(1 + n * 100, 50, A) for n in range(1000)])
    assert (found.gaps(), found.missing()) == (999, 999 * 50)
    assert len(found.times()) <= 32 and len(found.jumps()) <= 32
    assert min(low for low, _ in found.times()) == 1000
    assert max(high for _, high in found.times()) == 1_000_000


def test_many_directions_in_one_block() -> None:
    tracker, count = Tracker(), 300
    which = np.tile(np.arange(count), 3)
    number = np.repeat([1, 51, 151], count)
    tracker.feed(
        which, number, np.full(900, 50), np.full(900, A), np.zeros(900, dtype=np.int64), np.arange(900),
        np.arange(900),
    )  # fmt: skip
    assert {d.missing() for d in tracker.directions.values()} == {50}
    assert len(tracker.directions) == count
