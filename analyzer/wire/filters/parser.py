"""Tokens → syntax tree, by recursive descent after Wireshark's grammar (epan/dfilter/grammar.lemon).

Precedence from weak to strong: `or`, `xor`, `and`, `not`, comparison, `&`, `+ -`, `* / %`.
"""

from __future__ import annotations

from analyzer.wire.filters.syntax import (
    COMPARISONS,
    Arithmetic,
    Call,
    Comparison,
    Edit,
    Exists,
    Expression,
    Field,
    Group,
    Literal,
    Logic,
    Membership,
    Not,
    Slice,
    Span,
    Token,
    Value,
)
from analyzer.wire.filters.tokens import MAX_LENGTH, FilterSyntaxError, tokenize

#: Deepest nesting of parentheses and negations that is followed.
MAX_DEPTH = 64

_AND = {"&&", "and"}
_OR = {"||", "or"}
_XOR = {"^^", "xor"}
_NOT = {"!", "not"}
_ARITHMETIC = ({"&", "bitand", "bitwise_and"}, {"+", "-"}, {"*", "/", "%"})
_CAPTURE_WORDS = {"host", "net", "port", "portrange", "src", "dst"}
_RESERVED = {w for w in COMPARISONS if w.isidentifier()} | {"and", "or", "xor", "not", "in", "any", "all"}


def parse(text: str) -> Expression | None:
    """The tree, or None for an empty filter; raises `FilterSyntaxError` with the place."""
    if len(text) > MAX_LENGTH:
        message = f"The expression has {len(text)} characters; at most {MAX_LENGTH} are read."
        raise FilterSyntaxError(message, Span(MAX_LENGTH, MAX_LENGTH))
    tokens = tokenize(text)
    if len(tokens) == 1:
        return None
    return _Parser(text, tokens).sentence()


class _Parser:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    def sentence(self) -> Expression:
        expression = self.alternatives()
        if self.now.kind != "end":
            raise self.unexpected()
        return expression

    @property
    def now(self) -> Token:
        return self.tokens[self.at]

    def take(self, choices: set[str]) -> Token | None:
        token = self.now
        if token.kind in ("word", "op") and token.text in choices:
            self.at += 1
            return token
        return None

    def want(self, symbol: str, message: str) -> Token:
        token = self.take({symbol})
        if token is None:
            if self.now.kind != "end":
                raise self.unexpected()
            end = Span(len(self.text), len(self.text))
            raise FilterSyntaxError(message, end, (Edit(end, symbol),))
        return token

    # logic

    def alternatives(self) -> Expression:
        left = self.exclusives()
        while token := self.take(_OR):
            right = self.exclusives()
            left = Logic("or", left, right, left.span.to(right.span), token.span)
        return left

    def exclusives(self) -> Expression:
        left = self.conjunction()
        while token := self.take(_XOR):
            right = self.conjunction()
            left = Logic("xor", left, right, left.span.to(right.span), token.span)
        return left

    def conjunction(self) -> Expression:
        left = self.negation()
        while token := self.take(_AND):
            right = self.negation()
            left = Logic("and", left, right, left.span.to(right.span), token.span)
        return left

    def negation(self) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise FilterSyntaxError(f"Nested more than {MAX_DEPTH} deep.", self.now.span)
        try:
            if token := self.take(_NOT):
                inner = self.negation()
                return Not(inner, token.span.to(inner.span))
            if self.now.text == "(" and self.now.kind == "op":
                return self.group()
            return self.test()
        finally:
            self.depth -= 1

    def group(self) -> Expression:
        opening = self.want("(", "")
        inner = self.alternatives()
        closing = self.want(")", 'A "(" is never closed.')
        return Group(inner, opening.span.to(closing.span))

    # tests

    def test(self) -> Expression:
        quantifier = self.take({"any", "all"})
        first = quantifier.span if quantifier else self.now.span
        word = quantifier.text if quantifier else ""
        left = self.value()
        if self.now.text == "not" and self.tokens[self.at + 1].text == "in":
            self.at += 1
            return self.membership(left, first, word, negated=True)
        if self.now.kind == "word" and self.now.text == "in":
            return self.membership(left, first, word, negated=False)
        if self.now.kind in ("word", "op") and self.now.text in COMPARISONS:
            return self.comparison(left, first, word)
        if quantifier:
            message = f'"{word}" needs a comparison after the field.'
            raise FilterSyntaxError(message, quantifier.span, (Edit(quantifier.span, ""),))
        return Exists(left, left.span)

    def comparison(self, left: Value, first: Span, quantifier: str) -> Expression:
        token = self.now
        self.at += 1
        if self.now.text == "{" and COMPARISONS[token.text] == "eq":
            closing = next((t for t in self.tokens[self.at :] if t.text == "}"), None)
            inside = self.text[self.now.span.end : closing.span.start] if closing else ""
            if "," in inside or ".." in inside:
                message = 'A set is tested with "in", not with "==".'
                raise FilterSyntaxError(message, token.span, (Edit(token.span, " in "),))
        right = self.value()
        made = Comparison(
            COMPARISONS[token.text], token.text, left, right, first.to(right.span), token.span, quantifier
        )
        if self.now.kind in ("word", "op") and self.now.text in COMPARISONS:
            # a chain "a < b < c" is two comparisons joined by "and"
            rest = self.comparison(right, right.span, quantifier)
            return Logic("and", made, rest, first.to(rest.span), token.span)
        return made

    def membership(self, left: Value, first: Span, quantifier: str, negated: bool) -> Membership:
        self.at += 1
        self.check_set()
        self.want("{", 'A set in braces is missing after "in".')
        elements = [self.element()]
        while self.now.text != "}":
            if not self.take({","}):
                self.missing_comma()
            elements.append(self.element())
        closing = self.want("}", 'A "{" is never closed.')
        return Membership(left, tuple(elements), negated, first.to(closing.span), quantifier)

    def check_set(self) -> None:
        token = self.now
        if token.kind == "slice":
            inner = token.text[1:-1]
            message = 'A set stands in braces: "{...}".'
            raise FilterSyntaxError(message, token.span, (Edit(token.span, "{" + inner + "}"),))
        if token.text == "(" and token.kind == "op":
            closing = next((t for t in self.tokens[self.at :] if t.text == ")"), None)
            edits = (Edit(token.span, "{"), Edit(closing.span, "}")) if closing else ()
            raise FilterSyntaxError('A set stands in braces: "{...}".', token.span, edits)
        if token.kind in ("word", "string", "char") and token.text not in _RESERVED:
            message = "A set stands in braces, even with one element."
            raise FilterSyntaxError(message, token.span, (Edit(token.span, "{" + token.text + "}"),))

    def missing_comma(self) -> None:
        if self.now.kind not in ("word", "string", "char") or self.now.text in _RESERVED:
            if self.now.kind == "end":
                self.want("}", 'A "{" is never closed.')
            raise self.unexpected()
        # every blank between two elements of this set
        gaps, depth = [], self.at
        while self.tokens[depth].kind in ("word", "string", "char") or self.tokens[depth].text in (
            ",",
            "..",
        ):
            before, after = self.tokens[depth - 1], self.tokens[depth]
            if before.text not in (",", "..") and after.text not in (",", ".."):
                gaps.append(Edit(Span(before.span.end, before.span.end), ","))
            depth += 1
        message = "Elements of a set are separated by commas since Wireshark 3.6."
        raise FilterSyntaxError(message, self.now.span, tuple(gaps))

    def element(self) -> tuple[Value, Value | None]:
        low = self.value()
        if self.take({".."}):
            return low, self.value()
        if isinstance(low, Literal) and not low.quoted:
            a, dash, b = low.text.partition("-")
            if dash and a.isdigit() and b.isdigit():
                message = 'A range is written with two dots: "12..14".'
                raise FilterSyntaxError(message, low.span, (Edit(low.span, f"{a}..{b}"),))
        return low, None

    # values

    def value(self, level: int = 0) -> Value:
        if level == len(_ARITHMETIC):
            return self.unary()
        left = self.value(level + 1)
        while token := self.take(_ARITHMETIC[level]):
            right = self.value(level + 1)
            left = Arithmetic(token.text, left, right, left.span.to(right.span))
        return left

    def unary(self) -> Value:
        if token := self.take({"+", "-"}):
            right = self.unary_operand()
            return Arithmetic(token.text, None, right, token.span.to(right.span))
        return self.unary_operand()

    def unary_operand(self) -> Value:
        if opening := self.take({"{"}):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise FilterSyntaxError(f"Nested more than {MAX_DEPTH} deep.", opening.span)
            inner = self.value()
            self.want("}", 'A "{" is never closed.')
            self.depth -= 1
            return inner
        value = self.entity()
        while self.now.kind == "slice":
            value = Slice(value, value.span.to(self.now.span))
            self.at += 1
        return value

    def entity(self) -> Value:
        token = self.now
        raw = self.take({"@"}) is not None
        if reference := self.take({"$"}):
            self.want("{", 'A reference is written "${field}".')
            inner = self.entity()
            closing = self.want("}", 'A "{" is never closed.')
            return Call("$", (inner,), reference.span.to(closing.span))
        token = self.now
        if token.kind in ("string", "char"):
            self.at += 1
            return Literal(token.text, token.span, "'" if token.kind == "char" else '"')
        if token.kind != "word" or token.text in _RESERVED:
            raise self.unexpected()
        self.at += 1
        if self.now.text == "(" and self.now.span.start == token.span.end and token.text.isidentifier():
            return self.call(token)
        return self.name(token, raw)

    def name(self, token: Token, raw: bool) -> Value:
        if not self.take({"#"}):
            return Field(token.text, token.span, raw=raw) if _is_name(token.text) else _literal(token)
        layer = self.now
        if layer.kind != "slice" and not layer.text.isdigit():
            raise FilterSyntaxError('A layer number is missing after "#".', layer.span)
        self.at += 1
        return Field(token.text, token.span.to(layer.span), layer.text.strip("[]"), raw)

    def call(self, token: Token) -> Call:
        self.want("(", "")
        arguments: list[Value] = []
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise FilterSyntaxError(f"Nested more than {MAX_DEPTH} deep.", token.span)
        if self.now.text != ")":
            arguments.append(self.value())
            while self.take({","}):
                arguments.append(self.value())
        closing = self.want(")", 'A "(" is never closed.')
        self.depth -= 1
        return Call(token.text, tuple(arguments), token.span.to(closing.span))

    # errors

    def unexpected(self) -> FilterSyntaxError:
        token = self.now
        if token.kind == "end":
            return FilterSyntaxError("The filter ends too early.", token.span)
        lower = token.text.lower()
        if token.kind == "word" and token.text not in _RESERVED and lower in _RESERVED:
            message = f'Operators are lower case: "{lower}".'
            return FilterSyntaxError(message, token.span, (Edit(token.span, lower),))
        before = self.tokens[self.at - 1] if self.at else None
        if before and before.text in ("<", "!") and token.text in (">", "!"):
            span = before.span.to(token.span)
            return FilterSyntaxError('"Not equal" is "!=" here.', span, (Edit(span, "!="),))
        if self.looks_like_capture_filter():
            message = "This is a capture filter (tcpdump's language), not a display filter."
            return FilterSyntaxError(message, token.span, self.from_capture_filter())
        if token.text == "/" and self.tokens[self.at + 1].text == "/":
            rest = Span(token.span.start, len(self.text))
            return FilterSyntaxError("A display filter has no comments.", rest, (Edit(rest, ""),))
        message = f'"{token.text[:40]}" makes no sense here.'
        edits = (Edit(token.span, ""),) if token.text == ")" else ()
        return FilterSyntaxError(message, token.span, edits)

    def looks_like_capture_filter(self) -> bool:
        words = [t.text for t in self.tokens if t.kind == "word"]
        return any(word in _CAPTURE_WORDS for word in words[:2])

    def from_capture_filter(self) -> tuple[Edit, ...]:
        """`tcp port N`, `port N` and `host A` rewritten; nothing for what is longer."""
        words = [t.text for t in self.tokens[:-1]]
        whole = Span(0, len(self.text))
        transport = "tcp"
        if words and words[0] in ("tcp", "udp"):
            transport = words.pop(0)
        if len(words) == 2 and words[0] == "port" and words[1].isdigit():
            return (Edit(whole, f"{transport}.port == {words[1]}"),)
        if len(words) == 2 and words[0] == "host":
            family = "ipv6" if ":" in words[1] else "ip"
            return (Edit(whole, f"{family}.addr == {words[1]}"),)
        return ()


def _is_name(text: str) -> bool:
    """Could this word be a field or protocol name (and not a number, an address or bytes)?"""
    return text[0].isalpha() or text[0] == "_" if ":" not in text and "/" not in text else False


def _literal(token: Token) -> Literal:
    return Literal(token.text, token.span)
