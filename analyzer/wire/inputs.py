"""Which capture files a command line means: files, folders, standard input; plain, gzip or zstd."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pyarrow as pa

from analyzer.core.errors import InputError, NothingToCheckError
from analyzer.wire.packets import ReadState, read_frames

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MAGIC: Final = {
    b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a",
}  # fmt: skip
_NO_CAPTURE: Final = (
    "not a pcap or pcapng file. Convert other capture formats with: editcap -F pcapng IN OUT"
)
_CHUNK: Final = 1 << 20
#: How much of a damaged compressed stream is lost at most beside what can't be unpacked.
_LAST_CHUNK: Final = 256
#: A compressed file may not grow past this (a bomb must not fill the disk); 64 GiB.
MAX_UNPACKED: Final = 64 << 30


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """One capture, ready to read: `name` is unique within the input and stands in references."""

    name: str
    path: Path
    size: int
    cut: str = ""  # a sentence, where a compressed stream ended early


def resolve(
    arguments: Sequence[str],
    scratch: Path,
    stdin: IO[bytes] | None = None,
    progress: Callable[[int], None] = lambda _: None,
    skipped: list[str] | None = None,
) -> list[CaptureFile]:
    """The captures that the arguments name, ordered by the time of their first frame. Files of a folder
    whose names say that they are captures, and that aren't, are named in `skipped`.

    Compressed files and standard input are unpacked into `scratch`. Raises `InputError` for what can't
    be read, `NothingToCheckError` for a folder without a capture.
    """
    found: list[CaptureFile] = []
    for argument in dict.fromkeys(arguments):
        if argument == "-":
            found.append(_spool(stdin or sys.stdin.buffer, "stdin", scratch, len(found), progress))
            continue
        path = Path(argument)
        if path.is_dir():
            inside = sorted(_captures_in(path, [] if skipped is None else skipped))
            if not inside:
                raise NothingToCheckError(f"{argument}: no capture file in this folder")
            found += [_file(p, scratch, len(found) + i, progress) for i, p in enumerate(inside)]
        else:
            found.append(_file(path, scratch, len(found), progress))
    return _uniquely_named(sorted(_without_doubles(found), key=_place))


def _captures_in(folder: Path, skipped: list[str]) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_file():
            try:
                with entry.open("rb") as stream:
                    magic = stream.read(4)
            except OSError:
                continue
            packed = magic[:2] == _GZIP or magic == _ZSTD
            if magic in _MAGIC or (packed and ".pcap" in entry.name):
                yield entry
            elif magic and {".pcap", ".pcapng", ".cap"} & set(entry.suffixes):
                skipped.append(entry.name)


def _file(
    path: Path, scratch: Path, number: int, progress: Callable[[int], None], name: str = ""
) -> CaptureFile:
    try:
        if not path.exists():
            raise InputError(f"{path}: no such file")
        if not path.is_file():
            raise InputError(f"{path}: not a regular file. To read a pipe, use - for standard input")
        with path.open("rb") as stream:
            magic = stream.read(4)
            if magic[:2] == _GZIP or magic == _ZSTD:
                return _unpack(path, name or path.name, magic, scratch, number, progress)
        if not magic:
            raise InputError(f"{path}: the file is empty")
        if magic not in _MAGIC:
            raise InputError(f"{path}: {_NO_CAPTURE}")
        return CaptureFile(path.name, path, path.stat().st_size)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _spool(
    stream: IO[bytes], name: str, scratch: Path, number: int, progress: Callable[[int], None]
) -> CaptureFile:
    target = scratch / f"input-{number}"
    with target.open("wb") as out:
        shutil.copyfileobj(stream, out, _CHUNK)
    try:
        spooled = _file(target, scratch, number + 10_000, progress, name)
    except InputError as error:
        raise InputError(str(error).replace(str(target), name)) from error
    return CaptureFile(name, spooled.path, spooled.size, spooled.cut)


def _unpack(
    path: Path,
    name: str,
    magic: bytes,
    scratch: Path,
    number: int,
    progress: Callable[[int], None],
) -> CaptureFile:
    kind = "gzip" if magic[:2] == _GZIP else "zstd"
    target = scratch / f"unpacked-{number}"
    cut = ""
    with target.open("wb") as out:
        for size in (_CHUNK, _LAST_CHUNK):  # what was asked for in one piece is lost with its end
            cut = _inflate(path, kind, size, out, name, progress)
            if not cut:
                break
        written = out.tell()
    if written < 4:
        raise InputError(cut or f"{name}: the file is empty")
    with target.open("rb") as unpacked:
        if unpacked.read(4) not in _MAGIC:
            raise InputError(f"{name}: inside it is {_NO_CAPTURE}")
    return CaptureFile(name, target, written, cut)


def _inflate(
    path: Path, kind: str, size: int, out: IO[bytes], name: str, progress: Callable[[int], None]
) -> str:
    """Unpack what `out` doesn't hold yet, in pieces of `size`; a sentence if the stream is damaged."""
    have = out.tell()
    skipped = 0
    with pa.CompressedInputStream(pa.OSFile(str(path)), kind) as source:
        try:
            while skipped < have:
                skipped += len(source.read(min(_CHUNK, have - skipped)))
            while chunk := source.read(size):
                out.write(chunk)
                progress(len(chunk))
                if out.tell() > MAX_UNPACKED:
                    raise InputError(f"{name}: unpacks to more than {MAX_UNPACKED >> 30} GiB")
        except OSError as error:
            if error.errno is not None:
                raise  # of the disk, not of the stream
            return f"{name}: the {kind} stream ends early or is damaged ({error})"
    return ""


def _without_doubles(files: list[CaptureFile]) -> list[CaptureFile]:
    seen: dict[str, CaptureFile] = {}
    for item in files:
        seen.setdefault(os.path.realpath(item.path), item)
    return list(seen.values())


def _uniquely_named(files: list[CaptureFile]) -> list[CaptureFile]:
    """Base names, made unique by a number; no folder of the user's machine gets into a report."""
    count: dict[str, int] = {}
    named = []
    for item in files:
        clean = "".join(c if c.isprintable() and c not in "#\t" else "_" for c in item.name)
        count[clean] = count.get(clean, 0) + 1
        name = clean if count[clean] == 1 else f"{clean}({count[clean]})"
        named.append(CaptureFile(name, item.path, item.size, item.cut))
    return named


def _place(item: CaptureFile) -> tuple[int, str, int, str]:
    """Ring-buffer files come in any order: the first frame's time puts them right."""
    first = next((int(f.time_ns[0]) for f in read_frames(item.path, ReadState())), 0)
    return first, item.name, item.size, str(item.path)
