"""Words and evidence that the rules on durability and service share."""

from __future__ import annotations

from collections.abc import Iterable


def percent(part: int, whole: int) -> str:
    """`(2, 3)` → "67 %"; "0 %" of nothing."""
    return f"{100 * part / max(whole, 1):.0f} %"


def file_name(path: str | None, handle: str) -> str:
    """The path, or "file handle 0x12ab" where it isn't known."""
    return path or f"file handle {handle}"


def references(candidates: Iterable[str | None]) -> tuple[str, ...]:
    """Evidence without gaps and repetitions, in the given order."""
    return tuple(dict.fromkeys(c for c in candidates if c))
