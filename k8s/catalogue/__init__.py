"""What is known of CSI drivers (`drivers.yaml`) and of mount options (`options.yaml`).

None means unknown, and never makes a finding. Both files are checked against the schemas beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from analyzer.core.finding import Severity
from k8s.yaml_text import parse

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class QosKey:
    """A key of a class that has to do with quality of service. `limit` is True if it sets a limit,
    `requires` maps another key to the values (with `*`) without which it has no effect, `unlimited` are
    values that mean no limit."""

    name: str
    limit: bool
    unit: str = ""
    default: str = ""
    applies_when: str = ""
    requires: Mapping[str, tuple[str, ...]] | None = None
    unlimited: tuple[str, ...] = ()
    note: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """A parameter that decides on durability."""

    key: str
    risky: tuple[str, ...]
    meaning: str
    default: str | None = None
    rule: str = "write-cache"


@dataclass(frozen=True, slots=True)
class DefaultOptions:
    """Mount options that a driver adds unasked: for claims of one access mode (empty: all), unless the
    parameter `replaced_by` is there; `when_version_3` come for NFSv3 where the class gives none."""

    filesystem: str
    options: tuple[str, ...]
    access: str = ""
    replaced_by: str = ""
    when_version_3: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Driver:
    """A provisioner. None is unknown; `class_keys` None: which keys a class takes isn't known."""

    name: str
    aliases: tuple[str, ...]
    suffix: str
    kind: str | None
    protocol: str
    filesystem: str | None
    shared: bool | None
    shared_note: str
    reach: str | None
    in_tree: bool
    replaced_by: str
    class_keys: tuple[QosKey, ...] | None
    keys_ignore_case: bool
    default_limited: bool | None
    default: str
    elsewhere: str
    vac_supported: bool | None
    vac_keys: tuple[QosKey, ...] | None
    vac_unknown_keys: str
    binding_mode: str | None
    expansion: bool | None
    settings: tuple[Setting, ...]
    option_keys: Mapping[str, str | None]
    default_options: DefaultOptions | None
    notes: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def has_knob(self) -> bool:
        """True if a class or a VolumeAttributesClass of this driver can set a limit, as far as is known."""
        keys = (*(self.class_keys or ()), *(self.vac_keys or ()))
        return any(key.limit for key in keys)

    def key(self, name: str) -> QosKey | None:
        """The quality of service key of a class by that name."""
        return _find(self.class_keys, name, self.keys_ignore_case)

    def vac_key(self, name: str) -> QosKey | None:
        """The key of a VolumeAttributesClass by that name."""
        return _find(self.vac_keys, name, self.keys_ignore_case)


@dataclass(frozen=True, slots=True)
class OptionFact:
    """What a mount option means; see `options.yaml` for the fields."""

    name: str
    hazard: str
    severity: Severity
    meaning: str
    source: str
    aliases: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    over: int | None = None
    under: int | None = None
    opposite: str = ""
    shared: bool = False
    writers: bool = False
    versions: tuple[str, ...] = ()
    instead: str = ""

    def matters(self, value: str) -> bool:
        """Whether the option with that value is the hazard."""
        if self.values:
            return value in self.values
        if self.over is not None or self.under is not None:
            number = int(value) if value.isdecimal() and len(value) < 18 else None
            if number is None:
                return False
            return number > self.over if self.over is not None else number < (self.under or 0)
        return True


@dataclass(frozen=True, slots=True)
class Group:
    """The options of one file system or protocol. `known` None: the list isn't complete, so that a name
    that isn't in it says nothing."""

    known: frozenset[str] | None
    options: Mapping[str, OptionFact]


@cache
def drivers() -> tuple[Driver, ...]:
    """All entries, in the order of the file."""
    return tuple(_driver(entry) for entry in _load("drivers.yaml"))


@cache
def options() -> Mapping[str, Group]:
    """The groups of mount options by file system or protocol."""
    return {name: _group(group) for name, group in _load("options.yaml").items()}


@cache
def find_driver(provisioner: str) -> Driver | None:
    """By name, then by alias, then by suffix (drivers of Ceph carry a prefix); None if it isn't known."""
    for driver in drivers():
        if provisioner in (driver.name, *driver.aliases):
            return driver
    for driver in drivers():
        if driver.suffix and provisioner.endswith(driver.suffix):
            return driver
    return None


def fits(value: str, patterns: tuple[str, ...]) -> bool:
    """Whether a value is one of the patterns, capitals aside."""
    return any(fnmatchcase(value.lower(), pattern.lower()) for pattern in patterns)


def _load(name: str) -> Any:
    data, duplicates = parse((_HERE / name).read_text("utf-8"))
    if duplicates:
        raise ValueError(f"{name}: {duplicates[0].key} is there twice, line {duplicates[0].line}")
    return data


def _find(keys: tuple[QosKey, ...] | None, name: str, ignore_case: bool) -> QosKey | None:
    for key in keys or ():
        for known in (key.name, *key.aliases):
            if known == name or (ignore_case and known.lower() == name.lower()):
                return key
    return None


def _keys(entries: Any) -> tuple[QosKey, ...] | None:
    return None if entries is None else tuple(_key(entry) for entry in entries)


def _key(entry: Mapping[str, Any]) -> QosKey:
    requires = entry.get("requires")
    return QosKey(
        entry["name"],
        entry["limit"],
        unit=entry.get("unit") or "",
        default=entry.get("default") or "",
        applies_when=entry.get("applies_when") or "",
        requires={key: tuple(values) for key, values in requires.items()} if requires else None,
        unlimited=tuple(entry.get("unlimited", ())),
        note=entry.get("note") or "",
        aliases=tuple(entry.get("aliases", ())),
    )


def _driver(entry: Mapping[str, Any]) -> Driver:
    qos, vac = entry["qos"], entry["qos"]["vac"]
    default = entry.get("default_options")
    return Driver(
        name=entry["name"],
        aliases=tuple(entry["aliases"]),
        suffix=entry["suffix"] or "",
        kind=entry["kind"],
        protocol=entry["protocol"] or "",
        filesystem=entry["filesystem"],
        shared=entry["shared"],
        shared_note=entry.get("shared_note") or "",
        reach=entry["reach"],
        in_tree=entry.get("in_tree", False),
        replaced_by=entry.get("replaced_by") or "",
        class_keys=_keys(qos["keys"]),
        keys_ignore_case=qos["key_case"] == "insensitive",
        default_limited=qos["default_limited"],
        default=qos["default"] or "",
        elsewhere=qos["elsewhere"] or "",
        vac_supported=vac["supported"],
        vac_keys=_keys(vac["keys"]),
        vac_unknown_keys=vac["unknown_keys"] or "",
        binding_mode=entry["binding_mode"],
        expansion=entry["expansion"],
        settings=tuple(
            Setting(
                s["key"], tuple(s["risky"]), s["meaning"], s.get("default"), s.get("rule", "write-cache")
            )
            for s in entry.get("settings", ())
        ),
        option_keys={item["key"]: item["filesystem"] for item in entry.get("option_keys", ())},
        default_options=None
        if default is None
        else DefaultOptions(
            default["filesystem"],
            tuple(default["options"]),
            default.get("access", ""),
            default.get("replaced_by", ""),
            tuple(default.get("when_version_3", ())),
        ),
        notes=tuple(entry["notes"]),
        sources=tuple(entry["sources"]),
    )


def _group(entry: Mapping[str, Any]) -> Group:
    facts: dict[str, OptionFact] = {}
    for item in entry["options"]:
        fact = OptionFact(
            name=item["name"],
            hazard=item["hazard"],
            severity=Severity.parse(item["severity"]),
            meaning=item["meaning"],
            source=item["source"],
            aliases=tuple(item.get("aliases", ())),
            values=tuple(item.get("is", ())),
            over=item.get("over"),
            under=item.get("under"),
            opposite=item.get("opposite", ""),
            shared=item.get("shared", False),
            writers=item.get("writers", False),
            versions=tuple(item.get("versions", ())),
            instead=item["instead"],
        )
        for name in (fact.name, *fact.aliases):
            facts[name] = fact
    known = entry["known"]
    return Group(None if known is None else frozenset(known) | set(facts), facts)
