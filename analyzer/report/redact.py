"""`--redact`: the same thing gets the same token everywhere; nothing else of a name stays.

Known values (every name, path, address, identity, owner and handle in the derived tables, in findings
and in coverage) are replaced wherever they occur in a text, longest first. What looks like an address
or an absolute path in free text is replaced even if no table knows it. Tokens are numbered in order of
first use: `client-1`, `/file-3`, `192.0.2.4` (documentation addresses, RFC 5737 and RFC 3849).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

import pyarrow as pa
import pyarrow.compute as pc

from analyzer.core.coverage import Coverage
from analyzer.core.rule import Outcome
from analyzer.core.schema import KINDS
from analyzer.core.table import Tables
from analyzer.report.text import visible

#: Column names (their last word) that hold something to mask, and the category of the token.
CATEGORIES = {
    "path": "file",
    "name": "file",
    "file": "file",
    "object": "handle",
    "handle": "handle",
    "client": "client",
    "clients": "client",
    "label": "client",
    "identity": "identity",
    "identities": "identity",
    "owner": "owner",
    "owners": "owner",
    "host": "host",
    "hosts": "host",
    "endpoint": "host",
    "endpoints": "host",
    "server": "host",
    "address": "host",
    "addresses": "host",
    "connection": "host",
    "connections": "host",
    "clientid": "clientid",
    "clientids": "clientid",
}
#: Kinds of subjects whose token isn't called as the kind.
SUBJECTS = {"server": "host", "connection": "host"}

#: Words of the report's own language: a name that equals one of them tells nothing, and masking it would
#: only spoil the sentences.
_OWN_WORDS = KINDS | {
    "server", "client", "file", "capture", "session", "owner", "operation",
    "connection", "lock", "locks", "hold", "wait", "back-off", "data", "eof", "ok", "fail",
    "info", "critical", "high", "medium", "low", "upheld", "violated", "unknown", "nfs",
    "tcp", "udp", "linux", "unlock", "expired", "lost", "restart", "upgrade", "downgrade",
    "the", "and", "for", "with", "from", "was", "were", "not", "its", "own", "that",
}  # fmt: skip
#: Fields that hold our own words only.
_EXEMPT = frozenset(
    {
        "rule",
        "id",
        "docs",
        "op",
        "kind",
        "status",
        "lock_type",
        "ended",
        "references",
        "documentation",
        "version",
    }
)
#: Fields whose paths are advice (`/etc/nfs.conf`), not something that was seen.
_ADVICE = frozenset({"remedy"})

_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*[0-9A-Fa-f:](?!\w)")
_PATH = re.compile(r"(?<![\w/.])/[^\s'\"<>|,;()]+")
_HOST_PORT = re.compile(r"^(.+?):\d+$")
_WORDS = re.compile(r"[^\s/]+")
_VERSION = re.compile(r"NFSv[\d.]+")
_PREFIX = 3

#: Finds what to replace in a text: start, end, category, and the value that it stands for.
Stage = Callable[[str], Iterator[tuple[int, int, str, str]]]
_SUFFIXES = (".pcap", ".pcapng", ".cap", ".gz", ".zst", ".log", ".txt", ".json", ".jsonl")


class _Words:
    """Known values, found in a text longest first, as words of their own."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, str]] = {}  # value → category, the value that it stands for
        self._lengths: dict[str, set[int]] = {}  # first characters → lengths of values that begin so

    def add(self, value: str, category: str, canonical: str) -> None:
        """Know a value; the first meaning that was given to it stays."""
        if value not in self.known:
            self.known[value] = (category, canonical)
            self._lengths.setdefault(value[:_PREFIX], set()).add(len(value))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where known values stand in the text, without overlaps."""
        at = 0
        while at < len(text):
            length = self._match(text, at)
            if length:
                yield at, at + length
            at += length or 1

    def _match(self, text: str, at: int) -> int:
        if at and text[at].isalnum() and text[at - 1].isalnum():
            return 0
        lengths: set[int] = set()
        for size in range(1, _PREFIX + 1):
            lengths |= self._lengths.get(text[at : at + size], set())
        for length in sorted(lengths, reverse=True):
            end = at + length
            inside = end < len(text) and text[end].isalnum() and text[end - 1].isalnum()
            if not inside and text[at:end] in self.known:
                return length
        return 0


class Redactor:
    """Replaces known values and what looks like one. Build it with `Redactor.of`."""

    def __init__(self) -> None:
        self._whole = _Words()  # values as the tables hold them
        self._parts = _Words()  # parts of paths and of identities
        self._tokens: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    @classmethod
    def of(
        cls, outcome: Outcome, coverage: Coverage, tables: Tables, names: Iterable[tuple[str, str]] = ()
    ) -> Redactor:
        """A redactor that knows every value of the run that may not survive; `names` are further ones,
        each with its category."""
        redactor = cls()
        for name, category in names:
            redactor.learn(name, category)
        for path in coverage.inputs:
            redactor.learn(path, "capture")
        for category, value in _table_values(tables):
            redactor.learn(value, category)
        for finding in outcome.findings:
            category = SUBJECTS.get(finding.subject.kind, finding.subject.kind)
            redactor.learn(finding.subject.name, category)
            redactor.learn(finding.subject.label, category)
            for name, fact in finding.facts.items():
                if isinstance(fact, str) and (found := _category(name)):
                    redactor.learn(fact, found)
        notes = [reference for note in coverage.notes for reference in note.evidence]
        for reference in [r for f in outcome.findings for r in f.evidence] + notes:
            redactor.learn(_reference_file(reference), "capture")
        return redactor

    def learn(self, value: str, category: str) -> None:
        """Know a value and its parts: an address without its port, the names in a path, ..."""
        value = _bare(value)
        if category == "host":
            for host in value.split(">"):
                match = _HOST_PORT.match(host)
                self._add(match[1].strip("[]") if match and not _is_address(host) else host, "host")
        elif _is_address(value):
            self._add(value, "host")
        elif category == "client" and _is_address(value.rsplit(":", 1)[0]):
            self._add(value.rsplit(":", 1)[0], "host")
        elif category == "capture":
            self._add(value, "capture", canonical=value.rsplit("/", 1)[-1])
            self._add(value.rsplit("/", 1)[-1], "capture")
        else:
            self._add(value, category)
            if category == "file" and "/" in value:
                for part in value.split("/"):
                    self._add(part, "name", part=True)
            if category in ("identity", "client"):
                for word in _WORDS.findall(value):
                    if not _VERSION.fullmatch(word):
                        self._add(word, "host", part=True)

    def _add(self, value: str, category: str, canonical: str = "", part: bool = False) -> None:
        for form in (value, visible(value)):  # also as reports show it
            if form and form.lower() not in _OWN_WORDS and not form.isdigit() and len(form) > part:
                (self._parts if part else self._whole).add(form, category, canonical or value)

    def mask(self, text: str, field: str) -> str:
        """The text without anything known or recognisable."""
        if field in _EXEMPT or not text:
            return text
        if text in self._whole.known:
            return self._token(*self._whole.known[text])
        pieces = [(text, False)]  # (piece, is it a token)
        for stage in self._stages(field):
            pieces = [
                p for piece in pieces for p in ([piece] if piece[1] else self._replace(piece[0], stage))
            ]
        return "".join(piece for piece, _ in pieces)

    def _stages(self, field: str) -> list[Stage]:
        stages = [_known(self._whole), _pattern(_PATH, "file"), _known(self._parts)]
        stages += [_pattern(_IPV6, "host"), _pattern(_IPV4, "host")]
        return [stage for i, stage in enumerate(stages) if i != 1 or field not in _ADVICE]

    def _replace(self, text: str, stage: Stage) -> Iterator[tuple[str, bool]]:
        last = 0
        for start, end, category, canonical in stage(text):
            yield text[last:start], False
            yield self._token(category, canonical), True
            last = end
        yield text[last:], False

    def _token(self, category: str, value: str) -> str:
        if category == "host" and _is_address(value):
            category = "IPv6" if ":" in value else "IPv4"
        while (category, value) not in self._tokens:
            self._counts[category] = self._counts.get(category, 0) + 1
            token = _name(category, self._counts[category], value)
            if token not in self._whole.known:  # an original that looks like a token
                self._tokens[(category, value)] = token
        return self._tokens[(category, value)]


def _known(words: _Words) -> Stage:
    def find(text: str) -> Iterator[tuple[int, int, str, str]]:
        for start, end in words.spans(text):
            yield start, end, *words.known[text[start:end]]

    return find


def _pattern(pattern: re.Pattern[str], category: str) -> Stage:
    def find(text: str) -> Iterator[tuple[int, int, str, str]]:
        for match in pattern.finditer(text):
            if category != "host" or _is_address(match[0]):
                yield match.start(), match.end(), category, match[0]

    return find


def _name(category: str, count: int, value: str) -> str:
    """The token of the `count`-th value of a category."""
    if category == "IPv4":
        nets = ("192.0.2", "198.51.100", "203.0.113")
        net, host = divmod(count - 1, 254)
        return f"{nets[net]}.{host + 1}" if net < len(nets) else f"address-{count}"
    if category == "IPv6":
        return f"2001:db8::{count:x}"
    if category == "capture":
        suffix = re.search(r"((?:\.[a-z]+){1,2})$", value)
        known = suffix is not None and all("." + s in _SUFFIXES for s in suffix[1].split(".")[1:])
        return f"capture-{count}{suffix[1] if suffix and known else ''}"
    return f"/file-{count}" if category == "file" and value.startswith("/") else f"{category}-{count}"


def _category(column: str) -> str | None:
    return CATEGORIES.get(column.rsplit("_", 1)[-1])


def _table_values(tables: Tables) -> Iterator[tuple[str, str]]:
    """(category, value) of every column to mask in every derived table, in a stable order."""
    for table in tables.all():
        columns = [(f.name, c) for f in fields(table.row_type) if (c := _category(f.name))]
        for batch in table.batches():
            for name, category in columns:
                for value in _distinct(batch.column(name)):
                    yield category, value


def _distinct(column: pa.Array) -> list[str]:
    """The distinct texts of a column of texts or of lists of texts."""
    if pa.types.is_list(column.type):
        column = pc.list_flatten(column)
    if not pa.types.is_string(column.type):
        return []
    return [value for value in pc.unique(column).to_pylist() if value]


def _bare(value: str) -> str:
    """`client 10.0.0.1` → `10.0.0.1`, so that it has one token wherever it is named."""
    kind, _, rest = value.partition(" ")
    host = rest.rpartition(":")[0] or rest
    return rest if kind in ("client", "server") and (_is_address(rest) or _is_address(host)) else value


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _reference_file(reference: str) -> str:
    """The file of `file#frame`, `journal:offset` or `file:line`."""
    return re.sub(r"(?:#|:)\d+$", "", reference)
