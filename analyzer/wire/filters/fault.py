"""A fault of a filter: what is wrong, where, why, who says so, and the change that repairs it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from analyzer.wire.filters.reading import Reading
from analyzer.wire.filters.syntax import Edit, Span


class Level(enum.StrEnum):
    """error: refused by Wireshark, or shows the wrong frames. warning: easily misread or incomplete.
    note: worth knowing; the filter is right."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Fault:
    """`edits` turn the text into the repaired one; empty where a filter can't say what is meant."""

    rule: str
    level: Level
    span: Span
    message: str
    source: str
    edits: tuple[Edit, ...] = ()


Check = Callable[[Reading], Iterator[Fault]]

# sources, as they are cited
COMPOUND: Final = "RFC 8881 section 16.2 (COMPOUND)"
XDR_OPERATIONS: Final = "RFC 7531 and RFC 5662 (nfs_opnum4)"
XDR_STATUSES: Final = "RFC 7531 and RFC 5662 (nfsstat4)"
NOT_IN_41: Final = "RFC 8881 section 17 (mandatory to not implement in 4.1)"
OPERATORS: Final = "wireshark-filter(4); the meaning of != changed in Wireshark 3.6"
SEEN_4_0: Final = "seen with Wireshark 4.0.17"
FIELDS_4_0: Final = "tshark -G fields, Wireshark 4.0.17"
