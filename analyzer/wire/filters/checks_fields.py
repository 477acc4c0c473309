"""Checks of names and values: does the field exist, can it hold what it is compared with?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.core.nfs4 import STATUS_CODES
from analyzer.wire.filters.fault import FIELDS_4_0, SEEN_4_0, Fault, Level
from analyzer.wire.filters.fields import FUNCTIONS, STATUS_FIELDS, is_unknown, nearest, type_of
from analyzer.wire.filters.reading import Reading, left_fields, tests
from analyzer.wire.filters.syntax import (
    Call,
    Comparison,
    Edit,
    Exists,
    Field,
    Literal,
    Membership,
    Value,
    values,
)
from analyzer.wire.filters.values import integer, number

_HEX_TEXT = re.compile(r"(?:[0-9a-fA-F]{2}[:.-]?){3,}")
#: Names that Wireshark has and the RFC tables spell differently.
_ALSO_NAMES = frozenset({"GETDEVINFO", "GETDEVLIST", "WANT_DELEG", "CLAIN_DELEG_CUR_PREV_FH"})


def unknown_fields(reading: Reading) -> Iterator[Fault]:
    """Fields that don't exist. Wireshark refuses the whole filter for one of them."""
    for test in tests(reading.tree):
        for value in values(test):
            if isinstance(value, Field) and is_unknown(value.name):
                yield _unknown(value)


def _unknown(field: Field) -> Fault:
    close = nearest(field.name)
    hint = f" Nearest: {', '.join(close)}." if close else ""
    return Fault(
        "unknown-field",
        Level.ERROR,
        field.span,
        f"There is no field {field.name}: Wireshark refuses the whole filter.{hint}",
        FIELDS_4_0,
        (Edit(field.span, close[0]),) if close else (),
    )


def misplaced_values(reading: Reading) -> Iterator[Fault]:
    """A value where a field must stand, and functions that don't exist."""
    for test in tests(reading.tree):
        left = test.value if isinstance(test, Exists) else test.left
        if isinstance(left, Literal):
            edits: tuple[Edit, ...] = ()
            if isinstance(test, Comparison) and isinstance(test.right, Field):
                edits = (
                    Edit(left.span, reading.text[test.right.span.start : test.right.span.end]),
                    Edit(test.right.span, reading.text[left.span.start : left.span.end]),
                    Edit(test.op_span, _mirrored(test.written)),
                )
            message = "A field must stand on the left of the comparison, not a value."
            if isinstance(test, Exists):
                message = f"{left.text[:40]} is a value; a test needs a field and an operator."
            yield Fault("value-without-field", Level.ERROR, left.span, message, SEEN_4_0, edits)
        for value in values(test):
            if isinstance(value, Call) and value.name != "$" and value.name not in FUNCTIONS:
                message = (
                    f"There is no function {value.name[:40]}(). Known: {', '.join(sorted(FUNCTIONS))}."
                )
                yield Fault("unknown-function", Level.ERROR, value.span, message, SEEN_4_0)


def _mirrored(op: str) -> str:
    return {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}.get(
        op, op
    )


def value_types(reading: Reading) -> Iterator[Fault]:
    """Values that the field's type can't be compared with."""
    for test in tests(reading.tree):
        fields = list(left_fields(test))
        if isinstance(test, Exists) or len(fields) != 1 or test.left is not fields[0]:
            continue
        name = fields[0].name
        kind = type_of(name)
        if isinstance(test, Comparison) and test.op in ("contains", "matches"):
            yield from _search(test, name, kind)
            continue
        rights = (
            [test.right] if isinstance(test, Comparison) else [v for p in test.elements for v in p if v]
        )
        for right in rights:
            yield from _value(right, name, kind, test)


def _search(test: Comparison, name: str, kind: str) -> Iterator[Fault]:
    if kind in ("integer", "boolean"):
        edits: tuple[Edit, ...] = ()
        if number(test.right, name) is not None and test.op == "contains":
            edits = (Edit(test.op_span, "=="),)
        message = f"{name} is a number; {test.written} works on text and bytes."
        yield Fault("search-in-number", Level.ERROR, test.op_span, message, SEEN_4_0, edits)
    elif test.op == "matches" and not (isinstance(test.right, Literal) and test.right.quoted == '"'):
        text = test.right.name if isinstance(test.right, Field) else getattr(test.right, "text", "")
        edits = (Edit(test.right.span, f'"{text}"'),) if text else ()
        message = "A regular expression stands in double quotes."
        yield Fault("unquoted-pattern", Level.ERROR, test.right.span, message, SEEN_4_0, edits)


def _value(right: Value, name: str, kind: str, test: Comparison | Membership) -> Iterator[Fault]:
    if not isinstance(right, Literal | Field):
        return
    text = right.text if isinstance(right, Literal) else right.name
    quoted = right.quoted if isinstance(right, Literal) else ""
    if kind == "integer":
        yield from _integer_value(right, text, quoted, name)
    elif kind == "boolean" and text in ("true", "false"):
        message = f'Wireshark 4.0 knows True and TRUE, not "{text}"; 1 and 0 work in every version.'
        change = (Edit(right.span, "1" if text == "true" else "0"),)
        yield Fault("boolean-value", Level.ERROR, right.span, message, "wireshark-filter(4)", change)
    elif kind == "bytes":
        yield from _bytes_value(right, text, quoted, name)


def _integer_value(right: Literal | Field, text: str, quoted: str, name: str) -> Iterator[Fault]:
    bare = text.strip('"')
    if quoted == '"' and integer(bare) is not None:
        message = f"{name} is a number: a number in quotes is taken for a name and refused."
        yield Fault("quoted-number", Level.ERROR, right.span, message, SEEN_4_0, (Edit(right.span, bare),))
        return
    if quoted == "'" or name not in STATUS_FIELDS | {"nfs.opcode", "nfs.cb.operation"}:
        return
    if is_unknown(text) or type_of(text) or number(right, name) is not None or bare.upper() in _ALSO_NAMES:
        return
    code = STATUS_CODES.get(bare.upper().removeprefix("NFS4ERR_")) if name in STATUS_FIELDS else None
    if code is None and name not in STATUS_FIELDS:
        upper = Literal(bare.upper().removeprefix("OP_"), right.span)
        code = number(upper, name)
    known = f" {bare} is {code}." if code is not None else ""
    edits = (Edit(right.span, str(code)),) if code is not None else ()
    message = f"{bare[:40]} is none of the values that {name} has names for.{known}"
    yield Fault("unknown-value", Level.ERROR, right.span, message, SEEN_4_0, edits)


def _bytes_value(right: Literal | Field, text: str, quoted: str, name: str) -> Iterator[Fault]:
    lower = text.lower()
    if not quoted and lower.startswith("0x") and len(text) > 4:
        digits = "0" * (len(lower) % 2) + lower[2:]
        pairs = ":".join(digits[i : i + 2] for i in range(0, len(digits), 2))
        message = f"{name} is a byte string: more than one byte is written without 0x, as {pairs[:40]}."
        yield Fault(
            "bytes-as-number", Level.ERROR, right.span, message, SEEN_4_0, (Edit(right.span, pairs),)
        )
    elif quoted == '"' and (match := _HEX_TEXT.fullmatch(text.strip('"'))):
        message = (
            f"{name} is a byte string: in quotes these are the characters themselves, not the bytes "
            f"that they spell. Leave the quotes out."
        )
        yield Fault(
            "quoted-bytes", Level.WARNING, right.span, message, SEEN_4_0, (Edit(right.span, match[0]),)
        )


CHECKS = (unknown_fields, misplaced_values, value_types)
