"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum


class ListFormat(StrEnum):
    """How a list is printed."""

    TERMINAL = "terminal"
    JSON = "json"


class Level(StrEnum):
    """Severities, as options name them."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"
