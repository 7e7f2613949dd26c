"""Progress bars on the terminal; silence, but for plain lines, elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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


@contextmanager
def training(console: Console, quiet: bool = False) -> Iterator[Callable[[str, int], OnRecord]]:
    """A function ``track(name, total)`` that gives each run a bar and returns what to call after each meta-update."""
    with Progress(
        TextColumn("{task.description:12}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("accuracy {task.fields[accuracy]:>5}"),
        TextColumn("{task.fields[samples]:>7,} samples"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=console,
        disable=quiet or not console.is_terminal,
    ) as progress:

        def track(name: str, total: int) -> OnRecord:
            bar = progress.add_task(name, total=total, accuracy="", samples=0)

            def on_record(record: dict[str, Any]) -> None:
                accuracy = record.get("final", record).get("test_accuracy")
                if accuracy is not None:
                    progress.update(bar, accuracy=f"{accuracy:.3f}")
                progress.update(bar, advance=1, samples=record["samples"])

            return on_record

        yield track


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
