"""What is known of drivers, as a table, as a page, and as JSON."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from difflib import get_close_matches

import orjson

from analyzer.core.errors import InputError
from k8s.catalogue import Driver, QosKey, drivers, find_driver

_WIDTH = 80
_UNKNOWN = "not known"


def table() -> str:
    """One line per driver: name, what it makes, and how its volumes are limited."""
    width = max(len(driver.name) for driver in drivers())
    width = min(width, 42)
    lines = [f"{'driver':<{width}}  {'kind':<7} limits by"]
    for driver in drivers():
        name = driver.name if len(driver.name) <= width else f"{driver.name[: width - 1]}…"
        lines.append(f"{name:<{width}}  {driver.kind or '?':<7} {_how(driver)}")
    lines.append("")
    lines.append("`storage-analyzer drivers NAME` shows keys, defaults and sources of one.")
    return "\n".join(lines) + "\n"


def page(name: str) -> str:
    """All that is known of one driver. Raises `InputError` naming the nearest if there is none."""
    return "\n".join(_page(find(name))) + "\n"


def to_json(name: str | None) -> str:
    """One driver, or all of them, as JSON; null is unknown."""
    data = [dataclasses.asdict(d) for d in drivers()] if name is None else dataclasses.asdict(find(name))
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode() + "\n"


def find(name: str) -> Driver:
    """The driver of that name, alias or suffix, or the only one whose name holds (or begins with) it."""
    exact = find_driver(name.strip())
    if exact is not None:
        return exact
    wanted = name.strip().lower()
    holding = [d for d in drivers() if wanted and wanted in d.name.lower()]
    for narrower in (holding, [d for d in holding if d.name.lower().startswith(wanted)]):
        if len(narrower) == 1:
            return narrower[0]
    near = [d.name for d in holding] or get_close_matches(
        wanted, [d.name for d in drivers()], n=3, cutoff=0.5
    )
    guess = f" Nearest: {', '.join(near[:6])}." if near else ""
    raise InputError(f"no driver is named {name!r}.{guess} `storage-analyzer drivers` lists all.")


def _how(driver: Driver) -> str:
    ways = []
    if any(key.limit for key in driver.class_keys or ()):
        ways.append("class")
    if any(key.limit for key in driver.vac_keys or ()):
        ways.append("VAC")
    if ways:
        return " and ".join(ways)
    if driver.class_keys is None:
        return _UNKNOWN
    return "elsewhere" if driver.elsewhere else "nothing known"


def _page(driver: Driver) -> Iterator[str]:
    yield driver.name
    aliases = [*driver.aliases, *([f"any name ending in {driver.suffix}"] if driver.suffix else [])]
    facts = {
        "also": ", ".join(aliases),
        "kind": driver.kind or _UNKNOWN,
        "protocol": driver.protocol or _UNKNOWN,
        "shared": _truth(driver.shared) + (f" ({driver.shared_note})" if driver.shared_note else ""),
        "reach": {"zone": "one zone", "node": "one node"}.get(driver.reach or "", ""),
        "replaced by": driver.replaced_by if driver.in_tree else "",
        "binding": driver.binding_mode or _UNKNOWN,
        "grows": _truth(driver.expansion),
        "default": driver.default or _UNKNOWN,
        "limits": driver.elsewhere and f"elsewhere: {driver.elsewhere}",
    }
    for name, text in facts.items():
        if text:
            yield from _wrapped(f"  {name:<12}", text)
    yield from _keys("StorageClass keys", driver.class_keys)
    supported = {True: "yes", False: "no", None: _UNKNOWN}[driver.vac_supported]
    yield f"  VolumeAttributesClass: {supported}"
    if driver.vac_keys:
        yield from _keys("VolumeAttributesClass keys", driver.vac_keys)
    for note in driver.notes:
        yield from _wrapped("  note        ", note)
    for source in driver.sources:
        yield from _wrapped("  source      ", source)


def _keys(title: str, keys: tuple[QosKey, ...] | None) -> Iterator[str]:
    if keys is None:
        yield f"  {title}: {_UNKNOWN}"
        return
    if not keys:
        yield f"  {title} for performance: none"
        return
    yield f"  {title}:"
    for key in keys:
        parts = [key.unit, key.applies_when, f"default {key.default}" if key.default else "", key.note]
        needs = [f"needs {name}={'|'.join(values)}" for name, values in (key.requires or {}).items()]
        unlimited = [f"{value} means no limit" for value in key.unlimited]
        text = "; ".join(part for part in (*parts, *needs, *unlimited) if part)
        yield from _wrapped(f"    {key.name:<28}", text or ("a limit" if key.limit else ""))


def _truth(value: bool | None) -> str:
    return {True: "yes", False: "no", None: _UNKNOWN}[value]


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * min(len(head), 32),
        break_long_words=False,
    ) or [head.rstrip()]
