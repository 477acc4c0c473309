"""Data that a server holds in memory only: WRITEs answered UNSTABLE and not committed yet."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from analyzer.analysis.groups import (
    ends_or_starts,
    greatest,
    grouped,
    integers,
    is_in,
    least,
    rows_of,
)

_MOST_FILES = 65_536

_Key = tuple[str, str | None, str]  # endpoint, object, verifier


@dataclass(slots=True)
class UncommittedFile:
    """UNSTABLE WRITEs of one file under one verifier that no COMMIT under that verifier has covered."""

    client: str | None
    writes: int
    bytes: int
    last_end_ns: int
    first_ref: str


class Uncommitted:
    """Follows WRITE and COMMIT replies, per server, file and verifier.

    A COMMIT covers the WRITEs that were answered before it was called (RFC 8881, section 18.3). It is
    taken to cover the whole file, as clients ask it to. Memory is bounded: of more than 65,536 files
    the oldest are forgotten.
    """

    def __init__(self) -> None:
        self._files: dict[_Key, UncommittedFile] = {}
        self._verifiers: dict[tuple[str, str | None], tuple[str, ...]] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        """Rows: WRITE and COMMIT, answered ok, with a verifier, in stream order."""
        unstable = is_in(batch.column("committed"), frozenset({"unstable"}))
        commits = is_in(batch.column("kind"), frozenset({"commit"}))
        batch = rows_of(batch, unstable | commits)
        if not batch.num_rows:
            return
        codes, groups = grouped(batch, ("endpoint", "object", "value"))
        commits = is_in(batch.column("kind"), frozenset({"commit"}))
        starts, ends = integers(batch.column("start_lo")), ends_or_starts(batch)
        committed = greatest(codes[commits], starts[commits], len(groups))
        left = ~commits & (ends > committed[codes])
        payload = integers(batch.column("bytes"))
        writes = np.bincount(codes[left], minlength=len(groups)).tolist()
        data = np.bincount(codes[left], weights=payload[left], minlength=len(groups)).tolist()
        last = greatest(codes[left], ends[left], len(groups)).tolist()
        first_row = least(codes[left], np.flatnonzero(left), len(groups)).tolist()
        for index, (endpoint, handle, verifier) in enumerate(groups):
            key = (endpoint, handle, verifier)
            self._remember(endpoint, handle, verifier)
            known = self._files.get(key)
            if known is not None and committed[index] >= known.last_end_ns:
                del self._files[key]
                known = None
            if not writes[index]:
                continue
            if known is not None:
                known.writes += writes[index]
                known.bytes += int(data[index])
                known.last_end_ns = max(known.last_end_ns, last[index])
                continue
            row = first_row[index]
            ref = batch.column("at_return")[row].as_py() or ""
            client = batch.column("client")[row].as_py()
            self._files[key] = UncommittedFile(client, writes[index], int(data[index]), last[index], ref)
            if len(self._files) > _MOST_FILES:
                del self._files[next(iter(self._files))]

    def _remember(self, endpoint: str, handle: str | None, verifier: str) -> None:
        place = (endpoint, handle)
        seen = self._verifiers.get(place)
        if seen is None:
            self._verifiers[place] = (verifier,)
            if len(self._verifiers) > _MOST_FILES:
                del self._verifiers[next(iter(self._verifiers))]
        elif seen[-1] != verifier:
            self._verifiers[place] = (*seen[-3:], verifier)

    def under(self, endpoint: str, verifier: str) -> list[UncommittedFile]:
        """What was never committed under a verifier."""
        wanted = (endpoint, verifier)
        return [entry for (where, _, value), entry in self._files.items() if (where, value) == wanted]

    def changed_for_a_file(self, endpoint: str, old: str, new: str) -> bool:
        """Whether some file's replies went from one verifier straight to the other."""
        return any(
            where == endpoint and (old, new) in pairwise(seen)
            for (where, _), seen in self._verifiers.items()
        )
