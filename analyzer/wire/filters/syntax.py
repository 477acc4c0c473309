"""The shapes of a display filter: places in the text, tokens, and the syntax tree.

A `Span` is a half-open range of character positions, 0-based. Every node knows its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Characters `start` up to and without `end`."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """From the beginning of this one to the end of the other."""
        return Span(self.start, other.end)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is word, string, char, op (an operator or a bracket), range (inside a slice), or end."""

    kind: str
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters of `span` by `text`. `rank` orders insertions at one place."""

    span: Span
    text: str
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Field:
    """A field or protocol name; `layer` is the text after `#`, `raw` is the `@` form."""

    name: str
    span: Span
    layer: str = ""
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Literal:
    """A value. `quoted` is the quote character ("\"" or "'"), empty for a bare word."""

    text: str
    span: Span
    quoted: str = ""


@dataclass(frozen=True, slots=True)
class Slice:
    """Some bytes of a field: `frame[0:4]`."""

    of: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """A function: `count(nfs.opcode)`."""

    name: str
    arguments: tuple[Value, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right`, or `-right` with `left` None."""

    op: str
    left: Value | None
    right: Value
    span: Span


Value = Field | Literal | Slice | Call | Arithmetic


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`. `op` is canonical (see `COMPARISONS`), `written` as it stands in the text."""

    op: str
    written: str
    left: Value
    right: Value
    span: Span
    op_span: Span
    quantifier: str = ""


@dataclass(frozen=True, slots=True)
class Membership:
    """`left in {a, b..c}`; `elements` are (low, high or None)."""

    left: Value
    elements: tuple[tuple[Value, Value | None], ...]
    negated: bool
    span: Span
    quantifier: str = ""


@dataclass(frozen=True, slots=True)
class Exists:
    """A field alone: true where the frame has it."""

    value: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Not:
    """`!inner`."""

    inner: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Logic:
    """`left and right`, `left or right`, `left xor right`."""

    op: str
    left: Expression
    right: Expression
    span: Span
    op_span: Span


@dataclass(frozen=True, slots=True)
class Group:
    """`( inner )`."""

    inner: Expression
    span: Span


Expression = Comparison | Membership | Exists | Not | Logic | Group
Test = Comparison | Membership | Exists

#: Written operator → canonical name. The meaning of `!=` is that of Wireshark 3.6 and later: no
#: occurrence is equal.
COMPARISONS = {
    "==": "eq", "eq": "eq", "any_eq": "eq",
    "!=": "all_ne", "ne": "all_ne", "all_ne": "all_ne",
    "===": "all_eq", "all_eq": "all_eq",
    "!==": "any_ne", "any_ne": "any_ne", "~=": "any_ne",
    ">": "gt", "gt": "gt", ">=": "ge", "ge": "ge", "<": "lt", "lt": "lt", "<=": "le", "le": "le",
    "contains": "contains", "matches": "matches", "~": "matches",
}  # fmt: skip


def plain(expression: Expression) -> Expression:
    """The expression without the parentheses around it."""
    while isinstance(expression, Group):
        expression = expression.inner
    return expression


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, from left to right."""
    yield expression
    if isinstance(expression, Not | Group):
        yield from walk(expression.inner)
    elif isinstance(expression, Logic):
        yield from walk(expression.left)
        yield from walk(expression.right)


def values(test: Test) -> Iterator[Value]:
    """Every value of a test, with what slices, functions and arithmetic are made of."""
    found: list[Value] = []
    if isinstance(test, Exists):
        found = [test.value]
    elif isinstance(test, Comparison):
        found = [test.left, test.right]
    else:
        found = [test.left, *(v for pair in test.elements for v in pair if v is not None)]
    while found:
        value = found.pop(0)
        yield value
        if isinstance(value, Slice):
            found.insert(0, value.of)
        elif isinstance(value, Call):
            found[:0] = value.arguments
        elif isinstance(value, Arithmetic):
            found[:0] = [v for v in (value.left, value.right) if v is not None]


def apply(text: str, edits: tuple[Edit, ...]) -> str:
    """The text with the edits made. An edit that overlaps one before it is left out, as is a double."""
    chosen: list[Edit] = []
    for edit in edits:
        if edit not in chosen and not any(_overlap(edit.span, other.span) for other in chosen):
            chosen.append(edit)
    chosen.sort(key=lambda e: (e.span.start, e.span.end, e.rank))
    parts, position = [], 0
    for edit in chosen:
        parts += [text[position : edit.span.start], edit.text]
        position = edit.span.end
    return "".join([*parts, text[position:]])


def _overlap(a: Span, b: Span) -> bool:
    if a.start == a.end or b.start == b.end:  # an insertion clashes only inside the other
        point, other = (a, b) if a.start == a.end else (b, a)
        return other.start < point.start < other.end
    return a.start < b.end and b.start < a.end
