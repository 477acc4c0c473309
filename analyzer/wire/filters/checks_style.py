"""Checks of what compiles and still misleads: precedence, ports, hashes, Ceph, old operators."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.wire.filters.fault import OPERATORS, SEEN_4_0, Fault, Level
from analyzer.wire.filters.fields import STATUS_FIELDS, family, known
from analyzer.wire.filters.reading import Reading
from analyzer.wire.filters.syntax import Comparison, Edit, Exists, Logic, Span, values, walk
from analyzer.wire.filters.values import number


def precedence(reading: Reading) -> Iterator[Fault]:
    """`a && b || c` without parentheses."""
    joined: list[Logic] = []
    first: Span | None = None
    for node in walk(reading.tree):
        if isinstance(node, Logic) and node.op in ("or", "xor"):
            inner = [
                side for side in (node.left, node.right) if isinstance(side, Logic) and side.op == "and"
            ]
            joined += inner
            first = first or (node.op_span if inner else None)
    if not joined or first is None:
        return
    edits: list[Edit] = []
    for side in joined:
        edits.append(Edit(Span(side.span.start, side.span.start), "(", rank=5))
        edits.append(Edit(Span(side.span.end, side.span.end), ")", rank=5))
    bound = reading.text[joined[0].span.start : joined[0].span.end]
    yield Fault(
        "precedence",
        Level.WARNING,
        first,
        f'"and" binds tighter than "or": ({_short(bound)}) is one alternative. Wireshark 4.0 compiles this '
        "without a word; parentheses say what is meant.",
        "wireshark-filter(4), logical expressions",
        tuple(edits),
    )


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:40] + " ... " + text[-15:]


def old_operator(reading: Reading) -> Iterator[Fault]:
    """`~=`, which newer versions no longer read."""
    for condition in reading.conditions:
        if isinstance(condition.test, Comparison) and condition.test.written == "~=":
            simple = condition.field in STATUS_FIELDS and condition.numbers == {0}
            edit = Edit(condition.value_span, "> 0") if simple else Edit(condition.test.op_span, "!==")
            message = "~= is deprecated and gone from newer versions of Wireshark."
            yield Fault("old-operator", Level.WARNING, condition.test.op_span, message, OPERATORS, (edit,))


def ports(reading: Reading) -> Iterator[Fault]:
    """A port as a stand-in for NFS."""
    for alternative in reading.alternatives:
        for condition in alternative:
            if (
                not condition.field.endswith("port")
                or not condition.asks(2049)
                or condition.numbers != {2049}
            ):
                continue
            others = [c for c in alternative if c is not condition and c.positive]
            decoded = [c for c in others if family(c.field) in ("nfs", "rpc")]
            if others and not decoded:
                continue  # used with TCP fields: RPC doesn't decode there
            edits: tuple[Edit, ...] = ()
            if not others:
                edits = (Edit(condition.test.span, "nfs"),)
            yield Fault(
                "port-only",
                Level.WARNING,
                condition.test.span,
                "NFS isn't bound to port 2049: servers on other ports, and 4.0 callbacks to clients, are "
                "missed. Wireshark finds RPC on any port; test for nfs instead.",
                "RFC 8881 section 2.9.3; " + SEEN_4_0,
                edits or (Edit(condition.test.span, "nfs"),),
            )


def lock_manager(reading: Reading) -> Iterator[Fault]:
    """NLM is NFSv3's lock protocol: a message is either NLM or NFS, and NFSv4 has no NLM."""
    for alternative in reading.alternatives:
        both = [c for c in alternative if c.positive and family(c.field) == "nlm"]
        if both and any(family(c.field) == "nfs" and c.positive for c in alternative):
            message = (
                "NLM is the lock protocol beside NFSv3, a program of its own: a message has nlm or nfs "
                "fields, so both match by chance only, where a frame carries two messages. NFSv4 locks are "
                "nfs.opcode 12 to 14; for NFSv3 ask for nlm alone."
            )
            yield Fault(
                "nlm-and-nfs", Level.ERROR, both[0].test.span, message, "RFC 1813 appendix II; RFC 8881"
            )
            return


def ceph(reading: Reading) -> Iterator[Fault]:
    """Ceph traffic has no NFS fields."""
    for alternative in reading.alternatives:
        both = [c for c in alternative if c.positive and family(c.field) == "ceph"]
        if both and any(family(c.field) == "nfs" and c.positive for c in alternative):
            message = "CephFS clients don't speak NFS: a Ceph frame has no nfs fields, so both never match."
            yield Fault("ceph-and-nfs", Level.ERROR, both[0].test.span, message, SEEN_4_0)
            return
    for condition in reading.conditions:
        if condition.field == "ceph.msg.client_req.op":
            message = (
                "Wireshark 4.0.17 reads this field two bytes off; ceph.msg.client_reply.op is right. "
                "Messenger v2 (port 3300, msgr2) isn't decoded at all."
            )
            left = next(iter(values(condition.test)))
            edit = (Edit(left.span, "ceph.msg.client_reply.op"),)
            yield Fault("ceph-request-op", Level.WARNING, condition.test.span, message, SEEN_4_0, edit)


def stateid_hash(reading: Reading) -> Iterator[Fault]:
    """`nfs.stateid.hash` changes with every seqid, and isn't the stateid."""
    for condition in reading.conditions:
        test = condition.test
        if isinstance(test, Exists) or not isinstance(test, Comparison):
            continue
        value = number(test.right, condition.field)
        if condition.field == "nfs.stateid.hash":
            message = (
                "nfs.stateid.hash is 16 bits over seqid and other together: it changes whenever the seqid "
                "grows and collides. A state keeps its nfs.stateid.other (12 bytes)."
            )
            edits: tuple[Edit, ...] = ()
            if value is not None and value > 0xFFFF:
                edits = (Edit(test.left.span, "nfs.stateid.other_hash"),)
            yield Fault("stateid-hash", Level.WARNING, test.span, message, "RFC 8881 section 8.2.1", edits)


def negative_number(reading: Reading) -> Iterator[Fault]:
    """-1 for "to the end of the file"."""
    for condition in reading.conditions:
        test = condition.test
        if not isinstance(test, Comparison) or not known().get(condition.field, "").startswith("UINT"):
            continue
        value = number(test.right, condition.field)
        if value is None or value >= 0:
            continue
        edits: tuple[Edit, ...] = ()
        hint = ""
        if condition.field == "nfs.length4" and value == -1:
            edits = (Edit(test.right.span, "0xffffffffffffffff"),)
            hint = ' "To the end of the file" is all ones: 0xffffffffffffffff.'
        message = f"{condition.field} is unsigned: nothing equals {value}.{hint}"
        yield Fault(
            "negative-number", Level.ERROR, test.right.span, message, "RFC 8881 section 18.10.3", edits
        )


def contradicting_message_type(reading: Reading) -> Iterator[Fault]:
    """A message type other than call and reply."""
    for condition in reading.conditions:
        if condition.field == "rpc.msgtyp" and condition.op == "eq" and condition.numbers - {0, 1}:
            message = "rpc.msgtyp is 0 for a call and 1 for a reply; there is no other."
            yield Fault("message-type", Level.ERROR, condition.test.span, message, "RFC 5531 section 9")


CHECKS = (
    precedence,
    old_operator,
    ports,
    ceph,
    lock_manager,
    stateid_hash,
    negative_number,
    contradicting_message_type,
)
