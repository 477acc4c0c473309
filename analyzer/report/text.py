"""Make hostile text harmless once, before any renderer sees it, and say numbers for people.

Names come from captures and file systems: they may hold terminal escapes, newlines, marks that turn
the direction of writing, thousands of combining marks, or megabytes. `visible` shows such characters
as escapes (`\\x1b`), so that a renderer has only the syntax of its own format to escape.
"""

from __future__ import annotations

import dataclasses
import enum
import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar, cast

Value = TypeVar("Value")

#: Called with a text and the name of the field (or key) that holds it.
Change = Callable[[str, str], str]

#: Fields that may hold several lines; a newline elsewhere is shown as an escape.
MULTILINE = frozenset({"explanation", "remedy", "documentation"})
_LIMITS = {
    "explanation": 4000,
    "remedy": 4000,
    "documentation": 4000,
    "title": 700,
    "verdict": 4000,
    "text": 700,
    "reason": 700,
}
_LIMIT = 300
_MAX_MARKS = 3
#: control, format (bidi and zero-width marks), surrogate, private use, unassigned, line and paragraph
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@lru_cache(maxsize=4096)
def _shown(char: str) -> str:
    """The character itself, or an escape that shows what it is."""
    if unicodedata.category(char) not in _HIDDEN:
        return char
    code = ord(char)
    named = {10: "\\n", 13: "\\r", 9: "\\t"}.get(code)
    if named:
        return named
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: str, limit: int = _LIMIT, lines: bool = False) -> str:
    """Text of at most `limit` characters in which nothing is hidden; the middle of a longer one is left
    out ("…"). With `lines` newlines stay. A run of more than three combining marks is cut."""
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    if len(text) > limit:
        head = limit * 2 // 3
        text = text[:head] + "…" + text[len(text) - (limit - head - 1) :]
    shown: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks > _MAX_MARKS:
            continue
        shown.append("\n" if lines and char == "\n" else _shown(char))
    return "".join(shown)


def cleaned(text: str, name: str) -> str:
    """`visible` with the limit and the line rule of the field `name`."""
    return visible(text, _LIMITS.get(name, _LIMIT), name in MULTILINE)


def map_text(value: Value, change: Change, name: str = "") -> Value:
    """The same shape (dataclasses, tuples, mappings) with every text changed; enums stay as they are."""
    changed: Any = value
    if isinstance(value, enum.Enum):
        pass
    elif isinstance(value, str):
        changed = change(value, name)
    elif isinstance(value, tuple):
        changed = tuple(map_text(item, change, name) for item in value)
    elif isinstance(value, Mapping):
        changed = {change(k, "key"): map_text(v, change, str(k)) for k, v in value.items()}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value)]
        changed = type(value)(**{n: map_text(getattr(value, n), change, n) for n in names})
    return cast(Value, changed)


def duration(ns: float) -> str:
    """A time span with three significant digits and its unit: `7.01 s`, `830 µs`, `2 min 5 s`."""
    ns = int(ns)
    if ns < 0:
        return "-" + duration(-ns)
    if ns < 1000:
        return f"{ns} ns"
    if ns >= 120 * 10**9:
        minutes, seconds = divmod(ns // 10**9, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        amount = ns / size
        if amount >= 0.9995:
            digits = 2 if amount < 9.995 or unit == "s" else 1 if amount < 99.95 else 0
            return f"{amount:.{digits}f} {unit}"
    return f"{ns} ns"


def seconds(ns: int, digits: int = 6) -> str:
    """Seconds since the input began, cut (not rounded) to `digits` decimals: `5.503214 s`."""
    sign = "-" if ns < 0 else ""
    whole, part = divmod(abs(ns), 10**9)
    return f"{sign}{whole}.{str(part).zfill(9)[:digits]} s"


def utc(ns: int) -> str:
    """`2026-11-08 12:34:56.123456 UTC`; the number itself where the calendar can't say it."""
    try:
        moment = datetime.fromtimestamp(ns // 10**9, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ns} ns since 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{ns % 10**9 // 1000:06d} UTC"


def number(value: int) -> str:
    """`12,345`."""
    return f"{value:,}"


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 finding`, `12,345 findings`."""
    return f"{number(count)} {noun if count == 1 else many or noun + 's'}"


def counted(count: int, many: str) -> str:
    """`1 server`, `12,345 servers`, from the plural noun of a coverage count."""
    return plural(count, many.removesuffix("s"), many) if many.endswith("s") else f"{number(count)} {many}"


def byte_range(offset: int, length: int) -> str:
    """A byte range as the report writes it: `0+100`, `0+eof`, `whole file`."""
    if length < 0:
        return "whole file" if offset == 0 else f"{offset}+eof"
    return f"{offset}+{length}"
