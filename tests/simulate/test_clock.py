"""Uncertain clocks never make a finding up, and hide few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from analyzer.analysis.breaches import Breach
from analyzer.analysis.register import Accesses, disorder, phantoms, seen_writes, stale_reads
from analyzer.core.clock import Pings, calibrate, same_clock
from analyzer.core.errors import PremiseError
from analyzer.core.operations import in_stream_order
from tests.simulate.clocks import Host, hosts, ping
from tests.simulate.test_planted_faults import judged
from tests.simulate.workloads import ALL
from tests.simulate.world import World

S = 1_000_000_000


def test_true_time_is_always_within_the_bounds() -> None:
    rng = np.random.default_rng(1)
    widths = []
    for host in hosts(rng, 40):
        true = np.sort(rng.integers(0, 20 * S, 20_000))
        low, high = calibrate(ping(rng, host, 20 * S)).bounds(host.stamp(true))
        assert (low <= true).all() and (true <= high).all()
        assert (np.diff(low) >= 0).all() and (np.diff(high) >= 0).all(), "a host's order is kept"
        widths.append(np.median(high - low))
    assert np.median(widths) < 450_000, "about the shortest round trip"


def test_more_pings_never_widen() -> None:
    rng = np.random.default_rng(2)
    host = hosts(rng, 1)[0]
    pings, stamps = ping(rng, host, 20 * S), host.stamp(np.arange(0, 20 * S, S // 7))
    low, high = calibrate(pings).bounds(stamps)
    fewer = Pings(pings.sent[::9], pings.received[::9], pings.stamp[::9])
    wide_low, wide_high = calibrate(fewer).bounds(stamps)
    assert (wide_low <= low).all() and (high <= wide_high).all()


def test_same_host_is_exact() -> None:
    stamps = np.array([5, 7, 11])
    low, high = same_clock().bounds(stamps)
    assert (low == stamps).all() and (high == stamps).all()


def test_clocks_that_break_the_premise_are_refused() -> None:
    rng = np.random.default_rng(3)
    fast = Host(0, 3000e-6, 0.0, S)
    with pytest.raises(PremiseError, match="drifts by at most 200 ppm"):
        calibrate(ping(rng, fast, 20 * S))
    good = ping(rng, Host(7, 10e-6, 0.0, S), 20 * S)
    jumped = replace(good, stamp=good.stamp + np.where(good.sent > 10 * S, 50_000_000, 0))
    with pytest.raises(PremiseError, match="its clock was set"):
        calibrate(jumped)
    slept = replace(good, boot=good.stamp + np.where(good.sent > 10 * S, 3 * S, 0))
    with pytest.raises(PremiseError, match="suspended"):
        calibrate(slept)
    none = np.zeros(0, dtype=np.int64)
    with pytest.raises(PremiseError, match="never answered"):
        calibrate(Pings(none, none, none))


def skewed(batch: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    """The same history, stamped by hosts of their own and converted to bounds."""
    rng = np.random.default_rng(seed)
    clients = batch.column("client").to_pylist()
    start, end = (batch.column(name).to_numpy() for name in ("start_lo", "end_lo"))
    columns = {
        name: np.zeros(len(start), dtype=np.int64) for name in ("start_lo", "start_hi", "end_lo", "end_hi")
    }
    names = sorted(set(clients))
    for name, host in zip(names, hosts(rng, len(names)), strict=True):
        clock = calibrate(ping(rng, host, int(end.max()) + S))
        own = np.array([client == name for client in clients])
        columns["start_lo"][own], columns["start_hi"][own] = clock.bounds(host.stamp(start[own]))
        columns["end_lo"][own], columns["end_hi"][own] = clock.bounds(host.stamp(end[own]))
    arrays = [
        pa.array(columns[field.name]) if field.name in columns else batch.column(field.name)
        for field in batch.schema
    ]
    return in_stream_order(pa.record_batch(arrays, schema=batch.schema))


@pytest.mark.parametrize("name", list(ALL))
def test_skewed_clocks_make_nothing_up(name: str) -> None:
    for seed in range(4):
        world = World(seed)
        assert list(judged(skewed(world.run(ALL[name][0](world)), seed)).of(Breach)) == []


def history(rng: np.random.Generator, count: int, hosts_: int) -> tuple[Accesses, np.ndarray, np.ndarray]:
    """A legal history of 50 registers on many hosts in true time: accesses, hosts, true effect."""
    effect = np.cumsum(rng.integers(10_000, 30_000, count)) + S
    start, end = effect - rng.integers(5_000, 300_000, count), effect + rng.integers(5_000, 300_000, count)
    key, write = rng.integers(0, 50, count), rng.random(count) < 0.3
    rows = np.arange(count)
    order = np.lexsort((rows, key))
    last = np.maximum.accumulate(np.where(write[order], np.arange(count), -1))
    first = np.concatenate([[0], np.flatnonzero(np.diff(key[order])) + 1])
    begin = np.repeat(first, np.diff(np.append(first, count)))
    token = np.zeros(count, dtype=np.int64)
    token[order] = np.where(last >= begin, order[np.maximum(last, 0)] + 1, 0)
    return Accesses(key, start, end, token, write), rng.integers(0, hosts_, count), effect


def found(a: Accesses, orders: bool = True) -> set[int]:
    seen = seen_writes(a)
    parts = [phantoms(a, seen), stale_reads(a, seen), *([disorder(a, seen)] if orders else [])]
    return {int(row) for part in parts for row in part.culprit}


def converted(a: Accesses, host_of: np.ndarray, seed: int, raw: bool) -> Accesses:
    rng = np.random.default_rng(seed)
    start, end = a.start.copy(), a.end.copy()
    for number, host in enumerate(hosts(rng, int(host_of.max()) + 1)):
        own = host_of == number
        near = replace(host, offset_ns=host.offset_ns % 10_000_000)  # a few ms, as after NTP
        if raw:
            start[own], end[own] = near.stamp(a.start[own]), near.stamp(a.end[own])
        else:
            clock = calibrate(ping(rng, near, int(a.end.max()) + S))
            start[own] = clock.bounds(near.stamp(a.start[own]))[0]
            end[own] = clock.bounds(near.stamp(a.end[own]))[1]
    return Accesses(a.key, start, end, a.token, a.write)


def test_widening_hides_raw_skew_and_finds_most_of_what_is_true() -> None:
    """400,000 operations 20 µs apart on 16 hosts: with raw clocks thousands of false findings, with bounds
    none; and stale reads are found the surer, the staler they are."""
    rng = np.random.default_rng(7)
    a, host_of, _ = history(rng, 400_000, 16)
    assert not found(a)
    assert len(found(converted(a, host_of, 8, raw=True))) > 1000
    assert not found(converted(a, host_of, 8, raw=False))
    # reads that see what was overwritten at least `lag` before they began
    seen = seen_writes(a)
    share = {}
    for lag in (1_000_000, 10_000_000):
        late = stale_at(a, seen, lag, rng)
        lied = Accesses(a.key, a.start, a.end, np.where(late >= 0, late, a.token), a.write)
        truth = set(np.flatnonzero(late >= 0).tolist())
        hits = found(converted(lied, host_of, 8, raw=False), orders=False)
        assert len(truth) > 500 and hits <= truth
        share[lag] = len(hits & truth) / len(truth)
    assert share[1_000_000] > 0.5 and share[10_000_000] > 0.9, share


def stale_at(a: Accesses, seen: np.ndarray, lag: int, rng: np.random.Generator) -> np.ndarray:
    """For one read in a hundred the token that was current `lag` before it began; -1 for the others."""
    result = np.full(len(a), -1, dtype=np.int64)
    for key in range(50):
        rows = np.flatnonzero((a.key == key) & a.write)
        reads = np.flatnonzero((a.key == key) & ~a.write)
        reads = reads[rng.random(len(reads)) < 0.01]
        # the newest write that had been overwritten by one that returned `lag` before
        newer = np.searchsorted(np.maximum.accumulate(a.end[rows]), a.start[reads] - lag) - 1
        good = newer >= 1
        chosen = rows[newer[good] - 1]
        certain = a.end[chosen] < a.start[rows[newer[good]]]
        result[reads[good][certain]] = a.token[chosen[certain]]
    return result
