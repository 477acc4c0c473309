"""What became of one file's UNSTABLE writes: committed, lost by a new write verifier, or left behind.

A server may keep an UNSTABLE write in memory until COMMIT. Its write verifier changes when it may have
lost such data; the client must then send again everything whose WRITE returned another verifier than the
COMMIT does (RFC 8881 sections 18.3.3 and 18.32.3, RFC 7530 sections 16.3.4 and 16.36.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

#: The end of a range that goes to the end of the file.
TO_END: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class UncommittedData:
    """UNSTABLE writes of one client to one file that no COMMIT confirmed.

    `ended` is `verifier` (the server answered `ended_op` with another write verifier), `close` (the
    client closed the file first and no COMMIT came later) or `end` (the input ended). `writes`, `bytes`
    and the range `offset_lo..offset_hi` (exclusive) are of all of them. `resent_bytes` is what the client
    wrote to that range after the verifier had changed; the data counts as resent when that is as much
    as was lost. `exact` is False where COMMITs of parts left it open which bytes are meant.
    `input_last_ns` is the last reply to a WRITE, COMMIT or CLOSE."""

    endpoint: str
    client: str
    object: str
    path: str | None
    verifier: str | None
    writes: int
    bytes: int
    offset_lo: int
    offset_hi: int
    first_ns: int
    last_ns: int
    ended: str
    ended_ns: int | None
    ended_op: str | None
    new_verifier: str | None
    resent: bool
    resent_bytes: int
    resent_ns: int | None
    exact: bool
    input_last_ns: int
    at_first: str | None
    at_last: str | None
    at_end: str | None
    at_resent: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """Consecutive operations of one client on one file: a run of WRITEs of one kind and one verifier
    (`unstable` or `stable`), one COMMIT (`commit`), or one CLOSE (`close`). The range is `lo..hi`."""

    what: str
    op: str | None
    verifier: str | None
    stateid: str | None
    path: str | None
    count: int
    bytes: int
    lo: int
    hi: int
    first_ns: int
    last_ns: int
    at_first: str | None
    at_last: str | None


@dataclass(slots=True)
class _Data:
    """Writes that aren't confirmed yet, or that the server lost."""

    run: Step
    exact: bool = True
    closed_ns: int | None = None
    at_closed: str | None = None


@dataclass(slots=True)
class _Loss:
    """Writes whose verifier is gone, and what the client did about it."""

    data: _Data
    by: Step
    resent_bytes: int = 0
    resent_ns: int | None = None
    at_resent: str | None = None

    @property
    def resent(self) -> bool:
        run = self.data.run
        return self.resent_bytes >= min(run.bytes, run.hi - run.lo)


class FileWrites:
    """Follows one client's writes to one file. `take` and `finish` return rows that are complete."""

    def __init__(self, endpoint: str, client: str, file: str) -> None:
        self._name = (endpoint, client, file)
        self._pending: _Data | None = None
        self._loss: _Loss | None = None

    @property
    def idle(self) -> bool:
        """True if nothing is outstanding: then the file can be forgotten."""
        return self._pending is None and self._loss is None

    @property
    def verifier(self) -> str | None:
        """The verifier of the outstanding writes."""
        return None if self._pending is None else self._pending.run.verifier

    @property
    def lost(self) -> bool:
        """True while data waits to be sent again."""
        return self._loss is not None

    def take(self, step: Step) -> list[UncommittedData]:
        """The next step in the order of replies."""
        if step.what == "close":
            self._close(step)
            return []
        if self._differs(step):
            self._lose(step)
        if step.what == "commit":
            self._commit(step)
            return []
        rows = self._credit(step)
        if step.what == "unstable":
            self._pending = _Data(step) if self._pending is None else _joined(self._pending, step)
        return rows

    def finish(self, input_last_ns: int) -> list[UncommittedData]:
        """What is outstanding when the input ends."""
        rows = []
        if self._loss is not None:
            rows.append(self._lost_row(self._loss, input_last_ns))
        if self._pending is not None:
            rows.append(self._left_row(self._pending, input_last_ns))
        return rows

    def _differs(self, step: Step) -> bool:
        known = self.verifier
        return known is not None and step.verifier is not None and step.verifier != known

    def _lose(self, by: Step) -> None:
        assert self._pending is not None
        if self._loss is None:
            self._loss = _Loss(self._pending, by)
        else:
            self._loss.data = _joined(self._loss.data, self._pending.run)
        self._pending = None

    def _commit(self, step: Step) -> None:
        if self._pending is None:
            return
        run = self._pending.run
        lo = step.hi if step.lo <= run.lo < step.hi else run.lo
        hi = step.lo if step.lo < run.hi <= step.hi else run.hi
        if lo >= hi:
            self._pending = None
            return
        if run.lo < step.lo and step.hi < run.hi:
            self._pending.exact = False
        self._pending.run = replace(run, lo=lo, hi=hi, bytes=min(run.bytes, hi - lo))

    def _close(self, step: Step) -> None:
        pending = self._pending
        if pending is None or pending.closed_ns is not None:
            return
        stateid = pending.run.stateid
        if stateid is None or step.stateid is None or stateid == step.stateid:
            pending.closed_ns, pending.at_closed = step.last_ns, step.at_last

    def _credit(self, step: Step) -> list[UncommittedData]:
        """Count a run of WRITEs as sent again where it overlaps with what was lost."""
        loss = self._loss
        if loss is None or step.verifier == loss.data.run.verifier:
            return []
        run = loss.data.run
        overlap = min(step.hi, run.hi) - max(step.lo, run.lo)
        if overlap <= 0:
            return []
        loss.resent_bytes += min(overlap, step.bytes)
        loss.resent_ns, loss.at_resent = step.last_ns, step.at_last
        if not loss.resent:
            return []
        self._loss = None
        return [self._lost_row(loss, step.last_ns)]

    def _lost_row(self, loss: _Loss, input_last_ns: int) -> UncommittedData:
        run, by = loss.data.run, loss.by
        return UncommittedData(
            *self._name, run.path, run.verifier, run.count, run.bytes, run.lo, run.hi, run.first_ns,
            run.last_ns, "verifier", by.first_ns, by.op, by.verifier, loss.resent, loss.resent_bytes,
            loss.resent_ns, loss.data.exact, input_last_ns, run.at_first, run.at_last, by.at_first,
            loss.at_resent,
        )  # fmt: skip

    def _left_row(self, data: _Data, input_last_ns: int) -> UncommittedData:
        run = data.run
        closed = data.closed_ns is not None
        return UncommittedData(
            *self._name, run.path, run.verifier, run.count, run.bytes, run.lo, run.hi, run.first_ns,
            run.last_ns, "close" if closed else "end", data.closed_ns, "CLOSE" if closed else None, None,
            False, 0, None, data.exact, input_last_ns, run.at_first, run.at_last, data.at_closed, None,
        )  # fmt: skip


def _joined(data: _Data, more: Step) -> _Data:
    """Both runs as one; the file counts as open again, since it was written to."""
    run = data.run
    return _Data(
        replace(
            run,
            stateid=more.stateid,
            path=more.path or run.path,
            count=run.count + more.count,
            bytes=run.bytes + more.bytes,
            lo=min(run.lo, more.lo),
            hi=max(run.hi, more.hi),
            last_ns=more.last_ns,
            at_last=more.at_last,
        ),
        data.exact,
    )
