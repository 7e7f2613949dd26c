"""Progress: bars on a terminal, and elsewhere one plain line a minute."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from threading import Lock, Timer
from typing import Any, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from metasched.runs.train import OnRecord

Clock = Callable[[], float]

PATIENCE_SECONDS = 2.0
"""Work that takes less time than this does not show a bar."""
LINE_SECONDS = 60.0
"""Seconds between two plain lines."""
PACE_SECONDS = 600.0
"""The time left is estimated from the steps of this many seconds. One of them may take minutes."""
_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDEST_CHART = 24


class Show(Protocol):
    """Called at every step: with its name, the steps so far, all steps, and a few words."""

    def __call__(self, name: str, done: int, total: int, words: str = "") -> None: ...  # noqa: D102


class Track(Protocol):
    """Shows the progress of a run. It returns a function that is called with every record."""

    def __call__(self, name: str, total: int, kept: int = 0) -> OnRecord:
        """Start with ``total`` updates over all seeds. ``kept`` of them were made before and are only replayed."""


@contextmanager
def several(
    console: Console, quiet: bool = False, unit: str = "runs", clock: Clock = time.monotonic
) -> Iterator[Show | None]:
    """A function to call for any number of names, each with its own bar or lines. None if ``quiet``."""
    if quiet:
        yield None
        return
    with _bars(console, clock, MofNCompleteColumn()) as bars:
        said: dict[str, tuple[float, float]] = {}

        def say(name: str) -> None:
            bar = bars.bar(name)
            parts = [f"{name}: {bar.completed} of {bar.total} {unit}", *filter(None, [bar.fields["words"]])]
            if bar.finished:
                parts.append(f"{timedelta(seconds=round(bar.elapsed or 0))} in total")
            elif bar.time_remaining is not None:
                parts.append(f"{timedelta(seconds=bar.time_remaining)} left")
            console.print(", ".join(parts), highlight=False, markup=False, soft_wrap=True)
            said[name] = clock(), bar.completed

        def show(name: str, done: int, total: int, words: str = "") -> None:
            bars.show(name, done, total, words)
            then, _ = said.setdefault(name, (clock(), done))
            if not console.is_terminal and (done >= total or clock() - then >= LINE_SECONDS):
                say(name)

        try:
            yield show
        finally:
            for name, (_, done) in said.items():
                if not console.is_terminal and bars.bar(name).completed > done:
                    say(name)


@contextmanager
def training(console: Console, quiet: bool = False, clock: Clock = time.monotonic) -> Iterator[Track]:
    """A function that shows the progress of each run from its records."""
    with several(console, quiet, "updates", clock) as show:

        def track(name: str, total: int, kept: int = 0) -> OnRecord:
            standing = _Standing()

            def on_record(record: dict[str, Any]) -> None:
                standing.add(record)
                if show and (standing.updates > kept or standing.updates >= total):
                    show(name, standing.updates, total, standing.words(in_blocks=console.is_terminal))

            if show and kept < total:
                show(name, kept, total)
            return on_record

        yield track


@contextmanager
def counting(
    console: Console, name: str, quiet: bool = False, *, in_bytes: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (steps so far, all steps) of one thing. It shows a bar on a terminal only."""
    columns = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)
    with _bars(console, time.monotonic, *columns, quiet=quiet) as bars:
        yield partial(bars.show, name)


@contextmanager
def waiting(console: Console, name: str, quiet: bool = False) -> Iterator[Callable[[int, int, str], None]]:
    """A function to call with (steps so far, all steps, next step). It shows something after ``PATIENCE_SECONDS``.

    On a terminal it is a bar that disappears at the end, otherwise one plain line.
    """
    bars = _bars(console, time.monotonic, MofNCompleteColumn(), quiet=quiet, transient=True)
    lock, due, said = Lock(), False, quiet or console.is_terminal

    def say() -> None:
        """Print the line once, either when it is due or at the first step, whichever comes last."""
        nonlocal said
        if due and bars.tasks and not said:
            said = True
            bar = bars.bar(name)
            line = f"{name}: {bar.completed} of {bar.total} steps, now {bar.fields['words']}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)

    def appear() -> None:
        nonlocal due
        bars.start()
        with lock:
            due = True
            say()

    def show(done: int, total: int, words: str) -> None:
        with lock:
            bars.show(name, done, total, words)
            say()

    timer = Timer(PATIENCE_SECONDS, appear)
    timer.start()
    try:
        yield show
    finally:
        timer.cancel()
        timer.join()
        bars.stop()


class _Bars(Progress):
    """Bars by name. They count and estimate the time left even if nobody sees them."""

    def show(self, name: str, done: int, total: int, words: str = "") -> None:
        known = {task.description: task.id for task in self.tasks}
        bar = known[name] if name in known else self.add_task(name, total=total, completed=done, words=words)
        self.update(bar, completed=done, total=total, words=words)

    def bar(self, name: str) -> Any:
        return next(task for task in self.tasks if task.description == name)


def _bars(console: Console, clock: Clock, *columns: Any, quiet: bool = False, transient: bool = False) -> _Bars:
    return _Bars(
        TextColumn("{task.description:9}", markup=False),
        BarColumn(bar_width=14),
        *columns,
        TextColumn("{task.fields[words]}", markup=False),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=console,
        get_time=clock,
        speed_estimate_period=PACE_SECONDS,
        disable=quiet or not console.is_terminal,
        transient=transient,
    )


@dataclass
class _Standing:
    """How far a run is: updates, rows by task over all seeds, the last known accuracy and the last loss."""

    updates: int = 0
    loss: float = math.nan
    accuracy: float | None = None
    drawn: dict[int, list[int]] = field(default_factory=dict)

    def add(self, record: dict[str, Any]) -> None:
        self.updates += 1
        self.loss = record.get("loss", self.loss)
        self.accuracy = record.get("final", record).get("test_accuracy", self.accuracy)
        if "drawn" in record:  # missing if a seed diverged
            self.drawn[record["seed"]] = record["drawn"]

    def words(self, in_blocks: bool) -> str:
        rows = [sum(counts) for counts in zip(*self.drawn.values(), strict=True)]
        quality = f"loss {self.loss:.3g}" if self.accuracy is None else f"accuracy {self.accuracy:.3f}"
        told = chart(rows) if in_blocks else "by source " + " ".join(map(str, rows))
        return f"{sum(rows):,} rows drawn, {quality}, {told}"


def chart(rows: Sequence[int]) -> str:
    """Draw the rows of each task as one character, scaled to the largest. A blank means no rows.

    >>> chart([40, 0, 10, 20])
    '█ ▂▄'
    """
    top = max(rows, default=0)
    shown = "".join(_BLOCKS[math.ceil(8 * count / top) - 1] if count else " " for count in rows[:_WIDEST_CHART])
    return shown + "…" * (len(rows) > _WIDEST_CHART)
