"""Checks of status tests: several statuses stand in one reply, and they don't belong to one operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from analyzer.core.nfs4 import OPERATIONS, STATUSES
from analyzer.wire.filters.fault import COMPOUND, OPERATORS, SEEN_4_0, XDR_STATUSES, Fault, Level
from analyzer.wire.filters.fields import STATUS_FIELDS
from analyzer.wire.filters.reading import Alternative, Condition, Reading
from analyzer.wire.filters.syntax import Comparison, Edit, Literal, Membership, values
from analyzer.wire.filters.values import number

#: Operations that stand at the front of COMPOUNDs and succeed while a later one fails.
_FRONT: Final = frozenset({10, 22, 24, 32, 53})

#: Statuses that these answer themselves (RFC 8881 section 15.2), as far as they are theirs above all.
_OWN: Final = {
    22: frozenset({10001, 10008, 10014, 10016, 10019, 70}),
    24: frozenset({10016}),
    53: frozenset({10008, 10052, 10053, 10055, 10063, 10064, 10068, 10070, 10076, 10077, 10078}),
}

#: Status → the only operations that answer it (RFC 8881 section 15.4, RFC 7530 section 13.4).
_ANSWERED_BY: Final = {
    10010: (12, 13),  # DENIED
    10012: (25, 34, 38, 50, 68),  # LOCKED
    10015: (18,),  # SHARE_DENIED
    10028: (12, 13, 14),  # LOCK_RANGE
    10037: (4, 39, 45),  # LOCKS_HELD
    10043: (12,),  # LOCK_NOTSUPP
    10045: (12,),  # DEADLOCK
    10054: (58,),  # COMPLETE_ALREADY
}
_NAMED_ALSO: Final = frozenset({10073})  # in RFC 8881, unused


def is_status_test(condition: Condition) -> bool:
    """True for a test of an NFSv4 status that selects failures, or is meant to."""
    return condition.field in STATUS_FIELDS and not (condition.op == "all_eq" and 0 in condition.numbers)


def not_equal_zero(reading: Reading) -> Iterator[Fault]:
    """`status != 0` holds only where no status of the frame is 0."""
    for condition in reading.conditions:
        nothing_is = condition.op == "all_ne" or (condition.op == "in" and condition.negated)
        if condition.field not in STATUS_FIELDS or not nothing_is or condition.numbers != {0}:
            continue
        written = reading.text[condition.outer.start : condition.outer.end]
        if condition.outer == condition.test.span and isinstance(condition.test, Comparison):
            edit = Edit(condition.value_span, _spaced(reading.text, condition, "> 0"))
        else:
            edit = Edit(condition.outer, f"{condition.field} > 0")
        yield Fault(
            "status-not-equal-zero",
            Level.ERROR,
            condition.outer,
            f"{written[:60]} is true only where no status in the frame is 0. A failed reply nearly "
            "always also holds the 0 of the operations before the failing one (SEQUENCE, PUTFH), so "
            "the failures are hidden. Write > 0.",
            OPERATORS,
            (edit,),
        )


def _spaced(text: str, condition: Condition, change: str) -> str:
    before = text[condition.value_span.start - 1 : condition.value_span.start]
    return change if before == " " else f" {change}"


def equal_zero(reading: Reading) -> Iterator[Fault]:
    """`status == 0` holds where any status is 0: in failed replies too."""
    for condition in reading.conditions:
        if condition.field not in STATUS_FIELDS or condition.negated or condition.numbers != {0}:
            continue
        if condition.op not in ("eq", "in"):
            continue
        yield Fault(
            "status-equal-zero",
            Level.ERROR,
            condition.test.span,
            "True as soon as one operation of the reply succeeded: a DENIED reply has the statuses "
            "10010, 0, 0, 10010. Replies without any failure are === 0.",
            OPERATORS,
            (Edit(condition.value_span, _spaced(reading.text, condition, "=== 0")),),
        )


def untied(reading: Reading) -> Iterator[Fault]:
    """An operation and a status joined by `and`: nothing says that they belong together."""
    seen: set[int] = set()
    for alternative in reading.alternatives:
        statuses = [c for c in alternative if is_status_test(c)]
        operations = [c for c in alternative if c.field == "nfs.opcode" and c.positive and c.numbers]
        if not statuses or not operations:
            continue
        numbers = frozenset().union(*(c.numbers for c in operations))
        front = numbers <= _FRONT and not _own(numbers, statuses)
        hidden = [c for c in statuses if c.op == "all_ne" and c.numbers == {0}]
        if (front or hidden) and operations[0].test.span.start not in seen:
            seen.add(operations[0].test.span.start)
            yield _untied(operations[0], front)


def _own(numbers: frozenset[int], statuses: list[Condition]) -> bool:
    own = frozenset().union(*(_OWN.get(n, frozenset()) for n in numbers))
    return any(c.numbers and c.numbers <= own for c in statuses if c.op in ("eq", "in"))


def _untied(operation: Condition, front: bool) -> Fault:
    names = ", ".join(OPERATIONS.get(n, str(n)) for n in sorted(operation.numbers)[:4])
    message = (
        "Operation and status aren't tied to each other: a COMPOUND reply lists several of both, and any "
        "of its operations may be the one that failed. The failing operation is the last of the reply."
    )
    if front:
        message += (
            f" {names} stands at the front of nearly every COMPOUND, so this finds failures of others. "
            "Print -e nfs.opcode -e nfs.nfsstat4 and read the last operation."
        )
    return Fault("op-status-untied", Level.ERROR, operation.test.span, message, COMPOUND)


def status_of_other_operation(reading: Reading) -> Iterator[Fault]:
    """A status that the operation never answers."""
    seen: set[int] = set()
    for alternative in reading.alternatives:
        operations = _operations(alternative)
        if not operations or operations <= _FRONT:
            continue
        for condition in alternative:
            if condition.field not in STATUS_FIELDS or condition.op != "eq" or len(condition.numbers) != 1:
                continue
            (code,) = condition.numbers
            allowed = _ANSWERED_BY.get(code)
            if allowed is None or operations & {*allowed} or condition.test.span.start in seen:
                continue
            seen.add(condition.test.span.start)
            yield _never_answered(condition, code, allowed, operations)


def _operations(alternative: Alternative) -> frozenset[int]:
    found = [c.numbers for c in alternative if c.field == "nfs.opcode" and c.positive]
    return frozenset().union(*found)


def _never_answered(
    condition: Condition, code: int, allowed: tuple[int, ...], operations: frozenset[int]
) -> Fault:
    by = ", ".join(OPERATIONS[n] for n in allowed)
    names = ", ".join(OPERATIONS.get(n, str(n)) for n in sorted(operations)[:4])
    swap = {(10010, 18): 10015, (10015, 12): 10010, (10015, 13): 10010}.get(
        (code, min(operations, default=0))
    )
    edits: tuple[Edit, ...] = ()
    hint = ""
    if swap is not None and isinstance(condition.test, Comparison):
        edits = (Edit(condition.test.right.span, str(swap)),)
        hint = f" {names} answers {STATUSES[swap]} ({swap})."
    return Fault(
        "status-of-other-operation",
        Level.WARNING,
        condition.test.span,
        f"{code} is {STATUSES[code]}: only {by} answers it, never {names}.{hint}",
        "RFC 8881 section 15.4 (errors by operation)",
        edits,
    )


def unknown_status(reading: Reading) -> Iterator[Fault]:
    """Numbers that are no NFSv4 status, and names that Wireshark 4.0 gives to the wrong number."""
    for condition in reading.conditions:
        if condition.field != "nfs.nfsstat4":
            continue
        yield from _misnamed(condition)
        rights = [v for v in values(condition.test) if isinstance(v, Literal)]
        ranges = isinstance(condition.test, Membership) and any(high for _, high in condition.test.elements)
        if condition.op not in ("eq", "all_ne", "all_eq", "any_ne", "in") or ranges:
            continue
        for right in rights:
            code = number(right, condition.field)
            if code is None or code in STATUSES or code in _NAMED_ALSO:
                continue
            hint = ""
            edits: tuple[Edit, ...] = ()
            if code == 19:
                hint, edits = " Wireshark 4.0 names it DQUOT; that is 69.", (Edit(right.span, "69"),)
            elif code in OPERATIONS:
                hint = f" As an operation it is {OPERATIONS[code]}: that is nfs.opcode."
            message = f"{code} is no status of NFSv4.{hint}"
            yield Fault("unknown-status", Level.WARNING, right.span, message, XDR_STATUSES, edits)


def _misnamed(condition: Condition) -> Iterator[Fault]:
    for value in values(condition.test):
        text = (getattr(value, "text", "") or getattr(value, "name", "")).strip('"').upper()
        if text == "NFS4ERR_READDIR_NOSPC":
            message = (
                "Wireshark 4.0 calls 10030 READDIR_NOSPC; in the RFC it is RESTOREFH (no saved handle)."
            )
            edit = (Edit(value.span, "10030"),)
            yield Fault("misnamed-status", Level.WARNING, value.span, message, XDR_STATUSES, edit)
        elif text == "NFS4ERR_DIRDELEG_UNAVAIL":
            message = (
                "Wireshark 4.0 has this name twice: for 10084, where it belongs, and for 10057, which is "
                "BACK_CHAN_BUSY. Write the number."
            )
            edit = (Edit(value.span, "10084"),)
            yield Fault("misnamed-status", Level.WARNING, value.span, message, XDR_STATUSES, edit)


def alias(reading: Reading) -> Iterator[Fault]:
    """`nfs.status` is filled by NFSv2 and NFSv3 as well."""
    version4 = reading.fields() & {"nfs.opcode", "nfs.minorversion", "nfs.main_opcode", "nfs.cb.operation"}
    for condition in reading.conditions:
        if condition.field == "nfs.status":
            left = next(iter(values(condition.test)))
            edits = (Edit(left.span, "nfs.nfsstat4"),) if version4 else ()
            message = (
                "nfs.status also holds the status of NFSv2 and NFSv3; for NFSv4 alone use nfs.nfsstat4."
            )
            yield Fault("status-alias", Level.NOTE, left.span, message, SEEN_4_0, edits)


CHECKS = (not_equal_zero, equal_zero, untied, status_of_other_operation, unknown_status, alias)
