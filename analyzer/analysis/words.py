"""Words for sentences: durations, counts and lists as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_US, _MS, _S, _MIN = 1_000, 1_000_000, 1_000_000_000, 60_000_000_000


def duration(ns: int) -> str:
    """`7010000000` → "7.01 s"; "12.3 ms", "45 µs", "3 min 20 s"."""
    if ns >= 10 * _MIN:
        minutes, rest = divmod(round(ns / _S), 60)
        return f"{minutes} min {rest} s"
    if ns >= _S:
        return f"{ns / _S:.2f} s"
    if ns >= _MS:
        return f"{ns / _MS:.1f} ms"
    return f"{ns / _US:.0f} µs"


def times(count: int) -> str:
    """`1` → "once", `2` → "twice", `5` → "5 times"."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def counted(count: int, noun: str, plural: str = "") -> str:
    """`(2, "client")` → "2 clients"; "12,345 calls"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(names: Sequence[str], limit: int = 3) -> str:
    """`["a", "b", "c", "d", "e"]` → "a, b, c and 2 more"."""
    shown = list(names[:limit])
    if rest := len(names) - len(shown):
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def tally(counts: Mapping[str, int], limit: int = 3) -> str:
    """`{"WRITE": 3, "READ": 1}` → "3 WRITE, 1 READ", the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{count} {name}" for name, count in ordered[:limit])
    rest = sum(count for _, count in ordered[limit:])
    return f"{shown}, {rest} other" if rest else shown


def size(count: int) -> str:
    """`163840` → "160 KiB"."""
    value = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
