"""Words and evidence that the rules on durability and service share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from analyzer.core.coverage import Coverage, Loss

_LOSING: Final = frozenset(
    {Loss.SNAPLEN, Loss.GAP, Loss.CUT, Loss.ONE_WAY, Loss.UNDECODED, Loss.UNMATCHED, Loss.CAPPED}
)


def percent(part: int, whole: int) -> str:
    """`(2, 3)` → "67 %"; "0 %" of nothing."""
    return f"{100 * part / max(whole, 1):.0f} %"


def file_name(path: str | None, handle: str) -> str:
    """The path, or "file handle 0x12ab" where it isn't known."""
    return path or f"file handle {handle}"


def references(candidates: Iterable[str | None]) -> tuple[str, ...]:
    """Evidence without gaps and repetitions, in the given order."""
    return tuple(dict.fromkeys(c for c in candidates if c))


def may_miss_frames(coverage: Coverage) -> bool:
    """Whether frames are missing in the middle of the input, so that a message which isn't there may
    have been sent all the same."""
    return coverage.severe or any(note.loss in _LOSING for note in coverage.notes)
