"""Checks of calls and replies: which of the two carries what a test asks for?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from analyzer.wire.filters.checks_status import is_status_test
from analyzer.wire.filters.fault import SEEN_4_0, Fault, Level
from analyzer.wire.filters.fields import CALL_ONLY, REPLY_ONLY
from analyzer.wire.filters.reading import Alternative, Condition, Reading
from analyzer.wire.filters.syntax import Comparison, Edit, Span

_LOCKING: Final = frozenset({12, 13, 14})
_STRUCTURES: Final = "RFC 8881 section 18 (ARGUMENT and RESULT); RFC 5531 section 9"
_FRAMES: Final = "rpc.reqframe of a call is the frame of its reply; " + SEEN_4_0


def _message_type(alternative: Alternative) -> Condition | None:
    return next((c for c in alternative if c.field == "rpc.msgtyp" and c.op in ("eq", "in")), None)


def contradiction(reading: Reading) -> Iterator[Fault]:
    """Tests that no single RPC message can pass together."""
    seen: set[int] = set()
    for alternative in reading.alternatives:
        calls = [c for c in alternative if c.field in CALL_ONLY and c.positive]
        replies = [c for c in alternative if c.field in REPLY_ONLY and c.positive]
        kind = _message_type(alternative)
        fault = None
        if kind and kind.numbers == {0} and replies:
            fault = _wrong_side(kind, replies[0], "calls", "1")
        elif kind and kind.numbers == {1} and calls:
            fault = _wrong_side(kind, calls[0], "replies", "0")
        elif calls and replies and not kind:
            message = (
                f"{calls[0].field} stands in calls only and {replies[0].field} in replies only: no message "
                "has both. Find one, then look up the other by rpc.xid."
            )
            fault = Fault("call-and-reply", Level.ERROR, replies[0].test.span, message, _STRUCTURES)
        if fault and fault.span.start not in seen:
            seen.add(fault.span.start)
            yield fault


def _wrong_side(kind: Condition, other: Condition, side: str, right: str) -> Fault:
    if other.field in ("rpc.reqframe", "rpc.repframe"):
        return _reversed(other, kind.numbers == {0})
    edits: tuple[Edit, ...] = ()
    if isinstance(kind.test, Comparison):
        edits = (Edit(kind.test.right.span, right),)
    opposite = "replies" if side == "calls" else "calls"
    message = f"rpc.msgtyp selects {side}, but {other.field} stands in {opposite} only: this never matches."
    return Fault("call-and-reply", Level.ERROR, kind.test.span, message, _STRUCTURES, edits)


def _reversed(condition: Condition, call: bool) -> Fault:
    side, right = ("call", "rpc.reqframe") if call else ("reply", "rpc.repframe")
    left = condition.test.span if not isinstance(condition.test, Comparison) else condition.test.left.span
    return Fault(
        "frame-reference",
        Level.ERROR,
        condition.outer,
        "The two names say the reverse of what one expects: a call carries rpc.reqframe, the frame of its "
        "reply (only with -2); a reply carries rpc.repframe, the frame of its call. "
        f"In a {side} it is {right}.",
        _FRAMES,
        (Edit(left, right),),
    )


def missing_reference(reading: Reading) -> Iterator[Fault]:
    """`!rpc.reqframe` and `!rpc.repframe` without, or with the wrong, kind of message."""
    for alternative in reading.alternatives:
        kind = _message_type(alternative)
        for condition in alternative:
            if condition.op != "exists" or not condition.negated:
                continue
            if condition.field not in ("rpc.reqframe", "rpc.repframe"):
                continue
            call = condition.field == "rpc.reqframe"
            if kind is None:
                yield _untyped(condition, call)
            elif kind.numbers == {1 if call else 0}:
                yield _reversed(condition, not call)


def _untyped(condition: Condition, call: bool) -> Fault:
    others = "every reply" if call else "every call"
    return Fault(
        "frame-reference",
        Level.ERROR,
        condition.outer,
        f"Without rpc.msgtyp this is true for {others} and for every frame that isn't RPC. An unanswered "
        "call is one without rpc.reqframe, in the second pass (-2).",
        _FRAMES,
        (Edit(condition.outer, "(rpc.msgtyp == 0 && !rpc.reqframe)"),),
    )


def mixed(reading: Reading) -> Iterator[Fault]:
    """Failed replies in one alternative, calls and replies together in another."""
    failures = [a for a in reading.alternatives if any(map(is_status_test, a)) and _locks(a)]
    for alternative in reading.alternatives:
        owner = next((c for c in alternative if "lock_owner" in c.field and c.positive), None)
        if not failures or owner is None or _message_type(alternative):
            continue
        if any(map(is_status_test, alternative)):
            continue
        whole = Span(0, len(reading.text))
        begin, end = Span(0, 0), Span(whole.end, whole.end)
        yield Fault(
            "call-and-reply",
            Level.ERROR,
            owner.test.span,
            "This mixes calls and replies: a status stands in replies only, a lock owner in LOCK and LOCKT "
            "calls and in DENIED replies, where it is the holder's. Say which: rpc.msgtyp == 1 is a reply.",
            _STRUCTURES,
            (Edit(begin, "rpc.msgtyp == 1 && (", rank=-1), Edit(end, ")", rank=9)),
        )
        return


def _locks(alternative: Alternative) -> bool:
    return any(c.field == "nfs.opcode" and c.positive and c.numbers & _LOCKING for c in alternative)


CHECKS = (contradiction, missing_reference, mixed)
