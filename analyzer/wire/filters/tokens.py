"""Display filter text → tokens.

After Wireshark's own scanner (epan/dfilter/scanner.l), simplified: what may be a field, a number, an
address or a byte string is one kind, `word`; the parser decides by position.
"""

from __future__ import annotations

import re
import unicodedata

from analyzer.wire.filters.syntax import Edit, Span, Token

#: Longest expression that is looked at, in characters.
MAX_LENGTH = 4096

_SPACE = re.compile(r"[ \t\r\n]+")
_STRING = re.compile(r'[rR]?"(?:[^"\\]|\\.)*"', re.DOTALL)
_CHAR = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
#: A word can't hold ".." (a range) nor begin with "-".
_WORD = re.compile(r"[A-Za-z0-9_:](?:[A-Za-z0-9_:/-]|\.(?=[A-Za-z0-9_:/-]))*")
_OPERATORS = (
    "===", "!==", "==", "!=", "~=", "<=", ">=", "&&", "||", "^^", "..",
    "<", ">", "~", "!", "(", ")", "{", "}", "[", "]", ",", "+", "-", "*", "/", "%", "&", "#", "$", "@",
)  # fmt: skip
_SLICE = re.compile(r"\[([^\]]*)\]")
_WRONG_QUOTES = str.maketrans("“”„‟«»", '""""""')


class FilterSyntaxError(Exception):
    """The text can't be read as a display filter: what, where, and how to repair it if that is known."""

    def __init__(self, message: str, span: Span, edits: tuple[Edit, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.edits = edits


def printable(text: str) -> str:
    """The text with every control, format and surrogate character replaced by `?`: safe on a terminal."""
    return "".join("?" if unicodedata.category(c) in _UNSAFE else c for c in text)


_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def tokenize(text: str) -> list[Token]:
    """The tokens, the last of kind `end`; raises `FilterSyntaxError`."""
    found: list[Token] = []
    position = 0
    while position < len(text):
        if space := _SPACE.match(text, position):
            position = space.end()
            continue
        token = _token(text, position)
        found.append(token)
        position = token.span.end
    found.append(Token("end", "", Span(len(text), len(text))))
    return found


def _token(text: str, at: int) -> Token:
    for kind, pattern in (("string", _STRING), ("char", _CHAR), ("word", _WORD), ("slice", _SLICE)):
        if match := pattern.match(text, at):
            return Token(kind, match[0], Span(at, match.end()))
    for operator in _OPERATORS:
        if text.startswith(operator, at):
            return Token("op", operator, Span(at, at + len(operator)))
    raise _unreadable(text, at)


def _unreadable(text: str, at: int) -> FilterSyntaxError:
    char, here = text[at], Span(at, at + 1)
    if char in "\"'":
        return FilterSyntaxError(
            "The closing quote is missing.",
            Span(at, len(text)),
            (Edit(Span(len(text), len(text)), char),),
        )
    if char in "“”„‟«»":
        fixed = text.translate(_WRONG_QUOTES)
        whole = (Edit(Span(0, len(text)), fixed),)
        return FilterSyntaxError('A typographic quote; only the plain " quotes text.', here, whole)
    if char == "=":
        return FilterSyntaxError('"=" is no operator; equality is "==".', here, (Edit(here, "=="),))
    if char == "|":
        return FilterSyntaxError('"|" is no operator; "or" is "||".', here, (Edit(here, "||"),))
    if char == ";":
        rest = text[at + 1 :].strip()
        change = ", " if rest and "}" in rest else ""
        return FilterSyntaxError('";" has no meaning in a display filter.', here, (Edit(here, change),))
    name = f"U+{ord(char):04X}" if printable(char) != char or ord(char) > 126 else f'"{char}"'
    return FilterSyntaxError(f"The character {name} has no meaning outside quotes.", here)
