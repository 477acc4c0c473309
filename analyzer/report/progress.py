"""A progress line on standard error for long work; nothing where that is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


@contextmanager
def progress_line(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Gives a function (stage, done, total): bytes while `reading`, else the things that the stage is named
    after, frames while `decoding`."""
    if not console.is_terminal:
        yield lambda _stage, _done, _total: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[amount]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as display:
        tasks: dict[str, TaskID] = {}

        def advance(stage: str, done: int, total: int) -> None:
            noun = "frames" if stage == "decoding" else stage
            amount = decimal(done) if stage == "reading" else f"{done:,} {noun}"
            if stage not in tasks:
                tasks[stage] = display.add_task(stage, total=total, amount=amount)
            display.update(tasks[stage], completed=done, total=total, amount=amount)

        yield advance
