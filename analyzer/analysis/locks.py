"""Byte-range locks over time: who held what, who waited for whom, and what the wait was made of.

The row types only; `analyzer.analysis.lock_fold` writes them. In all of them `length` -1 means to the
end of the file, `owner` is the lock owner as the operations table holds it (None if the input never
told it), and `client` is a client's identity.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LockHold:
    """One granted byte-range lock. `length` -1 means to the end of the file. `start_ns` is when the
    grant was seen, `end_ns` when its end was first known (the LOCKU or CLOSE call), None if the input
    ended first. `ended` is unlock, close, expired, lost, restart, upgrade, or open.

    Written for contended files only, and for each at most `lock_table.MAX_HOLDS`; `LockFile` counts the
    rest."""

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
    CB_NOTIFY_LOCK came before the grant. `evidence`: first DENIED, the release, the grant.

    Where the release was never seen (`released_ns` None) the time up to the grant counts as hold.
    `holder_clientid` is the client id in the first DENIED (0x0: a holder outside NFSv4). `bypassed`
    counts grants of the range to others that asked later. `gaps_ns` are the times between the calls,
    the first 16.

    `gave_up_by_ns`: the client was told by CB_NOTIFY_LOCK at that time that the lock was free, and never
    asked again: it had given up at some time since its last call (a signal, a time-out). None if it
    didn't, or nobody told it."""

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
    holder_clientid: str | None = None
    bypassed: int = 0
    gaps_ns: tuple[int, ...] = ()
    protocol: str = "nfs4.1"
    gave_up_by_ns: int | None = None

    @property
    def wait_ns(self) -> int:
        """How long, up to the grant or the last DENIED."""
        return (self.last_ns if self.granted_ns is None else self.granted_ns) - self.asked_ns


@dataclass(frozen=True, slots=True)
class LockFile:
    """One file on which a LOCK was DENIED: how much it was fought over.

    `wait_ns` sums all waits; `top_client` held the most (`top_held_ns`) since the first DENIED.
    `holds_left_out` counts holds beyond the cap on LockHold rows."""

    endpoint: str
    object: str
    path: str | None
    clients: int
    grants: int
    denials: int
    waits: int
    wait_ns: int
    longest_wait_ns: int
    backoff_ns: int
    top_client: str | None
    top_held_ns: int
    top_grants: int
    holds_left_out: int
    first_ns: int
    last_ns: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LockServer:
    """What one server did for waiters. `may_notify`: an OPEN reply carried OPEN4_RESULT_MAY_NOTIFY_LOCK
    (RFC 8881 section 18.16.3). `notifications` counts CB_NOTIFY_LOCK, for whatever lock."""

    endpoint: str
    protocol: str
    waits: int
    notifications: int
    may_notify: bool


@dataclass(frozen=True, slots=True)
class LockConflict:
    """Two grants that surely stood at the same time: from `from_ns` (the later grant's reply) to
    `until_ns` (the earlier of the two calls that gave one back). The first stands since `since_ns`."""

    endpoint: str
    object: str
    path: str | None
    offset: int
    length: int
    first_client: str
    first_owner: str | None
    first_type: str
    second_client: str
    second_owner: str | None
    second_type: str
    from_ns: int
    until_ns: int
    evidence: tuple[str, ...]
    since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class LockLost:
    """A lock that the server no longer honours though its owner didn't give it back.

    `cause` is the status that said so (NO_GRACE, RECLAIM_BAD, RECLAIM_CONFLICT, EXPIRED, BAD_STATEID,
    ADMIN_REVOKED, BADSESSION, ...) or "not reclaimed" (RECLAIM_COMPLETE came without it).
    `held_since_ns` is None if the grant isn't in the input; `next_client` got the range meanwhile, at
    `next_ns`; `lost_ns` is when the loser could know."""

    endpoint: str
    client: str
    owner: str | None
    object: str
    path: str | None
    offset: int
    length: int
    lock_type: str
    cause: str
    held_since_ns: int | None
    lost_ns: int
    next_client: str | None
    evidence: tuple[str, ...]
    next_ns: int | None = None


@dataclass(frozen=True, slots=True)
class LockTrespass:
    """Successful WRITEs of one client into a range that another client surely held write-locked from
    before the WRITE call until after its reply. The writer had no lock there. `lost`: it had one and
    lost it (a zombie write). `offset` and `length` are of the first such WRITE. Without `released` the
    lock still stood when the input ended. All this was followed since `since_ns`."""

    endpoint: str
    client: str
    object: str
    path: str | None
    offset: int
    length: int
    holder_client: str
    holder_owner: str | None
    writes: int
    bytes: int
    first_ns: int
    last_ns: int
    lost: bool
    lost_ns: int | None
    released: bool
    evidence: tuple[str, ...]
    since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class LockRefusal:
    """LOCKs refused for a reason of their own. `reason`: "same owner" (the DENIED names the asking owner
    itself), "own client" (another owner of the asking client) or "deadlock" (status DEADLOCK).
    Counted per owner, holder and file; `offset`, `length`, `evidence` are of the first."""

    endpoint: str
    client: str
    owner: str | None
    object: str
    path: str | None
    offset: int
    length: int
    lock_type: str
    reason: str
    holder_owner: str | None
    count: int
    first_ns: int
    last_ns: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LockCycle:
    """Waits that went round in a circle: `clients[i]` waited for `ranges[i]` which `clients[i+1]` held.

    `same_owners`: each holder is the very lock owner that waited for the next (a real deadlock);
    otherwise only the clients match, which may be different processes. From `from_ns` to `until_ns` all
    of it stood at once; `resolved`: at least one of the waits was granted later. `at_end`: the circle
    still stood when the input ended and `until_ns` is that end. `gave_up`: one of the waits ended because
    its client gave up; the circle then stood until `until_ns` at most."""

    endpoint: str
    clients: tuple[str, ...]
    owners: tuple[str, ...]
    ranges: tuple[str, ...]
    same_owners: bool
    from_ns: int
    until_ns: int
    resolved: bool
    at_end: bool
    evidence: tuple[str, ...]
    gave_up: bool = False
