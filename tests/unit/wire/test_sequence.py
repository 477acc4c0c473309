"""What one side acknowledged and the capture doesn't hold."""

import numpy as np

from analyzer.wire.sequence import Tracker

ACK, SYN_ACK = 0x10, 0x12


def fed(
    which: list[int], sequence: list[int], length: list[int], ack: list[int], flags: list[int]
) -> Tracker:
    tracker = Tracker()
    columns = (which, sequence, length, flags, ack, range(1000, 1000 + len(which)), range(len(which)))
    tracker.feed(*(np.array(c, dtype=np.int64) for c in columns))
    tracker.finish()
    return tracker


def test_a_direction_that_is_never_seen_is_told_by_its_acknowledgements() -> None:
    tracker = fed([0, 0, 0], [100, 200, 300], [100, 100, 0], [5000, 5080, 5200], [ACK] * 3)
    assert tracker.directions[0].missing() == 0
    assert tracker.directions[1].payload == tracker.directions[1].missing() == 200


def test_a_direction_that_says_nothing_misses_nothing() -> None:
    tracker = fed([0, 0], [100, 200], [100, 100], [5000, 5000], [ACK] * 2)
    assert 1 not in tracker.directions


def test_what_was_seen_and_acknowledged_is_not_missing() -> None:
    tracker = fed([0, 1, 0], [100, 5000, 200], [100, 80, 0], [5000, 200, 5080], [ACK] * 3)
    assert all(direction.missing() == 0 for direction in tracker.directions.values())


def test_acknowledgements_of_the_connection_before_do_not_count() -> None:
    # endpoints reused: the old connection's numbers, then a SYN of the side that answers
    tracker = fed(
        [0, 1, 0, 0], [100, 9000, 200, 300], [100, 0, 100, 0], [5000, 200, 9001, 9001],
        [ACK, SYN_ACK, ACK, ACK],
    )  # fmt: skip
    assert tracker.directions[1].missing() == 0
