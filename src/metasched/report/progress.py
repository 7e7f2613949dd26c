"""Progress on a terminal as bars; anywhere else as one plain line a minute."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
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

OnRecord = Callable[[dict[str, Any]], None]
Clock = Callable[[], float]

LINE_SECONDS = 60.0
"""Between two plain lines."""
PACE_SECONDS = 600.0
"""What a bar tells the time left from: the meta-updates of this long; one of them may take minutes."""
_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDEST_CHART = 24


class Track(Protocol):
    """Gives a run a bar, or lines; what comes back is called with every record."""

    def __call__(self, name: str, total: int, kept: int = 0) -> OnRecord:
        """``total`` meta-updates over all seeds, of which ``kept`` were made before and are only replayed."""


@dataclass
class _Standing:
    """How far a run has come: meta-updates, and rows by task over all seeds, the last known accuracy, the last loss."""

    updates: int = 0
    loss: float = math.nan
    accuracy: float | None = None
    drawn: dict[int, list[int]] = field(default_factory=dict)

    def add(self, record: dict[str, Any]) -> None:
        self.updates += 1
        self.loss = record.get("loss", self.loss)
        self.accuracy = record.get("final", record).get("test_accuracy", self.accuracy)
        if "drawn" in record:  # not where a seed diverged
            self.drawn[record["seed"]] = record["drawn"]

    @property
    def rows(self) -> list[int]:
        return [sum(rows) for rows in zip(*self.drawn.values(), strict=True)]

    @property
    def quality(self) -> str:
        return f"loss {self.loss:.3g}" if self.accuracy is None else f"accuracy {self.accuracy:.3f}"


@contextmanager
def training(console: Console, quiet: bool = False, clock: Clock = time.monotonic) -> Iterator[Track]:
    """A function that gives each run its bar on a terminal, its lines elsewhere, and nothing when ``quiet``."""
    if quiet:
        yield lambda name, total, kept=0: lambda record: None  # noqa: ARG005
    elif console.is_terminal:
        with _bars(console, clock) as track:
            yield track
    else:
        with _lines(console, clock) as track:
            yield track


@contextmanager
def _bars(console: Console, clock: Clock) -> Iterator[Track]:
    with Progress(
        TextColumn("{task.description:9}"),
        BarColumn(bar_width=14),
        MofNCompleteColumn(),
        TextColumn("{task.fields[quality]}"),
        TextColumn("{task.fields[samples]:,} samples"),
        TextColumn("{task.fields[rows]}", markup=False),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=console,
        get_time=clock,
        speed_estimate_period=PACE_SECONDS,
    ) as progress:

        def track(name: str, total: int, kept: int = 0) -> OnRecord:
            bar = progress.add_task(name, total=total, completed=kept, quality="", samples=0, rows="")
            standing = _Standing()

            def on_record(record: dict[str, Any]) -> None:
                standing.add(record)
                progress.update(
                    bar,
                    completed=max(standing.updates, kept),
                    quality=standing.quality,
                    samples=sum(standing.rows),
                    rows=chart(standing.rows),
                )

            return on_record

        yield track


@contextmanager
def _lines(console: Console, clock: Clock) -> Iterator[Track]:
    last_words: list[Callable[[], None]] = []

    def track(name: str, total: int, kept: int = 0) -> OnRecord:
        standing = _Standing()
        began = said = clock()
        first: tuple[int, float] | None = None  # the first update made now: the ones before it say nothing of the pace
        unsaid = False

        def say() -> None:
            nonlocal said, unsaid
            now = clock()
            parts = [
                f"{name}: {standing.updates} of {total} meta-updates",
                f"{sum(standing.rows):,} samples",
                standing.quality,
                "rows " + " ".join(map(str, standing.rows)),
            ]
            if standing.updates >= total:
                parts.append(f"{_duration(now - began)} in all")
            elif first and standing.updates > first[0]:
                pace = (now - first[1]) / (standing.updates - first[0])
                parts.append(f"{_duration(pace * (total - standing.updates))} left")
            console.print(", ".join(parts), highlight=False, markup=False, soft_wrap=True)
            said, unsaid = now, False

        def on_record(record: dict[str, Any]) -> None:
            nonlocal first, unsaid
            standing.add(record)
            unsaid = True
            if standing.updates > kept and first is None:
                first = standing.updates, clock()
            if standing.updates >= total or clock() - said >= LINE_SECONDS:
                say()

        last_words.append(lambda: say() if unsaid else None)
        return on_record

    try:
        yield track
    finally:
        for last_word in last_words:
            last_word()


def chart(rows: Sequence[int]) -> str:
    """Rows by task as one character each, scaled to the largest; a blank for none.

    >>> chart([40, 0, 10, 20])
    '█ ▂▄'
    """
    top = max(rows, default=0)
    shown = "".join(_BLOCKS[math.ceil(8 * count / top) - 1] if count else " " for count in rows[:_WIDEST_CHART])
    return shown + "…" * (len(rows) > _WIDEST_CHART)


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


@contextmanager
def counting(
    console: Console, name: str, quiet: bool = False, *, in_bytes: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """What to call with (how many so far, how many in all); a download is counted in bytes."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *((DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)),
        TimeRemainingColumn(),
        console=console,
        disable=quiet or not console.is_terminal,
    ) as progress:
        bar = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
