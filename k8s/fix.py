"""`--fix`: patches that mend what can be mended in the manifests.

Round by round the changes of all findings are made in the text and the result is audited again, until
nothing is left that can be mended: edits may open the way for others, and two findings may want to change
the same line.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyzer.core.finding import Finding
from k8s.edit import appended, edited
from k8s.manifests import FileSource, read_texts
from k8s.objects import Delivery, KubeObject, Path

_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Mended:
    """What was mended. `patch` is a unified diff of all files; `before` and `after` count the findings
    that can be mended in YAML."""

    patch: str
    texts: Mapping[str, str]
    before: int
    after: int


def mend(texts: Mapping[str, str], find: Callable[[Delivery], Sequence[Finding]]) -> Mended:
    """The patch for files by name. `find` gives the findings of what was delivered."""
    current = dict(texts)
    first: int | None = None
    left = 0
    for _ in range(_ROUNDS):
        delivery = read_texts(current)
        mendable = [finding for finding in find(delivery) if finding.changes]
        first = len(mendable) if first is None else first
        left = len(mendable)
        renewed = _round(current, delivery.objects, mendable) if mendable else current
        if renewed == current:
            break
        current = renewed
    return Mended(_patch(texts, current), current, first or 0, left)


def _round(
    texts: Mapping[str, str], objects: Sequence[KubeObject], findings: Sequence[Finding]
) -> dict[str, str]:
    """The texts after one round of changes."""
    known = {obj.source.reference(): obj for obj in objects}
    edits: dict[str, dict[int, list[tuple[Path, object]]]] = defaultdict(lambda: defaultdict(list))
    documents: dict[tuple[str, int], str] = {}
    additions: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for finding in findings:
        for change in finding.changes:
            source = known[change.target].source if change.target in known else None
            if not isinstance(source, FileSource):
                continue
            document = source.document
            if isinstance(change.value, dict) and not change.path:
                additions[document.file][str(change.value["metadata"]["name"])] = change.value
                continue
            documents[document.file, document.start] = document.text
            edits[document.file][document.start].append(((*source.prefix, *change.path), change.value))
    renewed = dict(texts)
    for file, by_start in edits.items():
        for start in sorted(by_start, reverse=True):
            old = documents[file, start]
            text = renewed[file]
            renewed[file] = text[:start] + edited(old, by_start[start]) + text[start + len(old) :]
    for file, added in additions.items():
        for name in sorted(added):
            if renewed[file].lstrip()[:1] not in ("{", "["):  # a JSON file holds one document only
                renewed[file] = appended(renewed[file], added[name])
    return renewed


def _patch(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    parts: list[str] = []
    for name, old in before.items():
        new = after[name]
        if new == old:
            continue
        lines = difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
        for line in lines:
            parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)
