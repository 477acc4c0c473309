"""Share modes: who stands in the way of an OPEN."""

from __future__ import annotations

import pytest

from analyzer.analysis.opens import FOLD, ShareConflict
from tests.unit.analysis.lock_tables import tables_of

MS = 1_000_000
DENIED = "2..2.1 B open f owner=b share_access={} share_deny={} -> SHARE_DENIED"


def rows(text: str, batches: int = 1) -> list[ShareConflict]:
    return list(tables_of(text, [FOLD], batches).of(ShareConflict))


@pytest.mark.parametrize("batches", [1, 3])
def test_the_holder_is_the_open_with_the_deny_mode(batches: int) -> None:
    (row,) = rows(
        "0..0.1 A open f owner=a new_stateid=sa share_access=1 share_deny=0\n"
        "0.2..0.3 C open f owner=c new_stateid=sc share_access=3 share_deny=3\n" + DENIED.format(3, 0),
        batches,
    )
    assert (row.client, row.holder_client, row.holder_access, row.holder_deny) == ("B", "C", 3, 3)
    assert row.holder_since_ns == 300 * MS
    assert (row.holders, row.by_name) == (1, False)


def test_an_access_that_the_caller_wants_to_deny() -> None:
    (row,) = rows(
        "0..0.1 A open f owner=a new_stateid=sa share_access=1 share_deny=0\n"
        "0.2..0.3 C open f owner=c new_stateid=sc share_access=2 share_deny=0\n" + DENIED.format(1, 2)
    )
    assert row.holder_client == "C"


@pytest.mark.parametrize(
    "undone",
    [
        "1..1.1 C close f stateid=sc",
        "1..1.1 C open f op=OPEN_DOWNGRADE stateid=sc share_access=1 share_deny=0",
        "1..1.1 C session - op=EXCHANGE_ID clientid=C1\n1.2..1.3 C session - op=EXCHANGE_ID clientid=C2",
    ],
)
def test_an_open_that_is_over_stands_in_nobodys_way(undone: str) -> None:
    opened = "0..0.1 C open f owner=c new_stateid=sc share_access=3 share_deny=3\n"
    (row,) = rows(opened + DENIED.format(2, 0))
    assert row.holder_client == "C"
    (row,) = rows(opened + undone + "\n" + DENIED.format(2, 0))
    assert row.holder_client is None


def test_modes_of_one_owner_add_up() -> None:
    (row,) = rows(
        "0..0.1 C open f owner=c new_stateid=sc share_access=1 share_deny=0\n"
        "0.2..0.3 C open f owner=c new_stateid=sc share_access=2 share_deny=2\n" + DENIED.format(2, 0)
    )
    assert (row.holder_access, row.holder_deny) == (3, 2)


def test_found_by_the_name_alone() -> None:
    (row,) = rows(
        "0..0.1 C open handle7 owner=c new_stateid=sc share_access=3 share_deny=3 name=f path=/d/f\n"
        "2..2.1 B open parent owner=b share_access=3 share_deny=0 name=f path=/e/f -> SHARE_DENIED"
    )
    assert (row.holder_client, row.by_name) == ("C", True)


def test_pairs_are_left_out_without_loss() -> None:
    storm = "\n".join(
        f"{i}..{i}.1 A open f{i} owner=a new_stateid=s{i} share_access=2 share_deny=0\n"
        f"{i}.2..{i}.3 A close f{i} stateid=s{i}"
        for i in range(10)
    )
    (row,) = rows(
        storm
        + "\n11..11.1 A open g owner=a new_stateid=sg share_access=2 share_deny=0\n"
        + "12..12.1 B open g owner=b share_access=1 share_deny=2 -> SHARE_DENIED",
        batches=2,
    )
    assert row.holder_client == "A"
