"""Progress of many runs: one bar for each comparison, with the time that is left."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from metasched.experiments.paper import OnProgress as OnLane

EVERY = 60.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def several(
    console: Console, quiet: bool = False, clock: Callable[[], float] = time.monotonic
) -> Iterator[OnLane | None]:
    """What to call with (name, runs finished, all runs); None when quiet.

    On a terminal every name has a bar; elsewhere there is a line a minute, and one when a name is complete.
    """
    if quiet:
        yield None
        return
    if not console.is_terminal:
        said = {"": clock()}

        def say(name: str, done: int, total: int) -> None:
            if done == total or clock() - said[""] >= EVERY:
                said[""] = clock()
                console.print(f"{name}: {done} of {total} runs", highlight=False, soft_wrap=True)

        yield say
        return
    with Progress(
        TextColumn("{task.description:28}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=console,
    ) as progress:
        bars: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int) -> None:
            if name not in bars:
                bars[name] = progress.add_task(name, total=total)
            progress.update(bars[name], completed=done, total=total)

        yield show
