"""What a filter says: its tests with their negations, and the alternatives that make it true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from analyzer.wire.filters.syntax import (
    Call,
    Comparison,
    Exists,
    Expression,
    Field,
    Group,
    Logic,
    Membership,
    Not,
    Slice,
    Span,
    Test,
    plain,
    values,
    walk,
)
from analyzer.wire.filters.values import number, span_of

#: Most alternatives that a filter is split into; a wider one isn't judged across its tests.
MAX_ALTERNATIVES: Final = 64

_QUANTIFIED: Final = {
    ("all_ne", "any"): "any_ne", ("eq", "all"): "all_eq", ("any_ne", "all"): "all_ne",
    ("all_eq", "any"): "eq",
}  # fmt: skip
_NEGATED: Final = {"eq": "all_ne", "all_ne": "eq", "all_eq": "any_ne", "any_ne": "all_eq"}


@dataclass(frozen=True, slots=True)
class Condition:
    """One test as it counts. `field` is the tested field ("" for a function or slice); `op` is the
    canonical operator after quantifier and negation, `exists`, or `in`; `numbers` holds what `eq`,
    `in` and their negations compare with, as far as they are integers. `negated` is True for "not in",
    "not exists" and for an ordering test below a `not`; the equality operators swallow the negation."""

    field: str
    op: str
    numbers: frozenset[int]
    negated: bool
    test: Test
    outer: Span  # with the `not` around it, if that holds this test alone

    @property
    def positive(self) -> bool:
        """True if the frame must have the field, with one of the values."""
        return not self.negated and self.op not in ("all_ne", "any_ne")

    @property
    def value_span(self) -> Span:
        """Operator and right side: what is rewritten when only the comparison is wrong."""
        test = self.test
        if isinstance(test, Comparison):
            return Span(test.op_span.start, test.span.end)
        left = test.value if isinstance(test, Exists) else test.left
        return Span(left.span.end, test.span.end)

    def asks(self, *numbers: int) -> bool:
        """True if it is an equality or membership that one of the numbers satisfies."""
        return self.op in ("eq", "all_eq", "in") and not self.negated and bool(self.numbers & {*numbers})


Alternative = tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A parsed filter. `alternatives` is empty where there would be too many."""

    text: str
    tree: Expression
    conditions: tuple[Condition, ...]
    alternatives: tuple[Alternative, ...]

    def fields(self) -> frozenset[str]:
        """Every field that a test names."""
        return frozenset(v.name for c in self.conditions for v in values(c.test) if isinstance(v, Field))


def read(text: str, tree: Expression) -> Reading:
    """The reading of a tree."""
    conditions = tuple(_conditions(tree, negated=False, outer=None))
    return Reading(text, tree, conditions, tuple(_alternatives(tree, negated=False)))


def _conditions(expression: Expression, negated: bool, outer: Span | None) -> Iterator[Condition]:
    expression, span = plain(expression), expression.span
    outer = outer or span
    if isinstance(expression, Not):
        yield from _conditions(expression.inner, not negated, outer)
    elif isinstance(expression, Logic):
        yield from _conditions(expression.left, negated, None)
        yield from _conditions(expression.right, negated, None)
    else:
        assert not isinstance(expression, Group)
        yield _condition(expression, negated, outer)


def _condition(test: Test, negated: bool, outer: Span) -> Condition:
    if isinstance(test, Exists):
        return Condition(_field(test), "exists", frozenset(), negated, test, outer)
    name = _field(test)
    if isinstance(test, Membership):
        numbers: set[int] = set()
        for low, high in test.elements:
            first, last = number(low, name), number(high, name) if high is not None else None
            if first is not None:
                numbers.update(span_of(first, first if last is None else last))
        return Condition(name, "in", frozenset(numbers), negated != test.negated, test, outer)
    op = _QUANTIFIED.get((test.op, test.quantifier), test.op)
    if negated and op in _NEGATED:
        op, negated = _NEGATED[op], False
    value = number(test.right, name)
    return Condition(name, op, frozenset() if value is None else frozenset({value}), negated, test, outer)


def _field(test: Test) -> str:
    left = test.value if isinstance(test, Exists) else test.left
    return left.name if isinstance(left, Field) else ""


def _alternatives(expression: Expression, negated: bool) -> list[Alternative]:
    """Disjunctive normal form; an empty list where it would be too long."""
    outer, expression = expression.span, plain(expression)
    if isinstance(expression, Not):
        if not isinstance(plain(expression.inner), Logic | Not):
            return [tuple(_conditions(expression, negated, outer))]
        return _alternatives(expression.inner, not negated)
    if not isinstance(expression, Logic):
        return [tuple(_conditions(expression, negated, outer))]
    left, right = _alternatives(expression.left, negated), _alternatives(expression.right, negated)
    if not left or not right or expression.op == "xor":
        return []
    if (expression.op == "and") == negated:  # "or", or "and" below a "not"
        found = left + right
    elif len(left) * len(right) > MAX_ALTERNATIVES:
        return []
    else:
        found = [a + b for a in left for b in right]
    return found if len(found) <= MAX_ALTERNATIVES else []


def left_fields(test: Test) -> Iterator[Field]:
    """The fields that stand where only a field can stand (not on the right of an operator)."""
    left = test.value if isinstance(test, Exists) else test.left
    pending = [left]
    while pending:
        value = pending.pop()
        if isinstance(value, Field):
            yield value
        elif isinstance(value, Slice):
            pending.append(value.of)
        elif isinstance(value, Call):
            pending.extend(value.arguments)


def tests(tree: Expression) -> Iterator[Test]:
    """Every test of the tree, from left to right."""
    for node in walk(tree):
        if isinstance(node, Comparison | Membership | Exists):
            yield node
