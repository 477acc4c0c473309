"""A shared store in memory, workers on several hosts, and a switch for every fault.

Time is simulated: a call starts, takes effect at one instant, and returns; the history is what the workers
wrote down, with the true times. Without a switch the store keeps every promise. With one it breaks that one
now and then, and notes which operation it broke (`planted`).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from analyzer.core.operations import build, in_stream_order
from analyzer.core.schema import HISTORY_SCHEMA

US, MS, S = 1_000, 1_000_000, 1_000_000_000
Task = Generator[int, None, None]
Call = Generator[int, None, dict[str, Any]]
ERRNO = {"EAGAIN": 11, "ENOENT": 2, "EEXIST": 17, "EDEADLK": 35, "EIO": 5}


@dataclass
class World:
    """The scheduler, the history, and the faults that are switched on."""

    seed: int
    faults: frozenset[str] = frozenset()
    now: int = S
    rows: list[dict[str, Any]] = field(default_factory=list)
    planted: list[int] = field(default_factory=list)  # op_ids that a fault broke

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._tokens = 0
        self._ids = 0

    def token(self) -> int:
        """A content that was never written before."""
        self._tokens += 1
        return self._tokens * 1_000_003

    def strikes(self, fault: str, chance: float = 0.15) -> bool:
        """Whether the fault is switched on and happens now."""
        return fault in self.faults and self.rng.random() < chance

    def call(
        self,
        worker: str,
        workload: str,
        kind: str,
        target: str,
        effect: Callable[[int], Any],
        **columns: Any,
    ) -> Call:
        """One system call. `effect(op_id)` takes place at one instant within it and returns columns."""
        op_id, start = self._ids, self.now
        self._ids += 1
        yield self.rng.randint(5 * US, 300 * US)
        effects = effect(op_id) or {}
        waited = effects.pop("wait", None)
        while waited is not None and not waited():
            yield 50 * US
        yield self.rng.randint(5 * US, 300 * US)
        status = effects.pop("status", "ok")
        row = {
            "op_id": op_id,
            "witness": "client",
            "client": worker.partition(".")[0],
            "process": worker,
            "owner": worker,
            "protocol": "posix",
            "object": target,
            "path": f"/{target}",
            "kind": kind,
            "workload": workload,
            "phase": "",
            "start_lo": start,
            "start_hi": start,
            "end_lo": self.now,
            "end_hi": self.now,
            "status": status,
            "status_code": ERRNO.get(status, 0),
            "outcome": "ok" if status == "ok" else "fail",
            "intact": True,
            "attempts": 1,
            "at_call": f"{worker}:{op_id}",
            **columns,
            **effects,
        }
        self.rows.append(row)
        return row

    def run(self, tasks: list[Task]) -> pa.RecordBatch:
        """Run all workers to their end; the history in stream order."""
        heap: list[tuple[int, int, Task]] = [(self.now, i, task) for i, task in enumerate(tasks)]
        heapq.heapify(heap)
        while heap:
            self.now, number, task = heapq.heappop(heap)
            try:
                delay = next(task)
            except StopIteration:
                continue
            heapq.heappush(heap, (self.now + delay, number, task))
        return in_stream_order(build(self.rows, HISTORY_SCHEMA))


def workers(count: int, hosts: int = 3) -> Iterator[str]:
    """Names of workers, spread over hosts: A.0, B.1, C.2, A.3, ..."""
    for number in range(count):
        yield f"{'ABCDEFGH'[number % hosts]}.{number}"
