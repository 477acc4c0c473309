"""Operation and status numbers: the ones that other tables get wrong, and names for the unknown."""

from __future__ import annotations

import pytest

from analyzer.core.nfs4 import (
    CALLBACKS,
    KIND_OF,
    OPERATIONS,
    STATUS_CODES,
    STATUSES,
    operation_name,
    status_name,
)
from analyzer.core.schema import KINDS


@pytest.mark.parametrize(
    ("number", "name"),
    [(12, "LOCK"), (13, "LOCKT"), (14, "LOCKU"), (18, "OPEN"), (53, "SEQUENCE"), (76, "op 76")],
)
def test_operations(number: int, name: str) -> None:
    assert operation_name(number, callback=False) == name


@pytest.mark.parametrize(
    ("number", "name"),
    [(4, "CB_RECALL"), (8, "CB_RECALL_ANY"), (10, "CB_RECALL_SLOT"), (99, "callback 99")],
)
def test_callbacks(number: int, name: str) -> None:
    assert operation_name(number, callback=True) == name


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "ok"), (10010, "DENIED"), (10030, "RESTOREFH"), (10057, "BACK_CHAN_BUSY"), (19, "status 19")],
)
def test_statuses(number: int, name: str) -> None:
    assert status_name(number) == name


def test_names_are_unique() -> None:
    assert len(STATUS_CODES) == len(STATUSES)
    names = [*OPERATIONS.values(), *CALLBACKS.values()]
    assert len(set(names)) == len(names)


def test_kinds_are_those_of_the_operations_table() -> None:
    assert set(KIND_OF.values()) <= KINDS
    assert set(KIND_OF) <= {*OPERATIONS.values(), *CALLBACKS.values()}
