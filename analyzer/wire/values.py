"""Which column of an operation each value of the grammar goes to."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import pyarrow as pa

from analyzer.wire import columns as col
from analyzer.wire.grammar import Message, Part, Step
from analyzer.wire.packets import Int64s
from analyzer.wire.protocols import nfs4
from analyzer.wire.side import Side, Vocabulary

#: Columns whose values are counted and handed out.
VALUES: Final = tuple(n for n in nfs4.COLUMNS if n not in {"ops", "callbacks", "counts", "status", "minor"})
#: Columns of a `Side` that hold words of the vocabulary.
TEXT: Final = frozenset({
    "fh", "stateid", "session", "owner", "clientid", "identity", "name", "new_name", "value",
    "new_stateid", "delegation_stateid", "holder_clientid", "holder_owner", "entries", "results",
})  # fmt: skip
#: Added to the number of a callback operation, so that both fit in one column.
CALLBACK: Final = 1_000_000

_VERIFIER_IN_CALL = frozenset({nfs4.EXCHANGE_ID, nfs4.SETCLIENTID})
_VERIFIER_IN_REPLY = frozenset({nfs4.WRITE, nfs4.COMMIT})
_CALL_NAMES = {
    "handle": "fh",
    "stateid": "stateid",
    "stateid_seq": "stateid_seq",
    "session": "session",
    "slot": "slot",
    "offset": "offset",
    "length": "length",
    "count": "length",
    "stable": "stable",
    "lock_type": "lock_type",
    "reclaim": "reclaim",
    "clientid": "clientid",
    "open_owner": "owner",
    "lock_owner": "owner",
    "lock_seq": "owner_seq",
    "access": "share_access",
    "deny": "share_deny",
    "claim": "claim",
    "open_type": "create",
    "identity": "identity",
    "data": "identity",
    "one_fs": "one_fs",
}
_REPLY_NAMES = {
    "handle": "fh",
    "session": "session",
    "target": "target_slot",
    "flags": "flags",
    "rflags": "flags",
    "count": "bytes",
    "read_length": "bytes",
    "stable": "committed",
    "clientid": "clientid",
    "delegation": "delegation",
    "max_slots": "max_slots",
    "lease": "lease_seconds",
    "size": "size",
    "max_read": "max_read",
    "max_write": "max_write",
}
_HOLDER = {
    "offset": "holder_offset",
    "length": "holder_length",
    "lock_type": "holder_type",
    "clientid": "holder_clientid",
    "lock_owner": "holder_owner",
}


@lru_cache(maxsize=65536)
def targets(step: Step, call: bool, callback: bool) -> tuple[tuple[Part, str], ...]:
    """The parts of a step that are kept, each with the name of its column."""
    found: list[tuple[Part, str]] = []
    for part in step.parts:
        name = _call_target(step, part, callback) if call else _reply_target(step, part, found)
        # the first value counts where an operation holds several (TEST_STATEID)
        if name and all(name != known for _, known in found):
            found.append((part, name))
    return tuple(found)


def _call_target(step: Step, part: Part, callback: bool) -> str:
    sequence = step.number == (nfs4.CB_SEQUENCE if callback else nfs4.SEQUENCE)
    if part.name == "seq":
        if sequence:
            return "slot_seq"
        return "" if step.number == nfs4.CREATE_SESSION else "owner_seq"
    if part.name == "lock_seq" and any(other.name == "seq" for other in step.parts):
        return ""  # a new lock owner: the open owner's sequence id is what the server checks first
    if part.name == "name":
        return "name"
    if part.name == "verifier":
        return "value" if step.number in _VERIFIER_IN_CALL else ""
    return _CALL_NAMES.get(part.name, "")


def _reply_target(step: Step, part: Part, before: list[tuple[Part, str]]) -> str:
    if step.status == nfs4.DENIED and part.name in _HOLDER:
        return _HOLDER[part.name]
    if part.name == "verifier":
        return "value" if step.number in _VERIFIER_IN_REPLY else ""
    if part.name == "stateid":
        again = any(name == "new_stateid" for _, name in before)
        return "delegation_stateid" if again else "new_stateid"
    if part.name == "stateid_seq":
        again = any(name == "new_stateid_seq" for _, name in before)
        return "" if again else "new_stateid_seq"
    return _REPLY_NAMES.get(part.name, "")


class GroupValues:
    """The cells of all frames of one shape, split into single values on demand."""

    def __init__(self, cells: dict[str, pa.StringArray], messages: tuple[Message, ...]) -> None:
        self.cells = cells
        self._split: dict[str, pa.StringArray] = {}
        self.totals: dict[str, int] = {}
        for message in messages:
            for step in message.steps:
                for part in step.parts:
                    column, reach = nfs4.COLUMN_OF[part.name], part.first + part.count
                    self.totals[column] = max(self.totals.get(column, 0), reach)

    def _cells(self, name: str, index: int) -> pa.StringArray:
        column = nfs4.COLUMN_OF[name]
        total = self.totals[column]
        if total == 1:
            return self.cells[column]
        if column not in self._split:
            self._split[column] = col.split(self.cells[column])
        return col.every(self._split[column], total, index)

    def text(self, name: str, index: int) -> pa.StringArray:
        """The `index`-th value of a text field's column in each frame."""
        values = self._cells(name, index)
        if name == "handle":
            # every handle has its hash, in the second half of the column
            hashes = self._cells("hash", self.totals["handles"] // 2 + index)
            return col.joined((values, hashes), "/")
        return values

    def listing(self) -> pa.StringArray:
        """The names of a directory's entries, a tab, and all handles and hashes of the frame."""
        return col.joined((self.cells["entries"], self.cells["handles"]), "\t")

    def number(self, name: str, index: int) -> Int64s:
        """The `index`-th value of an integer field's column in each frame."""
        values = col.whole_numbers(self._cells(name, index))
        found: Int64s = values.fill_null(0).to_numpy(zero_copy_only=False)
        return found


def fill(side: Side, message: Message, first: Int64s, group: GroupValues, words: Vocabulary) -> None:
    """Write the values of one message of every frame of a group; `first` are the rows of its first
    operation."""
    shift = CALLBACK if message.callback else 0
    for k, step in enumerate(message.steps):
        rows = first + k
        side.put("op", rows, step.number + shift)
        if not message.call:
            side.put("status", rows, step.status)
            if step.results:
                text = ",".join(map(str, step.results))
                side.put("results", rows, words.code(text))
            if step.number == nfs4.READDIR and step.status == nfs4.OK and not message.callback:
                side.put("entries", rows, words.encode(group.listing()))
        for part, name in targets(step, message.call, message.callback):
            put(side, rows, part, name, group, words)


def put(side: Side, rows: Int64s, part: Part, name: str, group: GroupValues, words: Vocabulary) -> None:
    """Write one part."""
    if name not in TEXT:
        side.put(name, rows, group.number(part.name, part.first))
        return
    side.put(name, rows, words.encode(group.text(part.name, part.first)))
    if name == "name" and part.count == 2:  # RENAME
        side.put("new_name", rows, words.encode(group.text(part.name, part.first + 1)))
