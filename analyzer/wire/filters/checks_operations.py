"""Checks of operation numbers: is this the operation that is meant, and does it exist in this version?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from analyzer.core.nfs4 import CALLBACKS, OPERATIONS
from analyzer.wire.filters.checks_status import is_status_test
from analyzer.wire.filters.fault import NOT_IN_41, SEEN_4_0, XDR_OPERATIONS, Fault, Level
from analyzer.wire.filters.reading import Alternative, Condition, Reading
from analyzer.wire.filters.syntax import Comparison, Edit, Exists, Field, Literal, values
from analyzer.wire.filters.values import number

LOCK: Final = 12
LOCKT: Final = 13
LOCKU: Final = 14
OPEN: Final = 18
OPEN_CONFIRM: Final = 20
SEQUENCE: Final = 53

_OPEN_FIELDS: Final = ("nfs.open_owner", "nfs.open4.", "nfs.open.", "nfs.open_rflags", "nfs.createmode4")
_LOCK_FIELDS: Final = ("nfs.lock.", "nfs.lock_owner", "nfs.lock_seqid", "nfs.locktype")
_LOCK_ALONE: Final = ("nfs.lock.", "nfs.lock_seqid")  # not in LOCKT either


def lock_numbers(reading: Reading) -> Iterator[Fault]:
    """Lock and open numbers mixed up, told by the other tests that stand beside them."""
    yield from _wrong_field(reading)
    branch = _swapped(reading)
    if branch is None:
        return
    condition = branch
    yield Fault(
        "lock-opcode",
        Level.ERROR,
        condition.test.span,
        "13 is LOCKT, which only asks and takes no lock; LOCK is 12, LOCKU is 14, OPEN is 18. As written, "
        "failures are looked for in LOCKT alone, and the 12 in the other alternative is LOCK, not OPEN.",
        XDR_OPERATIONS + "; RFC 8881 sections 18.10-18.12, 18.16",
        (Edit(condition.value_span, _in(reading.text, condition)),),
    )
    other = _twelve(reading, condition)
    yield Fault(
        "open-confirm",
        Level.NOTE,
        other.test.span if other else condition.test.span,
        "If 12 was meant as OPEN: that is 18. The OPEN_CONFIRM latency that is told along with these "
        "numbers can't be measured in NFSv4.1: OPEN_CONFIRM (20) exists in 4.0 alone, 4.1 servers answer "
        "NOTSUPP, and any sight of it is a protocol error.",
        NOT_IN_41,
    )


def _in(text: str, condition: Condition) -> str:
    spaced = text[condition.value_span.start - 1 : condition.value_span.start] == " "
    return "in {12, 13, 14}" if spaced else " in {12, 13, 14}"


def _swapped(reading: Reading) -> Condition | None:
    for alternative in reading.alternatives:
        asked = [c for c in alternative if c.asks(LOCKT) and c.field == "nfs.opcode"]
        if len(asked) == 1 and asked[0].numbers == {LOCKT} and any(map(is_status_test, alternative)):
            if any(c.asks(LOCK) for c in alternative):
                continue
            if _twelve(reading, asked[0]):
                return asked[0]
    return None


def _twelve(reading: Reading, but: Condition) -> Condition | None:
    """The test for 12 in an alternative that names an owner and no status."""
    for alternative in reading.alternatives:
        if but in alternative or any(map(is_status_test, alternative)):
            continue
        if any("owner" in c.field for c in alternative):
            for condition in alternative:
                if condition.field == "nfs.opcode" and condition.asks(LOCK):
                    return condition
    return None


def _wrong_field(reading: Reading) -> Iterator[Fault]:
    seen: set[int] = set()
    for alternative in reading.alternatives:
        asked = [c for c in alternative if c.field == "nfs.opcode" and c.positive and c.numbers]
        if len(asked) != 1 or len(asked[0].numbers) != 1 or asked[0].test.span.start in seen:
            continue
        (code,) = asked[0].numbers
        for wrong, families, right in (
            (LOCK, _OPEN_FIELDS, OPEN),
            (LOCKT, _LOCK_ALONE, LOCK),
            (OPEN, _LOCK_FIELDS, LOCK),
        ):
            if code != wrong:
                continue
            beside = [c.field for c in alternative if c.positive and c.field.startswith(families)]
            if beside:
                seen.add(asked[0].test.span.start)
                yield _other_operation(asked[0], code, right, beside[0])


def _other_operation(condition: Condition, code: int, right: int, beside: str) -> Fault:
    edits: tuple[Edit, ...] = ()
    if isinstance(condition.test, Comparison):
        edits = (Edit(condition.test.right.span, str(right)),)
    return Fault(
        "lock-opcode",
        Level.ERROR,
        condition.test.span,
        f"{code} is {OPERATIONS[code]}, which has no {beside}; {OPERATIONS[right]} is {right}.",
        XDR_OPERATIONS,
        edits,
    )


def unknown_numbers(reading: Reading) -> Iterator[Fault]:
    """Numbers that no operation, callback or procedure has."""
    for condition in reading.conditions:
        if condition.op not in ("eq", "all_eq", "all_ne", "any_ne", "in") or isinstance(
            condition.test, Exists
        ):
            continue
        for value in values(condition.test):
            if isinstance(value, Literal) and (code := number(value, condition.field)) is not None:
                yield from _unknown(condition, value, code)


def _unknown(condition: Condition, value: Literal, code: int) -> Iterator[Fault]:
    edits: tuple[Edit, ...] = ()
    if condition.field == "nfs.opcode" and code not in OPERATIONS and not 76 <= code < 200:
        message = f"{code} is no operation of NFSv4; the first is ACCESS (3)."
        if code > 10000:
            message = f"{code} is no operation of NFSv4; numbers from 10001 on are statuses: nfs.nfsstat4."
        elif code in (0, 1):
            message = (
                f"{code} is the procedure {('NULL', 'COMPOUND')[code]}, not an operation: nfs.procedure_v4."
            )
    elif condition.field == "nfs.cb.operation" and code not in CALLBACKS:
        name = f"; {code} is the operation {OPERATIONS[code]}: nfs.opcode" if code in OPERATIONS else ""
        message = f"{code} is no callback{name}."
    elif condition.field == "nfs.procedure_v4" and code > 1:
        field = next(iter(values(condition.test)))
        edits = (Edit(field.span, "nfs.opcode"),) if code in OPERATIONS else ()
        message = "NFSv4 has two procedures, NULL (0) and COMPOUND (1); operations are in nfs.opcode."
    elif condition.field == "nfs.status3" and code > 10008:
        message = f"{code} is a status of NFSv4; NFSv3 ends at 10008 (JUKEBOX)."
    else:
        return
    yield Fault("unknown-operation", Level.ERROR, value.span, message, XDR_OPERATIONS, edits)


def open_confirm(reading: Reading) -> Iterator[Fault]:
    """OPEN_CONFIRM without a word on the minor version."""
    seen: set[int] = set()
    for alternative in reading.alternatives:
        for condition in alternative:
            if condition.field != "nfs.opcode" or not condition.asks(OPEN_CONFIRM):
                continue
            if _names_version(alternative) or condition.test.span.start in seen:
                continue
            seen.add(condition.test.span.start)
            span = condition.test.span
            yield Fault(
                "open-confirm",
                Level.WARNING,
                span,
                "OPEN_CONFIRM (20) exists in NFSv4.0 alone. In 4.1 and later it must not be implemented: "
                "there it is a protocol error, not a latency to measure. Say which version is meant "
                "(4.1 replies hold SEQUENCE, 53; nfs.minorversion is in calls only).",
                NOT_IN_41 + "; RFC 7530 section 16.18",
                (Edit(span, f"({reading.text[span.start : span.end]} && !(nfs.opcode == 53))"),),
            )


def _names_version(alternative: Alternative) -> bool:
    return any(
        c.field == "nfs.minorversion" or (c.field == "nfs.opcode" and c.numbers == {SEQUENCE})
        for c in alternative
    )


def minor_version(reading: Reading) -> Iterator[Fault]:
    """Operations that the asked minor version doesn't have yet."""
    for alternative in reading.alternatives:
        asked = [c for c in alternative if c.field == "nfs.minorversion" and c.op == "eq" and not c.negated]
        for condition in alternative:
            if (
                not asked
                or condition.field != "nfs.opcode"
                or not condition.positive
                or not condition.numbers
            ):
                continue
            newest = max(asked[0].numbers, default=2)
            first = 40 if newest == 0 else 59 if newest == 1 else 10**6
            if first <= min(condition.numbers) and max(condition.numbers) < 10000:
                name = OPERATIONS.get(min(condition.numbers), str(min(condition.numbers)))
                since = "4.1" if min(condition.numbers) < 59 else "4.2"
                message = f"{name} exists since NFSv{since}: in 4.{newest} this never matches."
                yield Fault(
                    "operation-not-in-version", Level.ERROR, condition.test.span, message, XDR_OPERATIONS
                )


def not_equal_operation(reading: Reading) -> Iterator[Fault]:
    """`nfs.opcode != 53` hides every COMPOUND that holds a SEQUENCE: all of NFSv4.1."""
    for alternative in reading.alternatives:
        if any(c.field in ("nfs.opcode", "nfs.minorversion") and c.positive for c in alternative):
            continue
        for condition in alternative:
            if (
                condition.field == "nfs.opcode"
                and condition.op == "all_ne"
                and condition.numbers == {SEQUENCE}
            ):
                edits: tuple[Edit, ...] = ()
                if isinstance(condition.test, Comparison) and condition.outer == condition.test.span:
                    edits = (Edit(condition.test.op_span, "!=="),)
                yield Fault(
                    "not-equal-sequence",
                    Level.WARNING,
                    condition.outer,
                    "True only where no operation of the frame is SEQUENCE. In 4.1 and later nearly every "
                    "COMPOUND begins with it, so all of them are hidden. With another operation: !== 53.",
                    "RFC 8881 section 18.46; wireshark-filter(4)",
                    edits,
                )


def layers(reading: Reading) -> Iterator[Fault]:
    """`nfs.opcode#3` isn't the third operation."""
    for condition in reading.conditions:
        for value in values(condition.test):
            if isinstance(value, Field) and value.layer and value.name.startswith(("nfs.", "rpc.")):
                message = (
                    "# counts protocol layers in the frame, not operations: "
                    f"{value.name}#{value.layer} isn't the operation at that place. Print the list "
                    "and count: -e nfs.opcode."
                )
                edit = (Edit(value.span, value.name),)
                yield Fault("layer-operator", Level.ERROR, value.span, message, SEEN_4_0, edit)


CHECKS = (lock_numbers, unknown_numbers, open_confirm, minor_version, not_equal_operation, layers)
