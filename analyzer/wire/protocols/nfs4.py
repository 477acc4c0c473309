"""NFSv4.0, 4.1 and 4.2: which fields each operation of a COMPOUND contributes, in order.

tshark prints one column per field with the values of all operations of a frame in a row. This grammar
says how many values of each field an operation's arguments or results hold (RFC 7531, 5662 and 7863
XDR, as tshark 4.0 names the fields), so that each value finds its operation again. Where the counts
don't add up the frame is *ambiguous* and the second decoder, which sees the tree, takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from analyzer.core.nfs4 import STATUS_CODES

#: Short name → tshark field. The short names are used from here on.
FIELDS: Final = {
    "ops": "nfs.opcode",
    "callbacks": "nfs.cb.operation",
    "counts": "nfs.ops.count",
    "status": "nfs.nfsstat4",
    "minor": "nfs.minorversion",
    "handle": "nfs.fhandle",
    "hash": "nfs.fh.hash",
    "stateid": "nfs.stateid.other",
    "stateid_seq": "nfs.stateid.seqid",
    "session": "nfs.session_id4",
    "slot": "nfs.slotid",
    "seq": "nfs.seqid",
    "target": "nfs.target_high_slotid",
    "flags": "nfs.sequence.flags",
    "offset": "nfs.offset4",
    "length": "nfs.length4",
    "count": "nfs.count4",
    "read_length": "nfs.read.data_length",
    "stable": "nfs.stable_how4",
    "verifier": "nfs.verifier4",
    "lock_type": "nfs.locktype4",
    "reclaim": "nfs.lock.reclaim",
    "new_owner": "nfs.lock.locker.new_lock_owner",
    "clientid": "nfs.clientid",
    "open_owner": "nfs.open_owner4",
    "lock_owner": "nfs.lock_owner4",
    "lock_seq": "nfs.lock_seqid",
    "access": "nfs.open4.share_access",
    "deny": "nfs.open4.share_deny",
    "claim": "nfs.open.claim_type",
    "open_type": "nfs.open.opentype",
    "create_mode": "nfs.createmode4",
    "delegation": "nfs.open.delegation_type",
    "rflags": "nfs.open_rflags",
    "name": "nfs.pathname.component",
    "identity": "nfs.nfs_client_id4.id",
    "data": "nfs.data",
    "max_slots": "nfs.maxreqs4",
    "one_fs": "nfs.reclaim_one_fs4",
    "lease": "nfs.fattr4.lease_time",
    "size": "nfs.fattr4.size",
    "max_read": "nfs.fattr4.maxread",
    "max_write": "nfs.fattr4.maxwrite",
}

#: Fields that share one of tshark's columns (each column costs time on every frame, empty or not). A
#: column holds all values of its first field, then all of the second, ...: the grammar knows how many.
_TOGETHER: Final = {
    "handles": ("handle", "hash"),
    "stateids": ("stateid", "stateid_seq"),
    "sessions": ("session", "seq"),
    "slots": ("slot", "target", "flags"),
    "ranges": ("offset", "length", "count", "stable", "verifier", "read_length"),
    "locks": ("lock_type", "reclaim", "lock_seq"),
    "owners": ("clientid", "open_owner", "lock_owner", "identity"),
    "opens": ("access", "deny", "open_type", "rflags"),
    "limits": ("max_slots", "one_fs"),
    "sizes": ("max_read", "max_write"),
}
#: Column → its fields, for all columns.
COLUMNS: Final[dict[str, tuple[str, ...]]] = _TOGETHER | {
    name: (name,) for name in FIELDS if all(name not in fields for fields in _TOGETHER.values())
}
COLUMN_OF: Final = {name: column for column, fields in COLUMNS.items() for name in fields}

#: Attribute values come where a bitmap says so; they are given to the only operation that can hold them.
FLOATING: Final = frozenset({"lease", "size", "max_read", "max_write"})
#: Fields that decide what follows them; part of a frame's shape.
SHAPING: Final = ("claim", "create_mode", "new_owner", "delegation")
#: Columns whose values are not counted: attributes, and bytes that may be a WRITE's.
_FREE: Final = frozenset({"lease", "size", "sizes", "data"})

OPEN, LOCK, LOCKT, LOCKU, CLOSE, COMMIT, CREATE = 18, 12, 13, 14, 4, 5, 6
LOOKUP, LOOKUPP, GETFH, PUTFH, PUTROOTFH, PUTPUBFH = 15, 16, 10, 22, 24, 23
SAVEFH, RESTOREFH, RENAME, REMOVE, LINK, WRITE, READ = 32, 31, 29, 28, 11, 38, 25
SEQUENCE, TEST_STATEID, EXCHANGE_ID, CREATE_SESSION, SETCLIENTID = 53, 55, 42, 43, 35
GETATTR, READDIR, SETATTR, VERIFY, NVERIFY, OPENATTR = 9, 26, 34, 37, 17, 19
CB_SEQUENCE, CB_RECALL, CB_NOTIFY_LOCK = 11, 4, 13
OK, DENIED, CLID_INUSE = 0, STATUS_CODES["DENIED"], STATUS_CODES["CLID_INUSE"]

_STATEID = (("stateid", 1), ("stateid_seq", 1))
_RANGE = (("offset", 1), ("length", 1))
_CALL: Final[dict[int, tuple[tuple[str, int], ...]]] = {
    CLOSE: (("seq", 1), *_STATEID),
    COMMIT: (("offset", 1), ("count", 1)),
    CREATE: (("name", 1),),
    8: _STATEID,  # DELEGRETURN
    LINK: (("name", 1),),
    LOCKT: (("lock_type", 1), *_RANGE, ("clientid", 1), ("lock_owner", 1)),
    LOCKU: (("lock_type", 1), ("seq", 1), *_STATEID, *_RANGE),
    LOOKUP: (("name", 1),),
    20: (*_STATEID, ("seq", 1)),  # OPEN_CONFIRM
    21: (*_STATEID, ("seq", 1), ("access", 1), ("deny", 1)),  # OPEN_DOWNGRADE
    PUTFH: (("handle", 1), ("hash", 1)),
    READ: (*_STATEID, ("offset", 1), ("count", 1)),
    REMOVE: (("name", 1),),
    RENAME: (("name", 2),),
    30: (("clientid", 1),),  # RENEW
    33: (("name", 1),),  # SECINFO
    SETATTR: _STATEID,
    SETCLIENTID: (("verifier", 1), ("identity", 1)),
    36: (("clientid", 1), ("verifier", 1)),  # SETCLIENTID_CONFIRM
    WRITE: (*_STATEID, ("offset", 1), ("stable", 1)),
    39: (("clientid", 1), ("lock_owner", 1)),  # RELEASE_LOCKOWNER
    41: (("session", 1),),  # BIND_CONN_TO_SESSION
    EXCHANGE_ID: (("verifier", 1), ("data", 1)),
    CREATE_SESSION: (("clientid", 1), ("seq", 1), ("max_slots", 2)),
    44: (("session", 1),),  # DESTROY_SESSION
    45: _STATEID,  # FREE_STATEID
    SEQUENCE: (("session", 1), ("seq", 1), ("slot", 1)),
    57: (("clientid", 1),),  # DESTROY_CLIENTID
    58: (("one_fs", 1),),  # RECLAIM_COMPLETE
    59: (*_STATEID, *_RANGE),  # ALLOCATE
    62: (*_STATEID, *_RANGE),  # DEALLOCATE
    68: (*_STATEID, ("offset", 1), ("count", 1)),  # READ_PLUS
    69: (*_STATEID, ("offset", 1)),  # SEEK
}
_REPLY: Final[dict[int, tuple[tuple[str, int], ...]]] = {
    CLOSE: _STATEID,
    COMMIT: (("verifier", 1),),
    GETFH: (("handle", 1), ("hash", 1)),
    READ: (("read_length", 1),),
    READDIR: (("verifier", 1),),
    LOCK: _STATEID,
    LOCKU: _STATEID,
    20: _STATEID,
    21: _STATEID,
    WRITE: (("count", 1), ("stable", 1), ("verifier", 1)),
    SETCLIENTID: (("clientid", 1), ("verifier", 1)),
    41: (("session", 1),),
    EXCHANGE_ID: (("clientid", 1), ("seq", 1)),
    CREATE_SESSION: (("session", 1), ("seq", 1), ("max_slots", 2)),
    SEQUENCE: (
        ("session", 1), ("seq", 1), ("slot", 1), ("target", 1), ("flags", 1),
    ),
}  # fmt: skip
_DENIED_HOLDER = (*_RANGE, ("lock_type", 1), ("clientid", 1), ("lock_owner", 1))
_CALLBACK_CALL: Final[dict[int, tuple[tuple[str, int], ...]]] = {
    CB_SEQUENCE: (("session", 1), ("seq", 1), ("slot", 1)),
    CB_RECALL: (*_STATEID, ("handle", 1), ("hash", 1)),
    CB_NOTIFY_LOCK: (("handle", 1), ("hash", 1), ("clientid", 1), ("lock_owner", 1)),
}
_CALLBACK_REPLY: Final[dict[int, tuple[tuple[str, int], ...]]] = {
    CB_SEQUENCE: (("session", 1), ("seq", 1), ("slot", 1), ("target", 1)),
}
#: Operations whose arguments or results may hold file attributes.
_ATTRIBUTES: Final = frozenset({GETATTR, READDIR, SETATTR, OPEN, CREATE, VERIFY, NVERIFY})


@dataclass(frozen=True, slots=True)
class Part:
    """`count` values of a field, from the `first` one of its column on, belong to one operation."""

    name: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a message: its number, its values, and for a reply its status (-1 in a call)."""

    number: int
    parts: tuple[Part, ...]
    status: int = -1
    results: tuple[int, ...] = ()  # TEST_STATEID: the statuses inside its result


@dataclass(frozen=True, slots=True)
class Message:
    """One RPC message of a frame: its place among the frame's messages, and its operations. `status`
    is a reply's COMPOUND status (-1 in a call or where there is none)."""

    place: int
    call: bool
    callback: bool
    steps: tuple[Step, ...]
    status: int = -1


_LOCK_CALL = (
    ("lock_type", 1), ("reclaim", 1), *_RANGE, ("new_owner", 1), *_STATEID, ("lock_seq", 1), ("seq", 1),
    ("clientid", 1), ("lock_owner", 1),
)  # fmt: skip
_OPEN_CALL = (
    ("seq", 1), ("access", 1), ("deny", 1), ("clientid", 1), ("open_owner", 1), ("open_type", 1),
    ("create_mode", 1), ("verifier", 1), ("claim", 1), ("name", 1), *_STATEID,
)  # fmt: skip
_OPEN_REPLY = (*_STATEID, ("rflags", 1), ("delegation", 1))


def expected(number: int, call: bool, callback: bool, status: int) -> frozenset[str]:
    """The fields that an operation's arguments or results may hold, for a decoder that sees the tree."""
    if callback:
        spec = (_CALLBACK_CALL if call else _CALLBACK_REPLY).get(number, ())
    elif call:
        special = {OPEN: _OPEN_CALL, LOCK: _LOCK_CALL, TEST_STATEID: _STATEID}
        spec = special.get(number) or _CALL.get(number, ())
    elif status == DENIED and number in (LOCK, LOCKT):
        spec = _DENIED_HOLDER
    else:
        spec = (_OPEN_REPLY if number == OPEN else _REPLY.get(number, ())) if status == OK else ()
    names = {name for name, _ in spec}
    if number in _ATTRIBUTES and not callback:
        names |= FLOATING
    return frozenset(names)


@dataclass(frozen=True, slots=True)
class Handles:
    """Where the file handles of a call's operations come from: `(source, position)` for each
    operation, source being one of the constants below and position an operation of the same COMPOUND.

    `current`: the handle that the operation works on. `parent`: the handle that its name is relative
    to. `found`: the position of the GETFH that tells the handle which the operation made current, or
    -1. `names`: the positions of the operations whose names lead from `parent` to it."""

    current: tuple[tuple[int, int], ...]
    parent: tuple[tuple[int, int], ...]
    found: tuple[int, ...]
    names: tuple[tuple[int, ...], ...]


NO_HANDLE, FROM_CALL, FROM_REPLY, ROOT = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Shape:
    """What all frames of one shape have in common. Lists as tshark printed them, numbers only."""

    types: tuple[int, ...]
    counts: tuple[int, ...]
    ops: tuple[int, ...]
    callbacks: tuple[int, ...]
    status: tuple[int, ...]
    shaping: dict[str, tuple[int, ...]]
    values: dict[str, int]  # column → how many values


class Ambiguous(Exception):
    """The values of a frame can't be told apart by their counts."""


class _Cursor:
    """Hands out the values of each field in order."""

    def __init__(self, shape: Shape, close_stateid: bool) -> None:
        self.shape = shape
        self.close_stateid = close_stateid
        self.readdir = False  # its entries may hold any number of file handles
        self.used: dict[str, int] = {}

    def take(self, name: str, count: int) -> Part:
        first = self.used.get(name, 0)
        self.used[name] = first + count
        return Part(name, first, count)

    def peek(self, name: str) -> int:
        values = self.shape.shaping[name]
        at = self.used.get(name, 0)
        if at >= len(values):
            raise Ambiguous(name)
        return values[at]


def plan(shape: Shape) -> tuple[Message, ...]:
    """Which value belongs to which operation; raises `Ambiguous` where the counts don't add up."""
    try:
        return _plan(shape, close_stateid=True)
    except Ambiguous:
        # the stateid in a CLOSE result means nothing (RFC 7530 16.2.5): some servers send a special
        # one, which tshark prints under another name
        return _plan(shape, close_stateid=False)


def _plan(shape: Shape, close_stateid: bool) -> tuple[Message, ...]:
    if not shape.counts and not shape.ops and not shape.callbacks:
        return tuple(Message(i, kind == 0, False, ()) for i, kind in enumerate(shape.types))
    found = []
    for envelopes in _envelopes(shape):
        try:
            found.append(_fill(shape, envelopes, _Cursor(shape, close_stateid)))
        except Ambiguous:
            continue
    if len(found) != 1:
        raise Ambiguous("no way, or several, to share the values out")
    return found[0]


class Envelope(NamedTuple):
    """What is known of a message before its values: call (0) or reply (1), and its operations."""

    kind: int
    callback: bool
    numbers: tuple[int, ...]


def _envelopes(shape: Shape) -> Iterator[list[Envelope]]:
    """The ways in which operations can belong to messages. tshark gives CB_COMPOUND no count.

    All messages of a frame go one way, so that where callbacks are among them those of the one kind are
    calls and those of the other replies: a client answers a callback and asks for something itself."""
    if sum(shape.counts) != len(shape.ops):
        return
    for kind in (0, 1):  # of the messages that aren't callbacks
        backward = 1 - kind if shape.counts else kind
        if len(shape.counts) != (shape.types.count(kind) if shape.counts else 0):
            continue
        own = iter(_cut(shape.ops, shape.counts))
        back = _callbacks(shape.callbacks, shape.types.count(backward))
        if back is None or (not shape.counts and shape.types.count(1 - kind)):
            continue
        others = iter(back)
        yield [
            Envelope(k, True, next(others)) if k == backward else Envelope(k, False, next(own))
            for k in shape.types
        ]


def _cut(numbers: tuple[int, ...], counts: tuple[int, ...]) -> list[tuple[int, ...]]:
    ends = list(accumulate(counts))
    return [numbers[end - count : end] for end, count in zip(ends, counts, strict=True)]


def _callbacks(numbers: tuple[int, ...], count: int) -> list[tuple[int, ...]] | None:
    """The operations of each callback: with sessions each begins with CB_SEQUENCE."""
    begins = [at for at, number in enumerate(numbers) if number == CB_SEQUENCE]
    if count == 0 or not numbers:
        return None if count or numbers else []
    if count == 1:
        return [numbers]
    if len(begins) != count or begins[0] != 0:
        return None
    return _cut(numbers, tuple(b - a for a, b in pairwise([*begins, len(numbers)])))


def _fill(shape: Shape, envelopes: list[Envelope], cursor: _Cursor) -> tuple[Message, ...]:
    messages, status = [], 0
    for place, (kind, callback, own) in enumerate(envelopes):
        whole = -1
        if kind == 0:
            steps = tuple(_call(cursor, n, callback) for n in own)
        else:
            if status >= len(shape.status):
                raise Ambiguous("status")
            whole = shape.status[status]  # the COMPOUND's own
            status += 1
            found = []
            for n in own:
                step, status = _reply(cursor, n, callback, status, len(shape.types) == 1)
                found.append(step)
            steps = tuple(found)
        messages.append(Message(place, kind == 0, callback, steps, whole))
    if status != len(shape.status):
        raise Ambiguous("status")
    return _floating(cursor, shape, messages)


def _call(cursor: _Cursor, number: int, callback: bool) -> Step:
    if callback:
        return _step(cursor, number, _CALLBACK_CALL.get(number, ()))
    if number == OPEN:
        return _open_call(cursor)
    if number == LOCK:
        parts = [cursor.take(n, 1) for n in ("lock_type", "reclaim", "offset", "length")]
        fresh = cursor.peek("new_owner")
        names = ["new_owner", "stateid", "stateid_seq", "lock_seq"]
        if fresh:
            names += ["seq", "clientid", "lock_owner"]
        return Step(number, (*parts, *(cursor.take(n, 1) for n in names)))
    if number == TEST_STATEID:
        left = cursor.shape.values["stateids"] // 2 - cursor.used.get("stateid", 0)
        return _step(cursor, number, (("stateid", left), ("stateid_seq", left)))
    return _step(cursor, number, _CALL.get(number, ()))


def _open_call(cursor: _Cursor) -> Step:
    names = ["seq", "access", "deny", "clientid", "open_owner", "open_type"]
    parts = [cursor.take(n, 1) for n in names]
    if cursor.shape.shaping["create_mode"]:
        mode = cursor.peek("create_mode")
        parts.append(cursor.take("create_mode", 1))
        if mode in (2, 3):  # EXCLUSIVE4, EXCLUSIVE4_1
            parts.append(cursor.take("verifier", 1))
    claim = cursor.peek("claim")
    parts.append(cursor.take("claim", 1))
    if claim in (0, 2, 3):  # CLAIM_NULL, CLAIM_DELEGATE_CUR, CLAIM_DELEGATE_PREV
        parts.append(cursor.take("name", 1))
    if claim in (2, 5):  # CLAIM_DELEGATE_CUR, CLAIM_DELEG_CUR_FH
        parts += [cursor.take("stateid", 1), cursor.take("stateid_seq", 1)]
    return Step(OPEN, tuple(parts))


def _reply(cursor: _Cursor, number: int, callback: bool, status: int, alone: bool) -> tuple[Step, int]:
    """One result, and the place of the status that follows it."""
    if status >= len(cursor.shape.status):
        raise Ambiguous("status")
    code = cursor.shape.status[status]
    if number == TEST_STATEID and not callback and code == OK:
        if not alone:
            raise Ambiguous("TEST_STATEID among several messages")
        inner = cursor.shape.status[status + 1 :]
        return Step(number, (), code, inner), len(cursor.shape.status)
    if callback:
        spec = _CALLBACK_REPLY.get(number, ()) if code == OK else ()
    elif number == OPEN and code == OK:
        parts = [cursor.take(n, 1) for n in ("stateid", "stateid_seq", "rflags")]
        kind = cursor.peek("delegation")
        parts.append(cursor.take("delegation", 1))
        if kind in (1, 2):  # OPEN_DELEGATE_READ, OPEN_DELEGATE_WRITE
            parts += [cursor.take("stateid", 1), cursor.take("stateid_seq", 1)]
        return Step(number, tuple(parts), code), status + 1
    elif number in (LOCK, LOCKT) and code == DENIED:
        spec = _DENIED_HOLDER
    elif number == CLOSE and not cursor.close_stateid:
        spec = ()
    else:
        spec = _REPLY.get(number, ()) if code == OK else ()
    if number == GETFH and cursor.readdir and not callback:
        raise Ambiguous("file handles of directory entries before GETFH")
    cursor.readdir |= number == READDIR and not callback
    step = _step(cursor, number, spec)
    return Step(number, step.parts, code), status + 1


def _step(cursor: _Cursor, number: int, spec: tuple[tuple[str, int], ...]) -> Step:
    return Step(number, tuple(cursor.take(name, count) for name, count in spec))


def _floating(cursor: _Cursor, shape: Shape, messages: list[Message]) -> tuple[Message, ...]:
    """Check that every value was taken; give attribute values to the operation that must hold them."""
    for column, present in shape.values.items():
        taken = sum(cursor.used.get(name, 0) for name in COLUMNS[column])
        free = column in _FREE or (column == "handles" and cursor.readdir)
        if taken != present and not free and not (column == "name" and taken == 1):
            raise Ambiguous(column)
    # attributes that came together are told apart, and whose they are is known
    floating = [name for name in FLOATING if shape.values[COLUMN_OF[name]] == len(COLUMNS[COLUMN_OF[name]])]
    holders = [
        (m, s) for m, message in enumerate(messages) for s, step in enumerate(message.steps)
        if step.number in _ATTRIBUTES and not message.callback
    ]  # fmt: skip
    for m, s in holders if len(holders) == 1 else ():
        message, step = messages[m], messages[m].steps[s]
        parts = (*step.parts, *(Part(name, 0, 1) for name in floating))
        steps = list(message.steps)
        steps[s] = replace(step, parts=parts)
        messages[m] = replace(message, steps=tuple(steps))
    return _placed(cursor, messages, set(floating))


def _placed(cursor: _Cursor, messages: list[Message], floating: set[str]) -> tuple[Message, ...]:
    """Count the places of values from the beginning of their columns, not of their fields."""
    before: dict[str, int] = {}
    for fields in COLUMNS.values():
        total = 0
        for name in fields:
            before[name] = total
            total += 1 if name in floating else cursor.used.get(name, 0)
    return tuple(
        replace(
            message,
            steps=tuple(
                replace(step, parts=tuple(replace(p, first=p.first + before[p.name]) for p in step.parts))
                for step in message.steps
            ),
        )
        for message in messages
    )


def handles(steps: tuple[Step, ...]) -> Handles:
    """Follow the current and the saved file handle through a COMPOUND (RFC 8881 16.2.3.1)."""
    walk = _HandleWalk(len(steps))
    for k, step in enumerate(steps):
        walk.step(k, step)
    # an OPEN by name works on the file that it opened
    for k, step in enumerate(steps):
        if _opens_by_name(step):
            at = walk.found[k]
            walk.current[k] = (FROM_REPLY, at) if at >= 0 else (NO_HANDLE, 0)
    return Handles(tuple(walk.current), tuple(walk.parent), tuple(walk.found), tuple(walk.names))


class _HandleWalk:
    """The current handle, the saved one, and the last known one with the names walked since."""

    def __init__(self, count: int) -> None:
        self.current: list[tuple[int, int]] = []
        self.parent: list[tuple[int, int]] = []
        self.found = [-1] * count
        self.names: list[tuple[int, ...]] = [()] * count
        self.here = self.saved = self.anchor = (NO_HANDLE, 0)
        self.trail: tuple[int, ...] = ()
        self.walked: list[int] = []  # operations whose result is the handle that is current now

    def step(self, k: int, step: Step) -> None:
        """Take the `k`-th operation."""
        before, number = self.here, step.number
        self.parent.append(before)
        if number in (PUTFH, PUTROOTFH, PUTPUBFH):
            root = number != PUTFH
            self.here, self.walked = ((ROOT, 0), [k]) if root else ((FROM_CALL, k), [])
            before = self.here
        elif number == SAVEFH:
            self.saved = before
        elif number == RESTOREFH:
            self.here, self.walked = self.saved, []
        elif number == GETFH:
            for w in self.walked:
                self.found[w] = k
            self.here, self.walked = (FROM_REPLY, k), []
            before = self.here
        elif number in (LOOKUPP, OPENATTR):
            self.anchor, self.trail = (NO_HANDLE, 0), ()
            self.here, self.walked = (NO_HANDLE, 0), [k]
        elif number in (LOOKUP, CREATE) or _opens_by_name(step):
            self._name(k, before)
        elif number in (RENAME, LINK):
            self.parent[k] = self.saved
        self.current.append(before)

    def _name(self, k: int, before: tuple[int, int]) -> None:
        if before[0] != NO_HANDLE:
            self.anchor, self.trail = before, (k,)
        elif self.anchor[0] != NO_HANDLE:
            self.trail = (*self.trail, k)
        self.parent[k], self.names[k] = self.anchor, self.trail
        self.here, self.walked = (NO_HANDLE, 0), [k]


def _opens_by_name(step: Step) -> bool:
    return step.number == OPEN and any(part.name == "name" for part in step.parts)
