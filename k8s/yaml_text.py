"""YAML text → plain data, and back from a place in the data to its line.

libyaml does the parsing; no tag ever makes an object. Data and positions are two passes: every document
is read for its data, only those that a finding cites are read again for lines. Scalars resolve as
`kubectl` resolves them (YAML 1.1: `yes` and `on` are booleans).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_DEPTH = 100
_MIN_NODES = 50_000
_DIGITS = 40  # a longer number is none that Kubernetes knows
_PLAIN, _QUOTED = "plain", "quoted"
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$")
_OTHER_INTEGER = re.compile(r"([-+]?)(0x[0-9a-fA-F_]+|0o?[0-7_]+|0b[01_]+)$")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_WORDS: dict[str, bool | None] = {"": None, "~": None}
for _word, _meaning in (("null", None), ("true", True), ("yes", True), ("on", True),
                        ("false", False), ("no", False), ("off", False)):  # fmt: skip
    _WORDS.update({_word: _meaning, _word.capitalize(): _meaning, _word.upper(): _meaning})


class BadYaml(Exception):
    """A text that is no YAML, or more than we read. `line` counts from 1 within the text."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A key that a mapping has twice; the later one counts. `line` counts from 1."""

    key: str
    line: int


class _Parser(yaml.CBaseLoader):
    """libyaml's parser; of implicit tags it only notes whether the scalar was plain."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """The tag of a node without one."""
        return _PLAIN if kind is ScalarNode and implicit[0] else _QUOTED

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """Nothing depends on where a node stands."""

    def ascend_resolver(self) -> None:
        """Nothing depends on where a node stands."""


def parse(text: str) -> tuple[Any, list[Duplicate]]:
    """The data of one document, and its duplicate keys. Raises `BadYaml`."""
    node = _compose(text)
    if node is None:
        return None, []
    builder = _Builder(max(_MIN_NODES, 2 * len(text)))
    return builder.build(node, 0), builder.duplicates


def line_of(text: str, path: tuple[str | int, ...]) -> int:
    """The line (from 1) of what stands at the path, or of its nearest parent that is there."""
    try:
        node = _cached(text)
    except BadYaml:
        return 1
    return span_of(node, path)[0] if node is not None else 1


def span_of(node: Node, path: tuple[str | int, ...]) -> tuple[int, Node, Node | None, bool]:
    """(line from 1, value, its key if it is in a mapping, whether the whole path was there)."""
    key: Node | None = None
    line = node.start_mark.line
    for step in path:
        found = _step(node, step)
        if found is None:
            return line + 1, node, key, False
        key, node = found
        line = (key or node).start_mark.line
    return line + 1, node, key, True


def nodes_of(text: str) -> Node | None:
    """The node tree of one document. Raises `BadYaml`."""
    return _cached(text)


@lru_cache(maxsize=4)
def _cached(text: str) -> Node | None:
    return _compose(text)


def _compose(text: str) -> Node | None:
    try:
        parser = _Parser(text)
        try:
            return parser.get_single_node()
        finally:
            parser.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise BadYaml(said, mark.line + 1 if mark else 1) from None
    except yaml.reader.ReaderError as error:
        raise BadYaml(f"{error.reason} (character U+{_code(error.character):04X})", 1) from None
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise BadYaml(str(error).splitlines()[0] if str(error) else type(error).__name__, 1) from None


def _code(character: object) -> int:
    return character if isinstance(character, int) else ord(str(character)[:1] or "\0")


def _step(node: Node, step: str | int) -> tuple[Node | None, Node] | None:
    if isinstance(node, SequenceNode):
        if isinstance(step, int) and 0 <= step < len(node.value):
            return None, node.value[step]
        return None
    if not isinstance(node, MappingNode):
        return None
    for key, value in reversed(node.value):
        if key.value == step or (isinstance(step, str) and _key(key) == step):
            return key, value
    for key, value in node.value:
        if key.value == "<<" and key.tag == _PLAIN:
            for merged in value.value if isinstance(value, SequenceNode) else [value]:
                if isinstance(merged, MappingNode) and merged is not node:
                    found = _step(merged, step) if not _merges(merged) else None
                    if found is not None:
                        return found
    return None


def _merges(node: MappingNode) -> bool:
    """A merge within a merge isn't followed, for it may lead round in a circle."""
    return any(key.value == "<<" for key, _ in node.value)


def _key(node: Node) -> str:
    return node.value if isinstance(node, ScalarNode) else ""


class _Builder:
    """Builds data from nodes; aliases are copied, within a budget."""

    def __init__(self, budget: int) -> None:
        self._left = budget
        self.duplicates: list[Duplicate] = []

    def build(self, node: Node, depth: int) -> Any:
        """The data of a node. Raises `BadYaml` where it is too deep, too much, or has a key that is no
        text."""
        self._left -= 1
        if self._left < 0:
            raise BadYaml("its aliases expand to far more than the text", node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return _plain(node.value) if node.tag == _PLAIN else node.value
        if depth > MAX_DEPTH:
            raise BadYaml(f"it is nested more than {MAX_DEPTH} levels deep", node.start_mark.line + 1)
        if isinstance(node, SequenceNode):
            return [self.build(item, depth + 1) for item in node.value]
        return self._mapping(node, depth)

    def _mapping(self, node: Node, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                raise BadYaml("a key is a list or a mapping", key.start_mark.line + 1)
            built = self.build(value, depth + 1)
            name = key.value
            if name == "<<" and key.tag == _PLAIN:
                for item in reversed(built if isinstance(built, list) else [built]):
                    merged.update(item if isinstance(item, dict) else {})
                continue
            if name in found:
                self.duplicates.append(Duplicate(name, key.start_mark.line + 1))
            found[name] = built
        return {**merged, **found} if merged else found


def _plain(text: str) -> Any:
    """A plain scalar by its looks."""
    first = text[:1]
    if first.isdigit() or first in "+-.":
        return _number(text)
    return _WORDS.get(text, text) if len(text) <= 5 else text


def _number(text: str) -> Any:
    if len(text) > _DIGITS:
        return text
    if _INTEGER.match(text):
        return int(text.replace("_", ""))
    if other := _OTHER_INTEGER.match(text):
        digits = other[2].replace("_", "")
        base = {"x": 16, "o": 8, "b": 2}.get(digits[1:2], 8)
        body = digits[2:] if digits[1:2] in ("x", "o", "b") else digits
        return int(other[1] + (body or "0"), base)
    if _FLOAT.match(text) and text != ".":
        try:
            return float(text)
        except (ValueError, OverflowError):
            return text
    return text
