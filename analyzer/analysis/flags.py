"""SEQUENCE status flags: what servers told clients about their session, lease and state.

Names, numbers and meanings: RFC 8881, section 18.46.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
from analyzer.core.rule import Fold
from analyzer.core.table import Tables

_EVIDENCE = 8

FLAGS: Mapping[int, str] = {
    0x1: "CB_PATH_DOWN",
    0x2: "CB_GSS_CONTEXTS_EXPIRING",
    0x4: "CB_GSS_CONTEXTS_EXPIRED",
    0x8: "EXPIRED_ALL_STATE_REVOKED",
    0x10: "EXPIRED_SOME_STATE_REVOKED",
    0x20: "ADMIN_STATE_REVOKED",
    0x40: "RECALLABLE_STATE_REVOKED",
    0x80: "LEASE_MOVED",
    0x100: "RESTART_RECLAIM_NEEDED",
    0x200: "CB_PATH_DOWN_SESSION",
    0x400: "BACKCHANNEL_FAULT",
    0x800: "DEVID_CHANGED",
    0x1000: "DEVID_DELETED",
}


@dataclass(frozen=True, slots=True)
class FlagRow:
    """One flag that one client was told at one server: in how many SEQUENCE replies, first and last."""

    endpoint: str
    client: str | None
    flag: str
    count: int
    first_ns: int
    last_ns: int
    evidence: tuple[str, ...]


@dataclass(slots=True)
class _Count:
    count: int
    first_ns: int
    last_ns: int
    evidence: list[str]


class _Flags:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.of(FlagRow)
        self._counts: dict[tuple[str, str | None, str], _Count] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        raised = integers(batch.column("flags")) != 0
        if not raised.any():
            return
        raised &= is_in(batch.column("op"), frozenset({"SEQUENCE"}))
        batch = rows_of(batch, raised)
        codes, groups = grouped(batch, ("endpoint", "client", "flags"))
        seen = ends_or_starts(batch)
        counts = np.bincount(codes, minlength=len(groups)).tolist()
        first = least(codes, seen, len(groups)).tolist()
        last = greatest(codes, seen, len(groups)).tolist()
        for index, (endpoint, client, value) in enumerate(groups):
            rows = np.flatnonzero(codes == index)[:_EVIDENCE].tolist()
            refs = [ref for ref in (batch.column("at_return")[row].as_py() for row in rows) if ref]
            for bit in range(32):
                if value & (1 << bit):
                    name = FLAGS.get(1 << bit, f"unknown flag {1 << bit:#x}")
                    self._add((endpoint, client, name), counts[index], first[index], last[index], refs)

    def _add(
        self, key: tuple[str, str | None, str], count: int, first_ns: int, last_ns: int, refs: list[str]
    ) -> None:
        known = self._counts.setdefault(key, _Count(0, first_ns, last_ns, []))
        known.count += count
        known.first_ns = min(known.first_ns, first_ns)
        known.last_ns = max(known.last_ns, last_ns)
        known.evidence.extend(refs[: _EVIDENCE - len(known.evidence)])

    def finish(self) -> None:
        for key, found in self._counts.items():
            times = (found.first_ns, found.last_ns)
            self._rows.append(FlagRow(*key, found.count, *times, tuple(found.evidence)))


FOLD = Fold(
    name="flags",
    reads=("endpoint", "client", "op", "flags", "start_lo", "end_lo", "at_return"),
    produces=(FlagRow,),
    start=_Flags,
    kinds=frozenset({"session"}),
)
