"""Processes that decode shares of a capture while this process reads along."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.forkserver
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

import pyarrow as pa

from analyzer.core.errors import ToolError
from analyzer.wire.shard import BatchFiles, ShardResult, ShardTask, run_shard


class Workers:
    """Worker processes for one capture. Made early: their modules load while the files are surveyed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        if count > 1:
            multiprocessing.forkserver.ensure_running()
        self._pool: ProcessPoolExecutor | None = None
        self._futures: list[Future[ShardResult]] = []
        self._frames: Any = None

    def start(self, tasks: Sequence[ShardTask]) -> None:
        """Begin with all tasks; as many as there are processes run at a time."""
        self._frames = self._context.Value("q", 0)
        self._pool = ProcessPoolExecutor(
            min(len(tasks), self.count),
            mp_context=self._context,
            initializer=_prepare,
            initargs=(self._frames,),
        )
        self._futures = [self._pool.submit(_work, task) for task in tasks]

    def streams(
        self, tasks: Sequence[ShardTask], progress: Callable[[int], None]
    ) -> list[Iterator[pa.RecordBatch]]:
        """The batches of each task, as they come; `progress` gets all frames done so far."""

        def finished(future: Future[ShardResult]) -> bool:
            progress(self._frames.value)
            return future.done()

        return [
            BatchFiles(task.output).follow(partial(finished, future))
            for task, future in zip(tasks, self._futures, strict=True)
        ]

    def results(self) -> list[ShardResult]:
        """What each task came to; raises what a worker raised."""
        try:
            return [future.result() for future in self._futures]
        except BrokenProcessPool as error:
            raise ToolError(
                "a process that decoded a part of the capture was ended from outside, perhaps for want of "
                "memory (see `dmesg`). Close other programs, or look at less with --since and --client"
            ) from error

    def stop(self) -> None:
        """End the processes; what hasn't begun never does."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


_frames_done: Any = None


def _prepare(counter: Any) -> None:
    global _frames_done  # noqa: PLW0603 - the pool's own way to hand over shared memory
    _frames_done = counter
    pa.set_memory_pool(pa.system_memory_pool())
    gc.set_threshold(200_000, 50, 100)


def _work(task: ShardTask) -> ShardResult:
    def advance(frames: int) -> None:
        with _frames_done.get_lock():
            _frames_done.value += frames

    return run_shard(task, advance)
