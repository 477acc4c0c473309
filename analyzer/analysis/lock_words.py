"""Words that the lock rules share: files, ranges, and waits grouped by who waited for whom."""

from __future__ import annotations

from collections.abc import Iterable

from analyzer.analysis.locks import LockWait
from analyzer.analysis.words import duration
from analyzer.core.finding import Subject

NS = 1_000_000_000
_NO_CLIENTID = "0x0000000000000000"


def file_name(path: str | None, handle: str) -> str:
    """The path, or the handle where the input never told it."""
    return path or f"file {handle[:32]}"


def file_subject(endpoint: str, handle: str, path: str | None) -> Subject:
    """A file at a server as the subject of a finding."""
    return Subject("file", f"{handle}@{endpoint}", file_name(path, handle))


def range_words(offset: int, length: int) -> str:
    """`(0, 10)` → "bytes 0-9", `(0, -1)` → "the whole file", `(5, -1)` → "bytes 5 to the end"."""
    if length < 0:
        return f"bytes {offset} to the end" if offset else "the whole file"
    return f"byte {offset}" if length == 1 else f"bytes {offset}-{offset + length - 1}"


def seconds(ns: int) -> str:
    """`5501000000` → "5.50 s", also for less than a second ("0.04 s"), so that sums can be compared;
    what would be "0.00 s" comes in smaller units."""
    return f"{ns / NS:.2f} s" if ns >= NS // 200 or not ns else duration(ns)


def holder_words(wait: LockWait, client: str) -> str:
    """Who held the lock; `client` is the holder's name in sentences."""
    if wait.holder_client is not None:
        same = wait.holder_client == wait.client
        return "another process of its own" if same else f"{client}'s hold"
    if wait.holder_clientid == _NO_CLIENTID:
        return "a holder outside NFSv4 (a process on the server, NFSv3 or SMB)"
    return "a holder that the reply didn't name"


def longest_by(waits: Iterable[LockWait]) -> list[tuple[LockWait, int, int]]:
    """Per file, waiter and holder: `(longest wait, how many, sum of wait_ns)`, longest first."""
    groups: dict[tuple[str | None, ...], tuple[LockWait, int, int]] = {}
    for wait in waits:
        key = (wait.endpoint, wait.object, wait.client, wait.holder_client, wait.holder_clientid)
        longest, count, total = groups.get(key, (wait, 0, 0))
        longest = max(longest, wait, key=lambda w: w.wait_ns)
        groups[key] = (longest, count + 1, total + wait.wait_ns)
    return sorted(groups.values(), key=lambda g: (-g[0].wait_ns, g[0].asked_ns))
