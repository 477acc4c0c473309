"""Mount options: parsing, and what they bring with them.

Kubernetes doesn't look into `mountOptions`; mount(8) does. One item may hold several options joined by
commas, and of two that contradict each other the later wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from k8s.catalogue import Group, OptionFact, options
from k8s.objects import Path

_SPLIT = re.compile(r""",(?=(?:[^"']*["'][^"']*["'])*[^"']*$)""")
_MAX_TEXT = 4096
_MAX_NAME = 64
_VERSION = re.compile(r"v?([234](?:\.[012])?)$")
#: options that tell what is mounted where nothing else does
_TELLTALE = {
    "nfs": {"nfsvers", "nolock", "nconnect", "noresvport", "softerr", "timeo", "retrans", "local_lock"},
    "smb": {"nobrl", "mfsymlinks", "dir_mode", "file_mode", "nosharesock", "nostrictsync"},
    "ext4": {"noauto_da_alloc", "journal_async_commit", "barrier", "nobarrier"},
}  # fmt: skip
LOCAL = ("ext4", "xfs", "btrfs")


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `item` is the text that it stands in (with others, if joined), `path` leads to that."""

    name: str
    value: str
    item: str
    path: Path

    @property
    def text(self) -> str:
        """As mount(8) takes it: `timeo=600`."""
        return f"{self.name}={self.value}" if self.value else self.name


@dataclass(frozen=True, slots=True)
class Hazard:
    """An option in force that is a hazard. `effective` is False where the NFS version ignores it, None
    where the version isn't known."""

    option: Option
    fact: OptionFact
    effective: bool | None = True


def split(item: str, path: Path) -> list[Option]:
    """The options in one text, split at commas outside quotes."""
    item = item[:_MAX_TEXT]
    found = []
    for part in _SPLIT.split(item) if "," in item else [item]:
        text = re.sub(r"^\s*(?:-o\s+|--)?", "", part).strip()
        if not text:
            continue
        name, _, value = text.partition("=")
        if not value and name.count(":") >= 1 and name.rpartition(":")[2].lstrip("-").isdecimal():
            name, _, value = name.rpartition(":")  # gcsfuse writes metadata-cache:ttl-secs:-1
        found.append(Option(name.strip(), value.strip().strip("\"'"), item, path))
    return found


def parse_items(items: Iterable[object], path: Path) -> list[Option]:
    """The options of a list of texts that stands at `path`; what is no text is left out."""
    found: list[Option] = []
    for index, item in enumerate(items):
        if isinstance(item, str):
            found.extend(split(item, (*path, index)))
    return found


def guess_filesystem(found: Sequence[Option]) -> str | None:
    """The protocol that the options themselves give away, None if they don't."""
    names = {option.name for option in found}
    for filesystem, telltale in _TELLTALE.items():
        if names & telltale:
            return filesystem
    return None


def nfs_version(found: Sequence[Option]) -> str:
    """`3`, `4`, `4.1`; empty if the options don't say, so that client and server agree on one."""
    version = ""
    for option in found:
        if option.name in ("vers", "nfsvers") or (not option.value and _VERSION.match(option.name)):
            match = _VERSION.match(option.value or option.name)
            version = match[1] if match else version
    minor = next((o.value for o in reversed(found) if o.name == "minorversion"), "")
    return f"4.{minor}" if version == "4" and minor in ("0", "1", "2") else version


def groups_of(filesystem: str | None) -> list[Group]:
    """The groups whose options a file system takes; generic ones last."""
    known = options()
    extra = ["fuse"] if filesystem in ("juicefs", "glusterfs", "gcsfuse") else []
    return [known[name] for name in [filesystem or "", *extra, "generic"] if name in known]


def hazards(found: Sequence[Option], filesystem: str | None, version: str = "") -> Iterator[Hazard]:
    """What is in force at the end of the list and does harm, in the order of the list. `version` is that of
    NFS, empty if it isn't known."""
    groups = groups_of(filesystem)
    for index, option in enumerate(found):
        fact = next((g.options[option.name] for g in groups if option.name in g.options), None)
        if fact is None or not fact.matters(option.value) or _undone(found[index + 1 :], option, fact):
            continue
        effective: bool | None = True
        if fact.versions:
            effective = version.partition(".")[0] in fact.versions if version else None
        yield Hazard(option, fact, effective)


def _undone(later: Sequence[Option], option: Option, fact: OptionFact) -> bool:
    """Whether a later option takes it back or says the same anew."""
    return any(
        o.name == option.name or (fact.opposite and o.name == fact.opposite and o.value != "0")
        for o in later
    )


def misspelled(found: Sequence[Option], filesystem: str | None) -> Iterator[tuple[Option, str]]:
    """Options that the file system doesn't know, with the one that was probably meant."""
    groups = groups_of(filesystem)
    if not groups[:-1] or any(group.known is None for group in groups):
        return
    known = sorted({name for group in groups for name in group.known or ()})
    for option in found:
        if len(option.name) > _MAX_NAME or option.name in known or "{" in option.text or "$" in option.text:
            continue
        near = get_close_matches(option.name, known, n=1, cutoff=0.75)
        if near:
            yield option, near[0]
