"""Which value of a frame's columns belongs to which operation, told by the grammar of the protocol.

Where the counts don't add up the frame is *ambiguous*, and the second decoder, which sees the tree, takes
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from analyzer.wire.protocols import nfs4


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
    begins = [at for at, number in enumerate(numbers) if number == nfs4.CB_SEQUENCE]
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
        return _step(cursor, number, nfs4.CALLBACK_CALL_FIELDS.get(number, ()))
    if number == nfs4.OPEN:
        return _open_call(cursor)
    if number == nfs4.LOCK:
        parts = [cursor.take(n, 1) for n in ("lock_type", "reclaim", "offset", "length")]
        fresh = cursor.peek("new_owner")
        names = ["new_owner", "stateid", "stateid_seq", "lock_seq"]
        if fresh:
            names += ["seq", "clientid", "lock_owner"]
        return Step(number, (*parts, *(cursor.take(n, 1) for n in names)))
    if number == nfs4.TEST_STATEID:
        left = cursor.shape.values["stateids"] // 2 - cursor.used.get("stateid", 0)
        return _step(cursor, number, (("stateid", left), ("stateid_seq", left)))
    return _step(cursor, number, nfs4.CALL_FIELDS.get(number, ()))


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
    return Step(nfs4.OPEN, tuple(parts))


def _reply(cursor: _Cursor, number: int, callback: bool, status: int, alone: bool) -> tuple[Step, int]:
    """One result, and the place of the status that follows it."""
    if status >= len(cursor.shape.status):
        raise Ambiguous("status")
    code = cursor.shape.status[status]
    if number == nfs4.TEST_STATEID and not callback and code == nfs4.OK:
        if not alone:
            raise Ambiguous("TEST_STATEID among several messages")
        inner = cursor.shape.status[status + 1 :]
        return Step(number, (), code, inner), len(cursor.shape.status)
    if callback:
        spec = nfs4.CALLBACK_REPLY_FIELDS.get(number, ()) if code == nfs4.OK else ()
    elif number == nfs4.OPEN and code == nfs4.OK:
        parts = [cursor.take(n, 1) for n in ("stateid", "stateid_seq", "rflags")]
        kind = cursor.peek("delegation")
        parts.append(cursor.take("delegation", 1))
        if kind in (1, 2):  # OPEN_DELEGATE_READ, OPEN_DELEGATE_WRITE
            parts += [cursor.take("stateid", 1), cursor.take("stateid_seq", 1)]
        return Step(number, tuple(parts), code), status + 1
    elif number in (nfs4.LOCK, nfs4.LOCKT) and code == nfs4.DENIED:
        spec = nfs4.DENIED_HOLDER
    elif number == nfs4.CLOSE and not cursor.close_stateid:
        spec = ()
    else:
        spec = nfs4.REPLY_FIELDS.get(number, ()) if code == nfs4.OK else ()
    if number == nfs4.GETFH and cursor.readdir and not callback:
        raise Ambiguous("file handles of directory entries before GETFH")
    extra = 0
    if number == nfs4.READDIR and not callback:
        cursor.readdir = True
        # each entry may hold the attribute rdattr_error, a status too (RFC 8881 section 5.8.1.12)
        extra = max(0, len(cursor.shape.status) - 1 - len(cursor.shape.ops)) if alone else 0
    step = _step(cursor, number, spec)
    return Step(number, step.parts, code), status + 1 + extra


def _step(cursor: _Cursor, number: int, spec: tuple[tuple[str, int], ...]) -> Step:
    return Step(number, tuple(cursor.take(name, count) for name, count in spec))


def _floating(cursor: _Cursor, shape: Shape, messages: list[Message]) -> tuple[Message, ...]:
    """Check that every value was taken; give attribute values to the operation that must hold them."""
    for column, present in shape.values.items():
        taken = sum(cursor.used.get(name, 0) for name in nfs4.COLUMNS[column])
        free = column in nfs4.UNCOUNTED or (column == "handles" and cursor.readdir)
        if taken != present and not free and not (column == "name" and taken == 1):
            raise Ambiguous(column)
    # attributes that came together are told apart, and whose they are is known
    floating = [
        name
        for name in nfs4.FLOATING
        if shape.values[nfs4.COLUMN_OF[name]] == len(nfs4.COLUMNS[nfs4.COLUMN_OF[name]])
    ]
    holders = [
        (m, s) for m, message in enumerate(messages) for s, step in enumerate(message.steps)
        if step.number in nfs4.HOLD_ATTRIBUTES and not message.callback
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
    for fields in nfs4.COLUMNS.values():
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
