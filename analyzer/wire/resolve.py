"""Give operations their identities and paths, in stream order over all connections.

* client: see `clients`.
* path: from LOOKUP, OPEN, CREATE and RENAME and the handles that GETFH returned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from analyzer.core.operations import operations
from analyzer.core.schema import EVENT_SCHEMA
from analyzer.wire.clients import ClientNames
from analyzer.wire.codes import Codes, Endpoints, combinations, forget, text_column
from analyzer.wire.packets import Int64s
from analyzer.wire.rows import ROOT_HANDLE
from analyzer.wire.side import readable


class Resolver:
    """State over a whole capture; `batch` turns decoder batches (WIRE_SCHEMA) into EVENT_SCHEMA."""

    def __init__(
        self,
        endpoints: Sequence[str],
        labels: Sequence[str],
        clients: Sequence[str],
        begun: Collection[int] = (),
    ) -> None:
        # by connection number: server endpoint, "client>server", and the client's address:port
        self.endpoints, self.labels = endpoints, labels
        self.clients = ClientNames(clients, begun)
        self.next_id = 0
        self.paths: dict[tuple[str, str], str] = {}  # (endpoint, handle) → path
        self.children: dict[tuple[str, str, str], str] = {}  # (endpoint, parent, name) → handle
        self.full_identities: dict[str, str] = {}  # reference of the call → identity in full

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One batch, in stream order."""
        connection = batch.column("wire").to_numpy() >> 1
        numbers, which = np.unique(connection, return_inverse=True)
        endpoint = Endpoints([self.endpoints[n] for n in numbers.tolist()], which)
        columns: dict[str, pa.Array] = {n: batch.column(n) for n in batch.schema.names}
        columns["identity"] = self._identities(batch)
        self.clients.learn(batch, endpoint, columns["identity"], connection)
        columns |= self.clients.columns(columns, endpoint, connection)
        columns |= self._paths(columns, endpoint)
        rows = batch.num_rows
        first = self.next_id
        self.next_id += rows
        ids = np.arange(first, first + rows)
        position = batch.column("position").to_numpy()
        columns["op_id"] = pa.array(ids)
        columns["compound"] = pa.array(ids - position)
        columns["witness"] = text_column(["wire"], np.zeros(rows, dtype=np.int64))
        columns["process"] = pa.nulls(rows, EVENT_SCHEMA.field("process").type)
        columns["endpoint"] = text_column(endpoint.words, endpoint.codes)
        columns["connection"] = text_column([self.labels[n] for n in numbers.tolist()], which)
        return pa.record_batch([columns[f.name] for f in EVENT_SCHEMA], schema=EVENT_SCHEMA)

    # --- clients -----------------------------------------------------------------------------

    def _identities(self, batch: pa.RecordBatch) -> pa.DictionaryArray:
        column = batch.column("identity")
        if column.null_count == len(column):
            return column
        words = pa.array([readable(w) for w in column.dictionary.to_pylist()], type=pa.string())
        if not any(w.endswith("…") for w in column.dictionary.to_pylist()):
            return (
                pa.DictionaryArray.from_arrays(column.indices, words).cast(pa.string()).dictionary_encode()
            )
        refs = batch.column("at_call").to_pylist()
        plain = pa.DictionaryArray.from_arrays(column.indices, words).to_pylist()
        full = [
            None if word is None else self.full_identities.get(ref, word)
            for ref, word in zip(refs, plain, strict=True)
        ]
        return pa.array(full, type=pa.string()).dictionary_encode()

    # --- paths -------------------------------------------------------------------------------

    def _paths(self, columns: dict[str, pa.Array], endpoint: Endpoints) -> dict[str, pa.Array]:
        handle, parent = Codes(columns["object"]), Codes(columns["parent"])
        relative, new = Codes(columns["relative"]), Codes(columns["new_object"])
        op = Codes(columns["op"])
        root = op.among(frozenset({"PUTROOTFH"}))
        for row in root[new.codes[root] >= 0].tolist():
            key = endpoint.words[int(endpoint.codes[row])], new.word(int(new.codes[row]))
            self.paths[key] = "/"
        named = np.flatnonzero(relative.codes >= 0)
        if len(named):
            combos, _ = combinations(
                endpoint.codes[named], parent.codes[named], relative.codes[named], new.codes[named]
            )
            for server, p, r, n in combos:
                self._bind(endpoint.words[server], parent.word(p), relative.word(r), new.word(n))
        self._listings(columns, endpoint)
        self._renames(columns, endpoint, op)
        objects = self._opened(columns["object"], handle, endpoint, parent, relative, op)
        of_object = Codes(objects)
        combos, inverse = combinations(endpoint.codes, of_object.codes)
        paths = [self._path(endpoint.words[e], of_object.word(o)) for e, o in combos]
        return {"object": objects, "path": text_column(paths, inverse)}

    def _listings(self, columns: dict[str, pa.Array], endpoint: Endpoints) -> None:
        """What READDIR told: the handles of a directory's entries."""
        entries = Codes(columns["entries"])
        rows = np.flatnonzero(entries.codes >= 0)
        if not len(rows):
            return
        folder = Codes(columns["object"])
        for row in rows.tolist():
            text, _, told = entries.word(int(entries.codes[row])).partition("\t")
            names, handles = text.split(","), told.split(",")
            # a name with a comma, entries without handles, or more than a column holds: not told apart
            if len(handles) != 2 * len(names):
                continue
            where, parent = endpoint.words[int(endpoint.codes[row])], folder.word(int(folder.codes[row]))
            for name, handle, hashed in zip(names, handles, handles[len(names) :], strict=False):
                self._bind(where, parent, name, f"{handle}/{hashed}")

    def _path(self, endpoint: str, handle: str | None) -> str | None:
        if handle is None:
            return None
        if handle == ROOT_HANDLE:
            return "/"
        if ":" in handle:  # a name below a handle, not a handle
            parent, _, name = handle.partition(":")
            return _below(self._path(endpoint, parent), name)
        return self.paths.get((endpoint, handle))

    def _bind(self, endpoint: str, parent: str | None, name: str, handle: str | None) -> None:
        if handle is None:
            return
        base = None if parent is None else self._path(endpoint, parent)
        key = (endpoint, handle)
        if base is not None or key not in self.paths:
            self.paths[key] = _below(base, name)
        if parent is not None:
            self.children[endpoint, parent, name] = handle
        forget(self.paths)
        forget(self.children)

    def _renames(self, columns: dict[str, pa.Array], endpoint: Endpoints, op: Codes) -> None:
        rows = op.among(frozenset({"RENAME"}))
        if not len(rows):
            return
        names = ("parent", "object", "name", "new_name", "status_code")
        place = pa.array(rows)
        part = pa.record_batch([columns[n].take(place) for n in names], names=list(names))
        for row, server in zip(operations(part), endpoint.codes[rows].tolist(), strict=True):
            word = endpoint.words[server]
            moved = self.children.pop((word, row.parent, row.name), None)
            if row.status_code == 0 and moved is not None and row.new_name is not None:
                self._bind(word, row.object, row.new_name, moved)

    def _opened(
        self,
        objects: pa.DictionaryArray,
        handle: Codes,
        endpoint: Endpoints,
        parent: Codes,
        relative: Codes,
        op: Codes,
    ) -> pa.DictionaryArray:
        """An OPEN that failed, or told no handle, is about the file of that name."""
        rows = op.among(frozenset({"OPEN"}))
        rows = rows[(handle.codes[rows] < 0) & (relative.codes[rows] >= 0) & (parent.codes[rows] >= 0)]
        if not len(rows):
            return objects
        combos, inverse = combinations(endpoint.codes[rows], parent.codes[rows], relative.codes[rows])
        words: list[str] = []
        for e, p, r in combos:
            key = endpoint.words[e], parent.word(p), relative.word(r)
            words.append(self.children.get(key) or f"{key[1]}:{key[2]}")
        position = {w: i + len(handle.words) for i, w in enumerate(dict.fromkeys(words))}
        codes = handle.codes.copy()
        codes[rows] = np.array([position[w] for w in words])[inverse]
        return text_column([*handle.words, *position, None], codes)


def _below(parent: str | None, name: str) -> str:
    if parent is None:
        return f"…/{name}"
    return f"{parent.rstrip('/')}/{name}"


def merged(streams: Iterable[Iterable[pa.RecordBatch]]) -> Iterable[pa.RecordBatch]:
    """Several streams of decoder batches as one in stream order: by end, never answered last."""
    waiting: list[pa.RecordBatch] = []
    heads = [_Head(iter(s), waiting) for s in streams]
    heads = [h for h in heads if h.advance()]
    while heads:
        mark = min(h.last for h in heads)
        pieces = [piece for h in heads if (piece := h.until(mark)) is not None]
        heads = [h for h in heads if h.left or h.advance()]
        yield _sorted(pieces, "end_lo")
    if any(batch.num_rows for batch in waiting):
        yield _sorted(waiting, "start_lo")


class _Head:
    """The front of one stream."""

    def __init__(self, source: Any, waiting: list[pa.RecordBatch]) -> None:
        self.source, self.waiting = source, waiting
        self.batch: pa.RecordBatch | None = None
        self.ends: Int64s = np.empty(0, dtype=np.int64)

    @property
    def last(self) -> int:
        """When the last operation of the front batch ended."""
        return int(self.ends[-1])

    @property
    def left(self) -> bool:
        """True while the front batch isn't used up."""
        return len(self.ends) > 0

    def advance(self) -> bool:
        """Take the next batch with answers; batches without go to `waiting`."""
        for batch in self.source:
            ends = batch.column("end_lo")
            if not len(ends):
                continue
            if ends.null_count == len(ends):
                self.waiting.append(batch)
                continue
            self.batch, self.ends = batch, ends.to_numpy(zero_copy_only=False)
            if (np.diff(self.ends) < 0).any():
                order = np.argsort(self.ends, kind="stable")
                self.batch, self.ends = batch.take(pa.array(order)), self.ends[order]
            return True
        return False

    def until(self, mark: int) -> pa.RecordBatch | None:
        """Take the rows that ended at or before `mark`."""
        assert self.batch is not None
        count = int(np.searchsorted(self.ends, mark, side="right"))
        if not count:
            return None
        piece = self.batch.slice(0, count)
        self.batch, self.ends = self.batch.slice(count), self.ends[count:]
        return piece


def _sorted(pieces: list[pa.RecordBatch], by: str) -> pa.RecordBatch:
    """The rows of several batches in order of a column, ties in the order of the batches."""
    pieces = [p for p in pieces if p.num_rows] or pieces[:1]
    if len(pieces) == 1:
        return pieces[0]
    times = np.concatenate([p.column(by).to_numpy(zero_copy_only=False) for p in pieces])
    order = pa.array(np.argsort(times, kind="stable"))
    # column by column, so that no more than one is there twice
    columns = [_taken([p.column(i) for p in pieces], order) for i in range(pieces[0].num_columns)]
    return pa.record_batch(columns, schema=pieces[0].schema)


def _taken(parts: list[pa.Array], order: pa.Array) -> pa.Array:
    if all(part.null_count == len(part) for part in parts):
        return pa.nulls(len(order), parts[0].type)
    whole = pa.chunked_array(parts).unify_dictionaries().combine_chunks()
    return whole.take(order)
