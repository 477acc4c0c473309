"""Edits of YAML and JSON text that leave all the rest as it was, comments and order too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from k8s.objects import Path, at
from k8s.yaml_text import BadYaml, nodes_of, parse, span_of


def edited(text: str, changes: Iterable[tuple[Path, object]]) -> str:
    """The document with every (path, value) set; None removes. Paths are those of the text as it is; an
    edit that can't be made, or would not have the effect it should, is left out."""
    ordered = sorted(_distinct(changes), key=lambda change: _position(text, change[0]), reverse=True)
    for path, value in ordered:
        candidate = _edit(text, path, value)
        if candidate is not None and _took_effect(text, candidate, path, value):
            text = candidate
    return text


def appended(text: str, document: dict[str, Any]) -> str:
    """The text of a file with one more YAML document at its end."""
    end = "" if text.endswith("\n") or not text else "\n"
    body = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return f"{text}{end}---\n{body}"


def _distinct(changes: Iterable[tuple[Path, object]]) -> list[tuple[Path, object]]:
    """Each path once, and none that lies within another."""
    found: dict[Path, object] = {}
    for path, value in changes:
        if not any(path[: len(known)] == known or known[: len(path)] == path for known in found):
            found[path] = value
    return list(found.items())


def _position(text: str, path: Path) -> int:
    """Where an edit of the path begins; what is added at the end of a mapping comes after all of it."""
    try:
        node = nodes_of(text)
    except BadYaml:
        return 0
    if node is None:
        return 0
    _, value, key, whole = span_of(node, path)
    return _offset(text, (key or value).start_mark) if whole else _end(text, value)


def _offset(text: str, mark: yaml.Mark) -> int:
    start = 0
    for _ in range(mark.line):
        start = text.find("\n", start) + 1
        if not start:
            return len(text)
    return int(start + mark.column)


def _end(text: str, node: Node) -> int:
    """The end of what a node really occupies: block collections end after the last of their items, block
    texts with their last line."""
    if not isinstance(node, SequenceNode | MappingNode) or node.flow_style:
        start, end = _offset(text, node.start_mark), _offset(text, node.end_mark)
        return start + len(text[start:end].rstrip())
    items = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
    return max([_end(text, part) for part in items], default=_offset(text, node.end_mark))


def _edit(text: str, path: Path, value: object) -> str | None:
    root = nodes_of(text)
    if root is None or not path:
        return None
    _, node, key, whole = span_of(root, path)
    _, parent, _, parent_whole = span_of(root, path[:-1])
    if not parent_whole:
        return None
    if not whole:
        return None if value is None else _added(text, parent, str(path[-1]), value)
    if value is not None:
        if not isinstance(node, ScalarNode):
            return None
        start, end = _offset(text, node.start_mark), _offset(text, node.end_mark)
        inline = isinstance(parent, SequenceNode | MappingNode) and bool(parent.flow_style)
        return text[:start] + _scalar(value, _is_json(text), inline) + text[end:]
    return _removed(text, root, path, parent, key or node, node)


def _added(text: str, parent: Node, key: str, value: object) -> str | None:
    if not isinstance(parent, MappingNode) or not parent.value:
        return None
    if parent.flow_style:
        json = _is_json(text)
        end = _end(text, parent) - 1
        name = orjson.dumps(key).decode() if json else _scalar(key, False)
        head = text[:end].rstrip()
        return f"{head}, {name}: {_scalar(value, json, inline=True)}{text[end:]}"
    first, _ = parent.value[0]
    end = _end(text, parent)
    newline = text.find("\n", end)
    at_end = len(text) if newline < 0 else newline
    indent = " " * first.start_mark.column
    return f"{text[:at_end]}\n{indent}{_scalar(key, False)}: {_scalar(value, False)}{text[at_end:]}"


def _removed(text: str, root: Node, path: Path, parent: Node, first: Node, node: Node) -> str | None:
    if len(parent.value) == 1:  # an empty list or mapping says nothing: its key goes too
        if len(path) < 2:
            return None
        return _edit(text, path[:-1], None)
    if isinstance(parent, SequenceNode | MappingNode) and parent.flow_style:
        return _removed_from_flow(text, parent, first)
    start = text.rfind("\n", 0, _offset(text, first.start_mark)) + 1
    before = text[start : _offset(text, first.start_mark)]
    if before.strip() not in ("", "-") or (before.strip() == "-" and isinstance(parent, MappingNode)):
        return _removed_first(text, parent, first)
    newline = text.find("\n", _end(text, node))
    return text[:start] + ("" if newline < 0 else text[newline + 1 :])


def _removed_first(text: str, parent: Node, first: Node) -> str | None:
    """Take out the first key of a mapping that begins on the line of a list's dash."""
    if not isinstance(parent, MappingNode) or parent.value[0][0] is not first:
        return None
    start, following = _offset(text, first.start_mark), _offset(text, parent.value[1][0].start_mark)
    return text[:start] + text[following:]


def _removed_from_flow(text: str, parent: Node, first: Node) -> str:
    """Take one item out of `[a, b]` or `{a: 1, b: 2}`, with one of the commas beside it."""
    items = [item[0] if isinstance(item, tuple) else item for item in parent.value]
    ends = [item[1] if isinstance(item, tuple) else item for item in parent.value]
    index = next(i for i, item in enumerate(items) if item is first)
    if index + 1 < len(items):
        start, end = _offset(text, items[index].start_mark), _offset(text, items[index + 1].start_mark)
    else:
        start, end = _end(text, ends[index - 1]), _end(text, ends[index])
    return text[:start] + text[end:]


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _scalar(value: object, json: bool, inline: bool = False) -> str:
    """A scalar as JSON writes it, or as YAML does: quoted where it must be, `inline` between commas."""
    if json or not isinstance(value, str):
        return orjson.dumps(value).decode()
    given = [value] if inline else value
    plain = yaml.safe_dump(given, default_flow_style=True, width=10_000, allow_unicode=True)
    plain = plain.strip().removesuffix("\n...").strip()
    return plain[1:-1] if inline else plain


def _took_effect(before: str, after: str, path: Path, value: object) -> bool:
    """Whether the edit did what it should, and left a document that can be read."""
    try:
        old, _ = parse(before)
        new, _ = parse(after)
    except BadYaml:
        return False
    if value is not None:
        return bool(at(new, *path) == value)
    return (
        bool(new != old)
        and isinstance(new, type(old))
        and isinstance(nodes_of(after), SequenceNode | MappingNode)
    )
