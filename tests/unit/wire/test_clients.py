"""Which client an operation belongs to, and that it keeps its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analyzer.core.schema import TEXT
from analyzer.wire.clients import ClientNames
from analyzer.wire.codes import Endpoints

SERVER = "10.0.0.1:2049"
COLUMNS = ("op", "session", "clientid", "identity")


def row(op: str, connection: int = 0, status: int = 0, **cells: str) -> dict[str, Any]:
    return {"op": op, "connection": connection, "status_code": status, **cells}


def named(*batches: list[dict[str, Any]], begun: tuple[int, ...] = ()) -> list[str]:
    """The client of every row."""
    names = ClientNames(["10.0.0.7:900", "10.0.0.8:900", "10.0.0.9:900"], begun)
    found: list[str] = []
    for rows in batches:
        columns = {n: pa.array([r.get(n) for r in rows], type=TEXT) for n in COLUMNS}
        columns["status_code"] = pa.array([r["status_code"] for r in rows])
        batch = pa.record_batch(list(columns.values()), names=list(columns))
        connection = np.array([r["connection"] for r in rows], dtype=np.int64)
        numbers, which = np.unique(connection, return_inverse=True)
        endpoint = Endpoints([SERVER] * len(numbers), which)
        names.learn(batch, endpoint, columns["identity"], connection)
        found += names.columns(columns, endpoint, connection)["client"].to_pylist()
    return found


MOUNT = [
    row("EXCHANGE_ID", identity="hostA", clientid="0xa1"),
    row("CREATE_SESSION", session="s1", clientid="0xa1"),
]


def test_session_to_client_id_to_identity() -> None:
    assert named([*MOUNT, row("SEQUENCE", session="s1"), row("READ", session="s1")]) == ["hostA"] * 4


def test_a_session_on_another_connection_is_the_same_client() -> None:
    assert named(MOUNT, [row("SEQUENCE", 1, session="s1")])[-1] == "hostA"


@pytest.mark.parametrize("split", [1, 2, 3, 4])
def test_a_client_from_before_the_capture_keeps_its_name(split: int) -> None:
    """It is called by its session; then an owner tells its client id, then it recovers and names itself."""
    rows = [
        row("SEQUENCE", session="s0"),
        row("OPEN", session="s0", clientid="0xa0"),
        row("SEQUENCE", session="s0", status=10052),
        row("CREATE_SESSION", status=10022, clientid="0xa0"),
        row("EXCHANGE_ID", identity="hostA", clientid="0xa1"),
        row("CREATE_SESSION", session="s1", clientid="0xa1"),
        row("SEQUENCE", session="s1"),
        row("SEQUENCE", 1, session="s1"),
    ]
    assert named(rows[:split], rows[split:], begun=(0,)) == ["session s0"] * 8


def test_whoever_names_itself_next_is_somebody_else() -> None:
    rows = [
        row("SEQUENCE", session="s0"),
        row("EXCHANGE_ID", identity="hostA", clientid="0xa1"),
        row("EXCHANGE_ID", identity="hostB", clientid="0xb1"),
    ]
    assert named(rows) == ["session s0", "session s0", "hostB"]


def test_a_session_that_never_was_is_no_other_client() -> None:
    assert (
        named([*MOUNT, row("SEQUENCE", session="s1"), row("SEQUENCE", session="0000", status=10052)])
        == ["hostA"] * 4
    )


def test_two_sessions_of_one_client_id() -> None:
    rows = [row("OPEN", session="s0", clientid="0xa0"), row("LOCK", session="s9", clientid="0xa0")]
    assert named(rows) == ["session s0", "session s0"]


def test_a_client_id_of_zero_says_nothing() -> None:
    zero = "0x0000000000000000"
    rows = [row("OPEN", session="s0", clientid=zero), row("OPEN", 1, session="s9", clientid=zero)]
    assert named(rows) == ["session s0", "session s9"]


def test_version_0_is_known_by_its_connection() -> None:
    rows = [row("SETCLIENTID", identity="hostA", clientid="0xa1"), row("PUTFH"), row("PUTFH", 1)]
    assert named(rows) == ["hostA", "hostA", "10.0.0.8:900"]


def test_version_0_from_before_the_capture_keeps_its_name() -> None:
    rows = [
        row("PUTFH"),
        row("OPEN", clientid="0xa0"),
        row("RENEW", status=10022, clientid="0xa0"),
        row("SETCLIENTID", identity="hostA", clientid="0xa1"),
        row("OPEN", clientid="0xa1"),
    ]
    assert named(rows, begun=(0,)) == ["10.0.0.7:900"] * 5
