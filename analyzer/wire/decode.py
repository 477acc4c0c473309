"""Lines of tshark → operations: shapes, values, and replies joined to their calls.

Frames of one shape (same message types, operations and statuses, same number of values in each field)
are decoded together, so the cost hardly depends on how many there are. One `Decoder` sees all frames
of its connections, in order; a call that waits for its reply is carried from block to block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analyzer.wire import columns as col
from analyzer.wire.deep import DeepMessage, fill_deep
from analyzer.wire.frame_index import FrameMeta
from analyzer.wire.grammar import Ambiguous, Message, Step, plan
from analyzer.wire.packets import Int64s
from analyzer.wire.pairing import Pairing
from analyzer.wire.protocols import nfs4
from analyzer.wire.rows import Joined, assemble, spread
from analyzer.wire.shapes import parse_shape, shape_codes
from analyzer.wire.side import NULL, Side, Vocabulary
from analyzer.wire.values import TEXT, VALUES, GroupValues, fill

#: A call that waits longer for its reply than this many others is given up (memory stays bounded).
MAX_PENDING = 100_000
#: Times of messages that can't be read, for one connection.
MAX_UNREAD = 1000
#: Frames of one share that the second decoder, some fifty times slower, may get.
MAX_DEEP = 20_000
#: Directory listings too long for a column that the second decoder may get: paths are worth that much.
MAX_LISTINGS = 500
_EXCHANGE_ID = pa.scalar(str(nfs4.EXCHANGE_ID))
_MAX_WORDS = 200_000
_MAX_CHARACTERS = 8 << 20


@dataclass(slots=True)
class DecodeCounts:
    """What decoding came to; the parts of coverage that only a decoder can know."""

    rpc_messages: int = 0
    messages: Counter[int] = field(default_factory=Counter)  # by connection
    unread: Counter[int] = field(default_factory=Counter)  # messages without operations, by connection
    waiting_at: dict[int, list[int]] = field(default_factory=dict)  # calls without reply, by connection
    unread_at: dict[int, list[int]] = field(default_factory=dict)  # when the first of them were
    compounds: int = 0
    sent_again: int = 0  # calls that were sent more than once
    unmatched: Counter[int] = field(default_factory=Counter)  # replies without a call, by connection
    unanswered: int = 0
    given_up: int = 0
    broken_lines: int = 0
    truncated_messages: int = 0
    listings: int = 0  # long directory listings among them
    deep: int = 0  # frames that the second decoder read
    undecoded: int = 0  # frames that neither decoder could read
    decoded_bytes: Counter[int] = field(default_factory=Counter)  # by connection * 2 + up
    services: Counter[str] = field(default_factory=Counter)  # RPCSEC_GSS service


class _Calls:
    """Messages that are calls, with the rows of their operations."""

    def __init__(self, fields: dict[str, Int64s], side: Side) -> None:
        self.fields = fields
        self.side = side

    def __len__(self) -> int:
        return len(self.fields["frame"])


_MESSAGE_FIELDS = ("frame", "file", "time", "connection", "up", "xid", "ops", "first", "plan", "minor")
_REPLY_FIELDS = ("frame", "file", "time", "ops", "first", "status")


#: The second decoder: the messages of some frames of a block (`FrameMeta` places, 0-based).
Second = Callable[[FrameMeta, Int64s], dict[int, list[DeepMessage]]]


class Decoder:
    """Decodes one shard. `feed` yields internal record batches (see `rows.WIRE_SCHEMA`)."""

    def __init__(self, file_names: tuple[str, ...], second: Second | None = None) -> None:
        self.file_names = file_names
        self.second = second
        self.counts = DecodeCounts()
        self.words = Vocabulary()
        self.shapes: dict[str, tuple[Message, ...] | None] = {}
        self.plans: list[Message] = []  # of calls: how their handles flow
        self._plan_codes: dict[tuple[Step, ...], int] = {}
        self.pairing = Pairing()
        self.waiting = _Calls({n: np.empty(0, np.int64) for n in _MESSAGE_FIELDS}, Side(0))

    def feed(self, text: bytes, meta: FrameMeta, before: int) -> Iterator[pa.RecordBatch]:
        """Decode whole lines of tshark's output; `meta` has one entry per frame, the first of which is
        tshark's frame `before + 1`."""
        values, broken = col.parse(text)
        self.counts.broken_lines += broken
        numbers = col.whole_numbers(values["number"]).fill_null(0).to_numpy(zero_copy_only=False) - before
        # a line that was skipped leaves a gap, not a shift: frames are found by their number
        known = (numbers >= 1) & (numbers <= len(meta))
        known &= col.value_counts(values["xid"]) == col.value_counts(values["types"])
        if not known.all():
            place = pa.array(np.flatnonzero(known))
            values = {name: array.take(place) for name, array in values.items()}
            numbers = numbers[known]
        if len(numbers):
            self._bytes(values["fragment"], meta, numbers)
            yield from self._block(values, meta, numbers)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Calls that were never answered."""
        if len(self.waiting):
            self.counts.unanswered += len(self.waiting)
            fields = self.waiting.fields
            for number, at in zip(fields["connection"].tolist(), fields["time"].tolist(), strict=True):
                _add(self.counts.waiting_at, number, at)
            yield assemble(self._joined(np.arange(len(self.waiting)), None, {}, Side(0)))

    # --- one block ---------------------------------------------------------------------------

    def _block(
        self, values: dict[str, pa.StringArray], meta: FrameMeta, index: Int64s
    ) -> Iterator[pa.RecordBatch]:
        counts = {n: col.value_counts(values[n]) for n in VALUES}
        codes, words = shape_codes(values, counts)
        plans = [self._plan(word) for word in words]
        self._account(values)
        deep = self._deep(values, codes, plans, meta, index)
        codes[list(deep)] = -1  # they are no longer of their shape
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(len(plans) + 1))
        groups = [
            (order[edges[code] : edges[code + 1]], found)
            for code, found in enumerate(plans)
            if found is not None
        ]
        per_frame = np.append([0 if p is None else len(p) for p in plans], 0)[codes].astype(np.int64)
        for row, messages in deep.items():
            per_frame[row] = len(messages)
        first = np.cumsum(per_frame) - per_frame
        message = self._table(int(per_frame.sum()))
        for rows, found in groups:
            self._without_operations(found, meta, index[rows] - 1)
            self._messages(message, first[rows], rows, found, values, meta, index)
        for row, messages in deep.items():
            self._deep_messages(message, int(first[row]), messages, meta, int(index[row]) - 1)
        calls = message["call"] == 1
        message["first"] = np.where(
            calls,
            np.cumsum(np.where(calls, message["ops"], 0)) - message["ops"],
            np.cumsum(np.where(calls, 0, message["ops"])) - message["ops"],
        )
        sides = Side(int(message["ops"][~calls].sum())), Side(int(message["ops"][calls].sum()))
        for rows, found in groups:
            place = pa.array(rows)
            group = GroupValues({n: values[n].take(place) for n in VALUES}, found)
            for part in found:
                fill(sides[part.call], part, message["first"][first[rows] + part.place], group, self.words)
        for row, messages in deep.items():
            for one in messages:
                start = int(message["first"][first[row] + one.message.place])
                fill_deep(sides[one.message.call], start, one, self.words)
        yield from self._join(message, calls, sides[1], sides[0])
        self._prune()

    @staticmethod
    def _table(size: int) -> dict[str, Int64s]:
        names = (*_MESSAGE_FIELDS, "call", "status")
        return {name: np.full(size, NULL, dtype=np.int64) for name in names}

    def _plan(self, word: str) -> tuple[Message, ...] | None:
        if word not in self.shapes:
            if len(self.shapes) > 20_000:
                self.shapes.clear()
            try:
                self.shapes[word] = plan(parse_shape(word))
            except (Ambiguous, ValueError, KeyError):
                self.shapes[word] = None
        return self.shapes[word]

    def _deep(
        self,
        values: dict[str, pa.StringArray],
        codes: Int64s,
        plans: list[tuple[Message, ...] | None],
        meta: FrameMeta,
        index: Int64s,
    ) -> dict[int, list[DeepMessage]]:
        """Rows that the second decoder read: those that can't be told apart by their counts, and those
        with an owner or identity longer than a column shows."""
        ambiguous = np.flatnonzero(np.array([p is None for p in plans])[codes])
        places = index[ambiguous] - 1
        cut = meta.truncated[places]
        self.counts.truncated_messages += int(cut.sum())
        self._unread(meta, places[cut])
        ambiguous = ambiguous[~cut]
        listings = _long_listings(values)[: max(0, MAX_LISTINGS - self.counts.listings)]
        self.counts.listings += len(listings)
        clipped = np.setdiff1d(np.union1d(_clipped(values), listings), ambiguous)
        wanted = np.concatenate([ambiguous, clipped])[: MAX_DEEP - self.counts.deep]
        found: dict[int, list[DeepMessage]] = {}
        if len(wanted) and self.second is not None:
            row_of = {int(index[row]) - 1: row for row in wanted.tolist()}
            answers = self.second(meta, np.array(sorted(row_of), dtype=np.int64))
            found = {row_of[place]: messages for place, messages in answers.items()}
        self.counts.deep += len(found)
        unread = [row for row in ambiguous.tolist() if row not in found]
        self.counts.undecoded += len(unread)
        self._unread(meta, index[unread] - 1 if unread else places[:0])
        return found

    def _unread(self, meta: FrameMeta, places: Int64s) -> None:
        for number, time_ns in zip(
            meta.connection[places].tolist(), meta.time_ns[places].tolist(), strict=True
        ):
            self.counts.unread[number] += 1
            _add(self.counts.unread_at, number, time_ns)

    def _deep_messages(
        self,
        message: dict[str, Int64s],
        first: int,
        messages: list[DeepMessage],
        meta: FrameMeta,
        place: int,
    ) -> None:
        for one in messages:
            at, part = first + one.message.place, one.message
            message["frame"][at], message["file"][at] = meta.number[place], meta.file[place]
            message["time"][at] = meta.time_ns[place]
            message["connection"][at], message["up"][at] = meta.connection[place], meta.up[place]
            message["ops"][at], message["call"][at] = len(part.steps), int(part.call)
            message["xid"][at] = one.xid
            if part.call:
                message["minor"][at] = NULL if one.minor is None else one.minor
                message["plan"][at] = self._plan_code(part)
            else:
                message["status"][at] = part.status

    def _messages(
        self,
        message: dict[str, Int64s],
        first: Int64s,
        rows: Int64s,
        found: tuple[Message, ...],
        values: dict[str, pa.StringArray],
        meta: FrameMeta,
        index: Int64s,
    ) -> None:
        places = index[rows] - 1
        xids = values["xid"].take(pa.array(rows))
        minors = values["minor"].take(pa.array(rows))
        calls = [m for m in found if m.call and m.steps]
        for part in found:
            at = first + part.place
            message["frame"][at] = meta.number[places]
            message["file"][at] = meta.file[places]
            message["time"][at] = meta.time_ns[places]
            message["connection"][at] = meta.connection[places]
            message["up"][at] = meta.up[places]
            message["ops"][at] = len(part.steps)
            message["call"][at] = int(part.call)
            message["xid"][at] = _column(xids, len(found), part.place)
            if part.call and part.steps:
                message["minor"][at] = _column(minors, len(calls), calls.index(part))
            if part.call:
                message["plan"][at] = self._plan_code(part)
            else:
                message["status"][at] = part.status

    def _without_operations(self, found: tuple[Message, ...], meta: FrameMeta, places: Int64s) -> None:
        """A truncated frame may end before the operations begin: that is no message without any."""
        empty = sum(not part.steps for part in found)
        if empty:
            cut = places[meta.truncated[places]]
            self._unread(meta, np.repeat(cut, empty))

    def _plan_code(self, part: Message) -> int:
        code = self._plan_codes.get(part.steps)
        if code is None:
            code = self._plan_codes[part.steps] = len(self.plans)
            self.plans.append(part)
        return code

    # --- calls and replies -------------------------------------------------------------------

    def _join(
        self, message: dict[str, Int64s], calls: NDArray[np.bool_], call_side: Side, reply_side: Side
    ) -> Iterator[pa.RecordBatch]:
        carried = len(self.waiting)
        offset = self.waiting.side.rows
        fields = {n: np.concatenate([self.waiting.fields[n], message[n][calls]]) for n in _MESSAGE_FIELDS}
        fields["first"][carried:] += offset
        self.waiting = _Calls(fields, Side.joined(self.waiting.side, call_side))
        # a call and its reply share the connection and the transaction id, and go opposite ways
        toward = np.where(calls, message["up"], 1 - message["up"])
        keys = (message["connection"] << 33) | (toward << 32) | message["xid"]
        pairs = self.pairing.match(keys, calls, carried, message["connection"])
        self.counts.sent_again, self.counts.unmatched = self.pairing.sent_again, self.pairing.unmatched
        self.counts.rpc_messages += len(keys)
        numbers, sizes = np.unique(message["connection"], return_counts=True)
        self.counts.messages.update(dict(zip(numbers.tolist(), sizes.tolist(), strict=True)))
        replies = np.flatnonzero(~calls)
        if len(pairs):
            reply = {n: message[n][replies][pairs[:, 1]] for n in _REPLY_FIELDS}
            yield assemble(self._joined(pairs[:, 0], reply, self.pairing.attempts, reply_side))
        self._carry()

    def _carry(self) -> None:
        """Keep only the calls that still wait."""
        keep, given_up = self.pairing.renumber(MAX_PENDING)
        self.counts.given_up += given_up
        fields = {n: values[keep] for n, values in self.waiting.fields.items()}
        rows = spread(fields["first"], fields["ops"])
        side = self.waiting.side.pick(rows)
        fields["first"] = np.cumsum(fields["ops"]) - fields["ops"]
        self.waiting = _Calls(fields, side)

    def _joined(
        self,
        calls: Int64s,
        reply: dict[str, Int64s] | None,
        attempts: dict[int, int],
        reply_side: Side,
    ) -> Joined:
        fields = {n: values[calls] for n, values in self.waiting.fields.items()}
        tries = np.ones(len(calls), dtype=np.int64)
        if attempts:
            tries = np.array([attempts.get(c, 1) for c in calls.tolist()], dtype=np.int64)
        return Joined(
            call=fields,
            reply=reply,
            attempts=tries,
            call_side=self.waiting.side,
            reply_side=reply_side,
            plans=self.plans,
            words=self.words,
            file_names=self.file_names,
        )

    def _prune(self) -> None:
        """Forget words that no waiting call uses, so that a long capture doesn't fill the memory."""
        if len(self.words.words) < _MAX_WORDS and self.words.size < _MAX_CHARACTERS:
            return
        fresh = Vocabulary()
        used = {
            code
            for name in TEXT
            for code in self.waiting.side.columns.get(name, np.empty(0, np.int64)).tolist()
            if code != NULL
        }
        mapping = {code: fresh.code(self.words.words[code]) for code in sorted(used)}
        self.waiting.side.remap(TEXT, mapping)
        self.words = fresh

    # --- counts ------------------------------------------------------------------------------

    def _bytes(self, fragments: pa.StringArray, meta: FrameMeta, index: Int64s) -> None:
        """Bytes of the TCP stream that were decoded as RPC records (RFC 5531, section 11)."""
        rows = np.flatnonzero(col.filled(fragments))
        sizes = pc.split_pattern(fragments.take(pa.array(rows)), ",")
        per_row = sizes.value_lengths().to_numpy(zero_copy_only=False)
        numbers = col.whole_numbers(sizes.flatten()).fill_null(0).to_numpy(zero_copy_only=False)
        ways = np.repeat((meta.connection * 2 + meta.up)[index[rows] - 1], per_row)
        unique, inverse = np.unique(ways, return_inverse=True)
        totals = np.bincount(inverse, weights=(numbers & 0x7FFFFFFF) + 4, minlength=len(unique))
        for way, total in zip(unique.tolist(), totals.tolist(), strict=True):
            self.counts.decoded_bytes[way] += int(total)

    def _account(self, values: dict[str, pa.StringArray]) -> None:
        counts = self.counts
        compound = col.filled(values["counts"]) | col.filled(values["callbacks"])
        counts.compounds += int(compound.sum())
        if not col.filled(values["service"]).any():
            return
        for item in values["service"].value_counts().to_pylist():
            if item["values"]:
                counts.services[item["values"].split(",")[0]] += item["counts"]


def _clipped(values: dict[str, pa.StringArray]) -> Int64s:
    """Rows with an owner or an identity of which a column shows only the beginning."""
    found = pc.match_substring(values["owners"], col.ELLIPSIS).to_numpy(zero_copy_only=False)
    data = pc.match_substring(values["data"], col.ELLIPSIS)
    exchange = pc.equal(values["ops"], _EXCHANGE_ID)
    found |= pc.and_(data, exchange).to_numpy(zero_copy_only=False)
    return np.flatnonzero(found)


def _add(times: dict[int, list[int]], number: int, at: int) -> None:
    found = times.setdefault(number, [])
    if len(found) < MAX_UNREAD:
        found.append(at)


def _long_listings(values: dict[str, pa.StringArray]) -> Int64s:
    """Rows with more directory entries than a column holds."""
    full = col.lengths(values["entries"]) >= col.FULL
    full |= (col.lengths(values["handles"]) >= col.FULL) & col.filled(values["entries"])
    return np.flatnonzero(full)


def _column(values: pa.StringArray, total: int, place: int) -> Int64s:
    if (col.value_counts(values) != total).any():
        return np.full(len(values), NULL, dtype=np.int64)
    numbers = col.whole_numbers(col.nth(values, total, place))
    found: Int64s = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    return found
