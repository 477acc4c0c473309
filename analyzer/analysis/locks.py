"""Byte-range locks over time: who held what, who waited for whom, and what the wait was made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LockHold:
    """One granted byte-range lock. `length` -1 means to the end of the file. `start_ns` is when the
    grant was seen, `end_ns` when its end was first known (the LOCKU or CLOSE call), None if the input
    ended first. `ended` is unlock, close, expired, lost, restart, upgrade, or open."""

    endpoint: str
    client: str
    owner: str | None
    object: str
    path: str | None
    offset: int
    length: int
    lock_type: str
    start_ns: int
    end_ns: int | None
    ended: str
    at_start: str
    at_end: str | None


@dataclass(frozen=True, slots=True)
class LockWait:
    """One wait for a byte-range lock: from the first call that was DENIED to the grant (or the last
    sign of it). `granted_ns` is None if it was never granted in this input.

    The wait `granted_ns - asked_ns` is the sum of `hold_ns` (behind the holder that the first DENIED
    named), `queue_ns` (behind others that got the range meanwhile) and `backoff_ns` (the range was free
    and the client had not asked again yet, or the grant was on its way). `notified` tells whether a
    CB_NOTIFY_LOCK came before the grant. `evidence`: first DENIED, the release, the grant."""

    endpoint: str
    client: str
    owner: str | None
    object: str
    path: str | None
    offset: int
    length: int
    lock_type: str
    blocking: bool
    asked_ns: int
    granted_ns: int | None
    last_ns: int
    denials: int
    hold_ns: int
    queue_ns: int
    backoff_ns: int
    notified: bool
    holder_client: str | None
    holder_owner: str | None
    released_ns: int | None
    evidence: tuple[str, ...]
