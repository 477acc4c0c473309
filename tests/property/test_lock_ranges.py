"""The range table against a model that knows nothing but single bytes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.analysis.lock_fold import READS, Walk
from analyzer.analysis.lock_ranges import EOF, Grant, length_of, stop_of
from analyzer.analysis.locks import LockFile, LockHold, LockWait
from analyzer.core.notation import parse_events
from analyzer.core.table import Tables
from tests.unit.analysis.lock_tables import tables_of

SIZE = 24  # bytes; a lock to the end of the file reaches beyond
OWNERS = "abc"

steps = st.lists(
    st.tuples(
        st.sampled_from(["lock", "lock", "unlock"]),
        st.sampled_from(OWNERS),
        st.integers(0, SIZE - 1),
        st.one_of(st.just(-1), st.integers(1, 10)),
        st.booleans(),
    ),
    max_size=40,
)


def spread(grants: list[Grant]) -> dict[tuple[str | None, int], bool]:
    """(owner, byte) -> is it a write lock; fails where two grants of one owner cover one byte."""
    found: dict[tuple[str | None, int], bool] = {}
    for grant in grants:
        for byte in range(grant.start, min(grant.stop, SIZE + 12)):
            assert (grant.owner.name, byte) not in found
            found[grant.owner.name, byte] = grant.write
    return found


@settings(max_examples=300, deadline=None)
@given(steps)
def test_ranges_agree_with_single_bytes(chosen: list[tuple[str, str, int, int, bool]]) -> None:
    model: dict[tuple[str | None, int], bool] = {}
    walk = Walk(Tables())
    for number, (what, owner, offset, length, write) in enumerate(chosen):
        span = range(offset, min(stop_of(offset, length), SIZE + 12))
        clash = any(
            (other, byte) in model and (write or model[other, byte])
            for other in OWNERS
            if other != owner
            for byte in span
        )
        text = f"{offset}+{'eof' if length < 0 else length}"
        line = f"{number} C{owner} {what} f {text} "
        if what == "unlock":
            line += f"stateid=s{owner}"
            for byte in span:
                model.pop((owner, byte), None)
        else:
            line += f"{'write' if write else 'read'} blocking owner={owner} new_stateid=s{owner}"
            if clash:
                line += " -> DENIED"
            else:
                model.update({(owner, byte): write for byte in span})
        walk.feed(parse_events(line).select(list(READS)))
        server = walk.servers["server:2049"]
        table = server.tables.get("f")
        assert spread(table.ranges.grants if table else []) == model
        if table is not None:
            for other in OWNERS:
                stops = {b for (o, b), w in model.items() if o != other and (write or w)}
                asked = server.owners.named(f"C{other}", other)
                found = bool(table.ranges.conflicts(asked, offset, stop_of(offset, length), write))
                assert found == bool(stops & set(span))


@settings(max_examples=60, deadline=None)
@given(steps, st.integers(1, 5))
def test_rows_are_whole_and_add_up(chosen: list[tuple[str, str, int, int, bool]], batches: int) -> None:
    """Whatever a server answers: no crash, times in order, a wait is the sum of its parts."""
    lines = []
    for number, (what, owner, offset, length, write) in enumerate(chosen):
        text = f"{offset}+{'eof' if length < 0 else length} {'write' if write else 'read'}"
        status = ("ok", "DENIED", "GRACE", "EXPIRED")[(number * 7 + offset) % 4 if what == "lock" else 0]
        holder = OWNERS[(OWNERS.index(owner) + 1) % 3]
        lines.append(
            f"{number}..{number + 1 + offset % 3} C{owner} {what} f {text} blocking stateid=s{owner} "
            f"new_stateid=s{owner} -> {status} clientid=C{owner} owner={owner} holder_clientid=C{holder} "
            f"holder_owner={holder} holder_offset={offset} holder_length={max(length, 0)}"
        )
    if not lines:
        return
    tables = tables_of("\n".join(lines), batches=batches)
    for hold in tables.of(LockHold):
        assert hold.end_ns is None or hold.start_ns <= hold.end_ns
        assert hold.length == -1 or hold.length > 0
    waits = list(tables.of(LockWait))
    for wait in waits:
        assert min(wait.hold_ns, wait.queue_ns, wait.backoff_ns) >= 0
        assert wait.hold_ns + wait.queue_ns + wait.backoff_ns == wait.wait_ns
    assert sum(f.waits for f in tables.of(LockFile)) == len(waits)


def test_length_and_stop_are_inverse() -> None:
    assert length_of(5, stop_of(5, -1)) == -1
    assert length_of(5, stop_of(5, 7)) == 7
    assert stop_of(0, -1) == EOF
