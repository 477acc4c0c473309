"""Numbers in tests: what they are, and what they mean."""

from __future__ import annotations

from typing import Final

from analyzer.core.nfs4 import CALLBACKS, OPERATIONS, STATUS_CODES, operation_name, status_name
from analyzer.wire.filters.syntax import Arithmetic, Field, Literal, Value

_OPERATION_NUMBERS: Final = {name: number for number, name in OPERATIONS.items()}
_CALLBACK_NUMBERS: Final = {name: number for number, name in CALLBACKS.items()}

#: Names in Wireshark 4.0.17 that differ from the RFC's; what they stand for there.
WIRESHARK_NAMES: Final = {"NFS4ERR_READDIR_NOSPC": 10030}

#: Widest range in a set that is spelled out.
_WIDEST: Final = 20_000


def number(value: Value, field: str = "") -> int | None:
    """The integer that a value is; names of operations and statuses count for their fields."""
    if isinstance(value, Arithmetic) and value.left is None:
        inner = number(value.right, field)
        return None if inner is None else (-inner if value.op == "-" else inner)
    if isinstance(value, Literal | Field):
        text = value.text if isinstance(value, Literal) else value.name
        if isinstance(value, Literal) and value.quoted == '"':
            text = text.strip('"')
            return _named(text, field)
        parsed = integer(text)
        return parsed if parsed is not None else _named(text, field)
    return None


def integer(text: str) -> int | None:
    """C-like: decimal, `0x` hexadecimal, `0b` binary, leading 0 octal; None for anything else."""
    lower = text.lower()
    base = 16 if lower.startswith("0x") else 2 if lower.startswith("0b") else 10
    if base == 10 and len(lower) > 1 and lower.startswith("0"):
        base = 8
    try:
        return int(lower, base) if "_" not in lower and len(lower) <= 40 else None
    except ValueError:
        return None


def _named(text: str, field: str) -> int | None:
    text = text.upper()  # Wireshark compares the names of values without regard to case
    if field in ("nfs.opcode", "nfs.main_opcode"):
        return _OPERATION_NUMBERS.get(text)
    if field == "nfs.cb.operation":
        return _CALLBACK_NUMBERS.get(text)
    if field in ("nfs.nfsstat4", "nfs.status"):
        if text in WIRESHARK_NAMES:
            return WIRESHARK_NAMES[text]
        name = text.removeprefix("NFS4ERR_")
        return 0 if text == "NFS4_OK" else STATUS_CODES.get(name) if name != text else None
    return None


def span_of(low: int, high: int) -> range:
    """The integers from low to high, at most `_WIDEST` of them."""
    return range(low, min(high, low + _WIDEST) + 1)


def meaning(field: str, value: int) -> str:
    """`nfs.opcode`, 12 → `LOCK`; empty where the number has no name."""
    if field in ("nfs.opcode", "nfs.main_opcode"):
        return operation_name(value, callback=False)
    if field == "nfs.cb.operation":
        return operation_name(value, callback=True)
    if field in ("nfs.nfsstat4", "nfs.status"):
        return "OK" if value == 0 else status_name(value)
    if field == "rpc.msgtyp":
        return {0: "call", 1: "reply"}.get(value, "")
    return ""
