"""Legal histories of any size, made column by column: `concurrency` operations overlap on average."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analyzer.analysis.register import Accesses
from analyzer.core.schema import HISTORY_SCHEMA

Ints = NDArray[np.int64]
STEP_NS = 20_000
BATCH = 65_536
_NODES = pa.array([f"node-{i}" for i in range(8)])


def registers(rng: np.random.Generator, count: int, keys: int, concurrency: int) -> Accesses:
    """Reads (70 %) and writes of registers around true instants."""
    effect = np.arange(count, dtype=np.int64) * STEP_NS
    spread = max(concurrency * STEP_NS // 2, 2)
    start, end = effect - rng.integers(0, spread, count), effect + rng.integers(0, spread, count)
    key, write = rng.integers(0, keys, count), rng.random(count) < 0.3
    order = np.argsort(key, kind="stable")
    last = np.maximum.accumulate(np.where(write[order], np.arange(count), -1))
    first = np.flatnonzero(np.concatenate([[True], np.diff(key[order]) != 0]))
    begin = np.repeat(first, np.diff(np.append(first, count)))
    token = np.zeros(count, dtype=np.int64)
    # tokens are spread over 64 bits, as those of workers are
    token[order] = np.where(last >= begin, (order[np.maximum(last, 0)] + 1) * 1_000_003, 0)
    return Accesses(key, start, end, token, write)


def _lasting(rng: np.random.Generator, effect: Ints, concurrency: int) -> tuple[Ints, Ints]:
    spread = max(concurrency * STEP_NS // 2, 2)
    return effect - rng.integers(0, spread, len(effect)), effect + rng.integers(0, spread, len(effect))


def _coded(codes: Ints, words: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words))


def _batch(count: int, first_id: int, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    ids = pa.array(np.arange(first_id, first_id + count))
    worker = np.arange(count) % 4096  # more workers than calls that overlap
    workers = [f"worker-{i}" for i in range(4096)]
    base = {
        "op_id": ids,
        "client": _coded(worker % 8, _NODES.to_pylist()),
        "process": _coded(worker, workers),
        "owner": _coded(worker, workers),
        "outcome": _coded(np.zeros(count, dtype=np.int64), ["ok"]),
        "status": _coded(np.zeros(count, dtype=np.int64), ["ok"]),
        "status_code": pa.array(np.zeros(count, dtype=np.int64)),
        "intact": pa.array(np.ones(count, dtype=bool)),
        "at_call": pc.binary_join_element_wise("worker.journal", pc.cast(ids, pa.string()), ":"),
        **columns,
    }
    base["start_hi"], base["end_hi"] = base["start_lo"], base["end_lo"]
    arrays = [base.get(f.name, pa.nulls(count, f.type)).cast(f.type) for f in HISTORY_SCHEMA]
    return pa.record_batch(arrays, schema=HISTORY_SCHEMA)


def _common(
    count: int, workload: str, kind: Ints, kinds: list[str], start: Ints, end: Ints
) -> dict[str, pa.Array]:
    return {
        "workload": _coded(np.zeros(count, dtype=np.int64), [workload]),
        "phase": _coded(np.zeros(count, dtype=np.int64), [""]),
        "kind": _coded(kind, kinds),
        "start_lo": pa.array(start),
        "end_lo": pa.array(end),
    }


def _register(rng: np.random.Generator, count: int, keys: int, concurrency: int, at: int) -> pa.RecordBatch:
    a = registers(rng, count, keys, concurrency)
    columns = _common(count, "register", a.write.astype(np.int64), ["read", "write"], a.start, a.end)
    columns["object"] = _coded(a.key, [f"data/{i}" for i in range(keys)])
    columns["token"] = pa.array(a.token)
    return _batch(count, at, columns)


def _locks(rng: np.random.Generator, count: int, keys: int, concurrency: int, at: int) -> pa.RecordBatch:
    """Holds one after the other on each file; the calls for them begin up to `concurrency` holds earlier.
    Half of them take 4 of 16 slots."""
    holds = count // 2
    hold = np.arange(holds, dtype=np.int64)
    begin = hold * 2 * STEP_NS
    # worker i asks again only after its last hold, 64 holds ago
    early = rng.integers(0, max(min(concurrency, 60), 1) * STEP_NS, holds)
    start = np.stack([begin - early, begin + STEP_NS], axis=1).ravel()
    end = np.stack([begin + STEP_NS // 4, begin + STEP_NS + STEP_NS // 2], axis=1).ravel()
    slot = np.where(rng.random(holds) < 0.5, rng.integers(0, 13, holds), -1)
    whole = np.repeat(slot < 0, 2)
    columns = _common(2 * holds, "locks", np.tile([0, 1], holds), ["lock", "unlock"], start, end)
    columns |= {
        "object": _coded(np.repeat(rng.integers(0, keys, holds), 2), [f"lock/{i}" for i in range(keys)]),
        "owner": _coded(np.repeat(hold % 64, 2), [f"worker-{i}" for i in range(64)]),
        "process": _coded(np.repeat(hold % 64, 2), [f"worker-{i}" for i in range(64)]),
        "lock_type": _coded(np.zeros(2 * holds, dtype=np.int64), ["write"]),
        "family": _coded(np.zeros(2 * holds, dtype=np.int64), ["posix"]),
        "offset": pa.array(np.where(whole, 0, np.repeat(slot, 2) * 64)),
        "length": pa.array(np.where(whole, -1, 256)),
        "blocking": pa.array(np.ones(2 * holds, dtype=bool)),
    }
    return _batch(2 * holds, at, columns)


def _append(rng: np.random.Generator, count: int, keys: int, concurrency: int, at: int) -> pa.RecordBatch:
    """Appends, and one audit of each file."""
    half = count // 2
    effect = np.arange(half, dtype=np.int64) * 2 * STEP_NS
    start, end = _lasting(rng, effect, concurrency)
    key = rng.integers(0, keys, half)
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.concatenate([[True], np.diff(key[order]) != 0]))
    place = np.empty(half, dtype=np.int64)
    place[order] = np.arange(half) - np.repeat(first, np.diff(np.append(first, half)))
    audit = effect[-1] + 10**9 + np.arange(half, dtype=np.int64)
    kind = np.repeat([0, 1], half)
    both = _common(
        2 * half, "append", kind, ["append", "read"], np.append(start, audit), np.append(end, audit + 1)
    )
    both |= {
        "phase": _coded(kind, ["", "audit"]),
        "object": _coded(np.tile(key, 2), [f"log/{i}" for i in range(keys)]),
        "token": pa.array(np.tile((np.arange(half) + 1) * 1_000_003, 2)),
        "sequence": pa.array(np.tile(np.arange(half), 2)),
        "offset": pa.array(np.tile(place * 64, 2)),
        "length": pa.array(np.full(2 * half, 64)),
    }
    return _batch(2 * half, at, both)


def _publish(rng: np.random.Generator, count: int, keys: int, concurrency: int, at: int) -> pa.RecordBatch:
    a = registers(rng, count, keys, concurrency)
    # the generation that a read sees is the place of its write among all
    number = a.token // 1_000_003
    missing = ~a.write & (number == 0)
    columns = _common(count, "publish", a.write.astype(np.int64), ["read", "rename"], a.start, a.end)
    columns |= {
        "object": _coded(a.key, [f"published/{i}" for i in range(keys)]),
        "sequence": pa.array(number),
        "outcome": _coded(missing.astype(np.int64), ["ok", "fail"]),
        "status": _coded(missing.astype(np.int64), ["ok", "ENOENT"]),
    }
    return _batch(count, at, columns)


def mixed(seed: int, count: int, keys: int, concurrency: int) -> list[pa.RecordBatch]:
    """Registers 40 %, locks 30 %, appends 15 %, publishing 15 %."""
    rng = np.random.default_rng(seed)
    parts, at = [], 0
    for make, share in ((_register, 40), (_locks, 30), (_append, 15), (_publish, 15)):
        part = make(rng, count * share // 100, keys, concurrency, at)
        parts.append(part)
        at += part.num_rows
    return list(_sliced(parts))


def _sliced(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        for at in range(0, part.num_rows, BATCH):
            yield part.slice(at, BATCH)
