"""Processes that decode shares of a capture while this process reads along."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from analyzer.core.errors import ToolError
from analyzer.wire.shard import BatchFiles, ShardResult, ShardTask, run_shard


@contextmanager
def _without_main() -> Iterator[None]:
    """Keeps new processes from importing the command line, which they don't need (it's slow to load)."""
    main = sys.modules["__main__"]
    hidden = {name: main.__dict__.pop(name, None) for name in ("__spec__", "__file__")}
    main.__dict__["__spec__"] = None
    try:
        yield
    finally:
        main.__dict__.update({name: value for name, value in hidden.items() if value is not None})


class Workers:
    """Worker processes for one capture, started early: they load while the files are surveyed."""

    def __init__(self, count: int, wanted: bool) -> None:
        self.count = count
        self._context = multiprocessing.get_context("forkserver")
        self._frames: Any = None
        self._pool: ProcessPoolExecutor | None = None
        self._futures: list[Future[ShardResult]] = []
        # starting processes waits for their modules: in a thread, beside the survey
        self._opening = threading.Thread(target=self._open)
        self._opened = wanted and count > 1
        if self._opened:
            self._opening.start()

    def _open(self) -> None:
        self._context.set_forkserver_preload([__name__])
        self._frames = self._context.Value("q", 0)
        self._pool = ProcessPoolExecutor(
            self.count, mp_context=self._context, initializer=_prepare, initargs=(self._frames,)
        )
        with _without_main():
            for _ in range(self.count):
                self._pool.submit(int)

    def start(self, tasks: Sequence[ShardTask]) -> None:
        """Begin with all tasks; as many as there are processes run at a time."""
        if self._opened:
            self._opening.join()
        else:
            self._open()
        pool = self._pool
        assert pool is not None
        with _without_main():
            self._futures = [pool.submit(_work, task) for task in tasks]

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
        if self._opened:
            self._opening.join()
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
