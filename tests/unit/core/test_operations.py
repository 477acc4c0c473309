"""Building, ordering, checking and selecting operations."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from analyzer.core.notation import parse_events
from analyzer.core.operations import build, column_list, in_stream_order, operations, select, validate
from analyzer.core.schema import EVENT_SCHEMA, OPERATION_SCHEMA, PROTOCOL_SCHEMA

ROW: dict[str, Any] = {"op_id": 0, "kind": "read", "start_lo": 5, "start_hi": 5, "end_lo": 9, "end_hi": 9}
TEXT = """
0..1 A open f
1..2 A read f 0+10
2..3 A lock f 0+10 write -> DENIED
3..4 A getattr f -> STALE
4.. A close f
"""


def test_the_two_halves_share_no_column() -> None:
    assert not set(OPERATION_SCHEMA.names) & set(PROTOCOL_SCHEMA.names)
    assert EVENT_SCHEMA.names == OPERATION_SCHEMA.names + PROTOCOL_SCHEMA.names


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "a", "b"]).dictionary_encode(),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([None, None], pa.dictionary(pa.int32(), pa.string())),
        pa.array([], pa.dictionary(pa.int32(), pa.string())),
        pa.array([1, None, 2**62]),
        pa.array([None, None], pa.int64()),
        pa.array([3, -4], pa.int32()),
        pa.array([True, None, False]),
        pa.array(["x", None]),
        pa.array([1, None, 2, 3]).slice(1, 2),
    ],
)
def test_column_list_is_to_pylist(column: pa.Array) -> None:
    found = column_list(column)
    assert found == column.to_pylist()
    assert [type(v) for v in found] == [type(v) for v in column.to_pylist()]


def test_build_refuses_a_column_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match="no such column: colour"):
        build([{**ROW, "colour": "red"}])


def test_stream_order_is_by_answer_then_unanswered_by_call_and_stable() -> None:
    times = [(0, None), (1, 9), (2, 3), (0, 9), (-1, None)]
    rows = [
        {"op_id": n, "kind": "read", "start_lo": s, "start_hi": s, "end_lo": e, "end_hi": e}
        for n, (s, e) in enumerate(times)
    ]
    assert [r.op_id for r in operations(in_stream_order(build(rows)))] == [2, 1, 3, 4, 0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "frobnicate"}, "kind: not in the closed set"),
        ({"kind": None}, "kind: null"),
        ({"outcome": "maybe"}, "outcome: not in the closed set"),
        ({"start_hi": 4}, "operation 0: time runs backwards"),
        ({"end_lo": 4}, "operation 0: time runs backwards"),
        ({"end_hi": 8}, "operation 0: time runs backwards"),
        ({"end_hi": None}, "operation 0: time runs backwards"),
        ({"end_lo": None}, "operation 0: time runs backwards"),
    ],
)
def test_validate_names_what_is_wrong(change: dict[str, Any], says: str) -> None:
    validate(build([ROW]))
    with pytest.raises(ValueError, match=says):
        validate(build([{**ROW, **change}]))


def test_validate_wants_every_column() -> None:
    with pytest.raises(ValueError, match="columns differ"):
        validate(build([ROW]).drop_columns(["xid"]))


def test_an_answer_in_the_uncertain_part_of_the_call_is_allowed() -> None:
    validate(build([{**ROW, "start_lo": 0, "start_hi": 7, "end_lo": 5}]))


@pytest.mark.parametrize(
    ("kinds", "failed", "expected"),
    [
        ((), False, ["open", "read", "lock", "getattr", "close"]),
        (("read",), False, ["read"]),
        (("read", "close"), False, ["read", "close"]),
        (("read",), True, ["read", "lock", "getattr"]),
        (("rename",), False, None),
        (("rename",), True, ["lock", "getattr"]),
    ],
)
def test_select(kinds: tuple[str, ...], failed: bool, expected: list[str] | None) -> None:
    chosen = select(parse_events(TEXT), frozenset(kinds), failed, ["kind", "client"])
    found = None if chosen is None else column_list(chosen.column("kind"))
    assert found == expected
    assert chosen is None or chosen.schema.names == ["kind", "client"]


def test_select_from_nothing() -> None:
    assert select(build([]), frozenset(), False, ["kind"]) is None
    assert select(build([]), frozenset({"read"}), True, ["kind"]) is None
