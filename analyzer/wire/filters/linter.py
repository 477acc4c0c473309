"""The linter: every fault of a filter, and the filter with all of them repaired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from analyzer.wire.filters import (
    checks_fields,
    checks_messages,
    checks_operations,
    checks_status,
    checks_style,
)
from analyzer.wire.filters.fault import Check, Fault, Level
from analyzer.wire.filters.parser import parse
from analyzer.wire.filters.reading import Reading, read
from analyzer.wire.filters.syntax import Literal, Span, apply, values
from analyzer.wire.filters.tokens import MAX_LENGTH, FilterSyntaxError
from analyzer.wire.filters.values import meaning, number

CHECKS: Final[tuple[Check, ...]] = (
    *checks_fields.CHECKS,
    *checks_operations.CHECKS,
    *checks_status.CHECKS,
    *checks_messages.CHECKS,
    *checks_style.CHECKS,
)

#: Most rounds of repair; a round may uncover what the one before had hidden.
_ROUNDS: Final = 8


#: Faults that Wireshark refuses a filter for: a text that still has one isn't given as the corrected one.
_REFUSED: Final = {
    "syntax",
    "unusable",
    "unknown-field",
    "unknown-function",
    "unknown-value",
    "value-without-field",
    "search-in-number",
}


@dataclass(frozen=True, slots=True)
class Lint:
    """`corrected` is the repaired filter, whole; empty if nothing was wrong or no repair is known.
    `leftover` holds the faults that remain in it. `uncovered` holds what came to light only once the
    text could be read at all: the repaired text and its faults."""

    text: str
    faults: tuple[Fault, ...]
    corrected: str = ""
    leftover: tuple[Fault, ...] = ()
    reading: Reading | None = None
    uncovered: tuple[tuple[str, tuple[Fault, ...]], ...] = ()

    @property
    def wrong(self) -> bool:
        """True if something is wrong: an error or a warning; notes alone don't count."""
        return any(fault.level is not Level.NOTE for fault in self.faults)


def lint(text: str) -> Lint:
    """Every fault of a filter, in the order of the text. Never raises."""
    faults, reading = _faults(text)
    current, remaining = text, faults
    uncovered: list[tuple[str, tuple[Fault, ...]]] = []
    for _ in range(_ROUNDS):
        edits = tuple(edit for fault in remaining for edit in fault.edits)
        changed = apply(current, edits).strip()
        if not edits or changed == current or len(changed) > MAX_LENGTH:
            break
        unread = any(fault.rule == "syntax" for fault in remaining)
        current = changed
        remaining, _ = _faults(current)
        if unread and remaining:
            uncovered.append((current, remaining))
    refused = any(fault.rule in _REFUSED for fault in remaining)
    corrected = "" if current == text or refused else current
    leftover = remaining if corrected else ()
    return Lint(text, faults, corrected, leftover, reading, tuple(uncovered))


def _faults(text: str) -> tuple[tuple[Fault, ...], Reading | None]:
    if len(text) > MAX_LENGTH:
        message = f"The expression has {len(text)} characters; at most {MAX_LENGTH} are read."
        return (_unusable(message, MAX_LENGTH),), None
    if fault := _control_character(text):
        return (fault,), None
    try:
        tree = parse(text)
    except FilterSyntaxError as error:
        source = "wireshark-filter(4)"
        return (Fault("syntax", Level.ERROR, error.span, error.message, source, error.edits),), None
    if tree is None:
        return (_unusable("The filter is empty: it shows every frame.", 0),), None
    reading = read(text, tree)
    found = [fault for check in CHECKS for fault in check(reading)]
    found.sort(key=lambda f: (f.span, f.rule))
    return tuple(dict.fromkeys(found)), reading


def _control_character(text: str) -> Fault | None:
    for position, character in enumerate(text[:MAX_LENGTH]):
        if (
            (character < " " and character not in "\t\r\n")
            or character == "\x7f"
            or "\ud800" <= character <= "\udfff"
        ):
            return _unusable(
                f"A control character (U+{ord(character):04X}) has no place in a filter.", position
            )
    return None


def _unusable(message: str, position: int) -> Fault:
    return Fault("unusable", Level.ERROR, Span(position, position + 1), message, "wireshark-filter(4)")


def glossary(reading: Reading | None) -> tuple[str, ...]:
    """What the numbers of the filter stand for: `nfs.opcode 13 = LOCKT`."""
    found: dict[str, None] = {}
    for condition in reading.conditions if reading else ():
        if condition.op not in ("eq", "all_eq", "all_ne", "any_ne", "in"):
            continue
        for value in values(condition.test):
            code = number(value, condition.field) if isinstance(value, Literal) else None
            if code is not None and (name := meaning(condition.field, code)):
                found[f"{condition.field} {code} = {name}"] = None
    return tuple(found)


def needs(reading: Reading | None) -> tuple[tuple[str, str], ...]:
    """Options that tshark needs for this filter to show anything: (option, why)."""
    names = reading.fields() if reading else frozenset()
    found = []
    if names & {"rpc.reqframe"}:
        found.append(("-2", "a call learns of its reply only in a second pass"))
    if names & {"nfs.name", "nfs.full_name"}:
        found.append(("-o nfs.file_name_snooping:TRUE", "names are only kept with this preference"))
    if "nfs.full_name" in names:
        found.append(("-o nfs.file_full_name_snooping:TRUE", "whole paths need this one too"))
    return tuple(found)
