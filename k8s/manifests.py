"""Files and folders → objects. Every file is hostile: what can't be read is a `Problem` with file and
line, and the rest goes on."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import orjson

from analyzer.core.errors import InputError
from k8s.objects import Delivery, KubeObject, Path, Problem, list_at, text_at
from k8s.rendering import render
from k8s.yaml_text import BadYaml, line_of, parse

MAX_FILE_BYTES = 32 * 2**20
MAX_FILES = 200_000
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")  # what shells make of <(...)
_SUFFIXES = (".yaml", ".yml", ".json")
_SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".terraform"})
_BOUNDARY = re.compile(r"^(?:---(?=[ \t\r\n]|$)|\.\.\.(?=[ \t\r\n]|$))", re.M)
_TEMPLATE = re.compile(r"\{\{|\{%")
_SPLIT = "split it, or export fewer objects into one file"


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document, or a JSON file. `line` is that of its first line in the file, from 1; `start` is
    where its text begins in that of the file, in characters."""

    file: str
    line: int
    text: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class FileSource:
    """An object in a file; `prefix` leads to it where a document is a list of objects."""

    document: Document
    prefix: Path = ()

    @property
    def origin(self) -> str:
        """The file's name as it was given or found."""
        return self.document.file

    def reference(self, path: Path = ()) -> str:
        """`FILE:LINE` of what stands at the path."""
        return f"{self.origin}:{self.line(path)}"

    def line(self, path: Path = ()) -> int:
        """The line in the file, from 1."""
        return self.document.line + line_of(self.document.text, self.prefix + path) - 1


@dataclass(slots=True)
class _Reading:
    """What has been read so far. `texts` gets the text of every file that may be edited, if it is there."""

    texts: dict[str, str] | None = None
    objects: list[KubeObject] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)


def load(
    inputs: Sequence[str],
    progress: Callable[[str, int, int], None] = lambda _stage, _done, _total: None,
    texts: dict[str, str] | None = None,
) -> Delivery:
    """The objects of files, folders (searched for .yaml, .yml and .json) and `-` (standard input). Files
    are named from the current folder on, or from the folder that was given. `texts` gets the text of each.

    Raises `InputError` where an input isn't there.
    """
    reading = _Reading(texts, seen=Counter({"files": 0, "documents": 0}))
    files = _files(inputs, reading)
    for done, (name, shown) in enumerate(files, 1):
        if name == "-":
            _read(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), "<stdin>", reading)
        else:
            _read_file(name, shown, reading)
        if done % 100 == 0 or done == len(files):
            progress("manifests", done, len(files))
    seen = {"files": reading.seen["files"], "documents": reading.seen["documents"],
            "objects": len(reading.objects)}  # fmt: skip
    return Delivery(
        reading.objects, tuple(inputs), seen, tuple(reading.problems), notes=tuple(reading.notes)
    )


def read_texts(texts: Mapping[str, str]) -> Delivery:
    """The objects of several texts, by the name of the file that each stands for."""
    reading = _Reading()
    for name, text in texts.items():
        _read(text.encode("utf-8", "surrogatepass"), name, reading)
    seen = {"documents": reading.seen["documents"], "objects": len(reading.objects)}
    return Delivery(
        reading.objects, tuple(texts), seen, tuple(reading.problems), notes=tuple(reading.notes)
    )


def _files(inputs: Sequence[str], reading: _Reading) -> list[tuple[str, str]]:
    """(path, name in reports) of the files behind the inputs, each once, in a stable order."""
    found: dict[str, tuple[str, str]] = {}
    for name in inputs:
        if name == "-":
            found["-"] = ("-", "<stdin>")
            continue
        path = FilePath(name)
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "that is no file name"
            raise InputError(
                f"{name}: {reason}. Give manifests, folders of them, - for standard input, or --live"
            ) from None
        if stat.S_ISDIR(mode):
            for inner in _walk(name, reading):
                found.setdefault(os.path.realpath(inner), (inner, _shown(inner, name)))
                if len(found) > MAX_FILES:
                    raise InputError(f"{name} holds more than {MAX_FILES:,} manifests: name a folder in it")
        else:
            found.setdefault(os.path.realpath(name), (name, _shown(name, os.path.dirname(name))))
    return list(found.values())


def _shown(name: str, folder: str) -> str:
    """What reports call a file: its path from the current folder on if it is below, else from `folder` on.
    Where a machine keeps its files is nobody's business."""
    if not os.path.isabs(name) and ".." not in name.split("/"):
        return os.path.normpath(name)
    here = os.path.relpath(name)
    if not here.startswith(".."):
        return here
    parent = os.path.dirname(os.path.normpath(os.path.abspath(folder))) if folder else ""
    return os.path.relpath(os.path.abspath(name), parent) if parent else os.path.basename(name)


def _walk(folder: str, reading: _Reading) -> Iterator[str]:
    """The manifests below a folder. Links to folders aren't followed, so that no walk is endless."""

    def refused(error: OSError) -> None:
        place = _shown(str(error.filename), folder)
        reading.problems.append(Problem(place, f"the folder can't be read: {error.strerror}"))

    for place, folders, files in os.walk(folder, onerror=refused):
        rendered = render(place, _shown(place, folder), files)
        if rendered is not None:
            reading.notes.extend(rendered.notes)
            if rendered.text is not None:
                reading.seen["files"] += 1
                _read(rendered.text, rendered.name, reading, rendered=True)
            if rendered.replaces:
                folders.clear()
                continue
        folders[:] = sorted(f for f in folders if f not in _SKIPPED)
        for name in sorted(files):
            if name.lower().endswith(_SUFFIXES):
                yield os.path.join(place, name)


def _read_file(path: str, name: str, reading: _Reading) -> None:
    # a pipe that nobody writes to would keep a plain open() waiting; one named by the user has a writer
    wait = 0 if path.startswith(_DESCRIPTORS) else os.O_NONBLOCK
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | wait)) as file:
            if wait and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                reading.problems.append(Problem(name, "it is no regular file"))
                return
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reading.problems.append(Problem(name, f"it can't be read: {error.strerror}"))
        return
    _read(content, name, reading)


def _read(content: bytes, name: str, reading: _Reading, rendered: bool = False) -> None:
    reading.seen["files"] += 1
    if len(content) > MAX_FILE_BYTES:
        limit = f"it is larger than {MAX_FILE_BYTES // 2**20} MiB"
        reading.problems.append(Problem(name, f"{limit} and was not read", _SPLIT))
        return
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        reading.problems.append(Problem(f"{name}:{line}", "it is no text in UTF-8"))
        return
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        reading.problems.append(Problem(f"{name}:{line}", "it is a binary file, no manifest"))
        return
    if reading.texts is not None and not rendered:
        reading.texts[name] = text
    if text.lstrip()[:1] in ("{", "[") and _read_json(text, name, reading):
        return
    for document in _documents(text, name):
        _read_document(document, reading)


def _read_json(text: str, name: str, reading: _Reading) -> bool:
    """False if the text is no JSON: flow style YAML begins with a brace too."""
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    reading.seen["documents"] += 1
    _take(data, Document(name, 1, text), reading)
    return True


def _documents(text: str, name: str) -> Iterator[Document]:
    """The documents of a stream. A mark at the beginning of a line is never inside a document."""
    start = line = 0
    for boundary in _BOUNDARY.finditer(text):
        if boundary.start() > start:
            yield Document(name, line + 1, text[start : boundary.start()], start)
        line += text.count("\n", start, boundary.end())
        start = boundary.end()
    yield Document(name, line + 1, text[start:], start)


def _read_document(document: Document, reading: _Reading) -> None:
    if not document.text.strip():
        return
    try:
        data, duplicates = parse(document.text)
    except BadYaml as error:
        reading.problems.append(_problem(document, error))
        return
    if data is None:
        return
    reading.seen["documents"] += 1
    if _take(data, document, reading):
        for duplicate in duplicates[:20]:
            reading.problems.append(
                Problem(
                    f"{document.file}:{document.line + duplicate.line - 1}",
                    f"the key {duplicate.key!r} is there twice in one mapping; the later one counts",
                    "remove one of the two",
                    duplicate=True,
                )
            )


def _problem(document: Document, error: BadYaml) -> Problem:
    place = f"{document.file}:{document.line + error.line - 1}"
    if _TEMPLATE.search(document.text):
        return Problem(
            place,
            "it is a template and no YAML until it is rendered",
            "render it first: helm template CHART | storage-analyzer audit -",
            template=True,
        )
    return Problem(place, f"it is no YAML: {error.message}", "mend the YAML; the rest of the file was read")


def _take(data: Any, document: Document, reading: _Reading) -> bool:
    """Keep the objects of a document; True if there were some."""
    before = len(reading.objects)
    _collect(data, FileSource(document), reading, 0)
    return len(reading.objects) > before


def _collect(data: Any, source: FileSource, reading: _Reading, depth: int) -> None:
    if isinstance(data, list) and depth < 3:  # a JSON file may be a list of objects
        for index, item in enumerate(data):
            _collect(item, FileSource(source.document, (*source.prefix, index)), reading, depth + 1)
        return
    kind = text_at(data, "kind")
    if not kind or not text_at(data, "apiVersion"):
        return
    if kind.endswith("List") and list_at(data, "items") and depth < 3:
        for index, item in enumerate(list_at(data, "items")):
            if isinstance(item, dict):
                item.setdefault("kind", kind.removesuffix("List"))
                item.setdefault("apiVersion", data["apiVersion"])
            inner = FileSource(source.document, (*source.prefix, "items", index))
            _collect(item, inner, reading, depth + 1)
        return
    reading.objects.append(KubeObject.of(data, source))
