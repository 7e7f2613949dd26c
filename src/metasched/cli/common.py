"""What the commands share: the application where they register, flags with key=value words, printing."""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from metasched.cli.commands import Commands
from metasched.errors import ConfigError
from metasched.printing import printable

if TYPE_CHECKING:
    from metasched.tasks import TaskSet

Options = tyro.conf.UseAppendAction[tuple[str, ...]]
"""A flag that may be repeated. :func:`pairs` reads its words."""

_NOT_OPTIONS = ("data", "regression", "no_regression")
"""Flags of rows that are not options of the data set under the same name and with the same value."""
_LAYOUT = "\n\t"

SetName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SET")]

app = Commands(
    "Decides which rows of which data sources go into the next training batch.\n\n"
    "Start with 'metasched compare FOLDER --target NAME' on your own files, or with 'metasched demo'.\n\n"
    "'metasched train --help' explains one command, and 'metasched --version' prints the version.",
    order=("demo", "data", "diagnose", "plan", "train", "resume", "predict", "compare", "status", "report", "paper"),
)


@dataclass(frozen=True)
class Rows:
    """Which rows of SET to learn from, and which column to predict."""

    target: str | None = None
    """The source that is the target: a file of the folder, or a value of the source column."""
    target_labels: int | None = None
    """How many labelled rows of the target may be used for learning; the others are for testing."""
    label: str | None = None
    """In tables: the column to predict, by default 'label'."""
    source: str | None = None
    """In a single table: the column that names the source of a row, by default 'source'."""
    drop: str | None = None
    """In tables: columns to leave out, separated by commas."""
    keep: str | None = None
    """In tables: columns to use although they look like row numbers, separated by commas."""
    regression: bool = False
    """Predict numbers; this is the default if the column to predict has numbers that are not whole."""
    no_regression: bool = False
    """Treat the numbers in the column to predict as classes."""
    missing: str | None = None
    """In tables: mean fills empty cells with the mean of the source rows; by default they are an error."""
    data: Options = ()
    """Any other option of the data set, key=value, such as seed=3 or noise={'a':0.4}; may be repeated."""

    def load(self, set: str) -> "TaskSet":
        """Load the task set that these flags ask for."""
        from metasched import datasets

        if self.regression and self.no_regression:
            raise ConfigError("--regression and --no-regression cannot both be given; leave one out")
        flags = {key: value for key, value in vars(self).items() if key not in _NOT_OPTIONS and value is not None}
        if self.regression or self.no_regression:
            flags["regression"] = self.regression
        return datasets.load(set, **{**pairs("--data", self.data), **flags})


RowFlags = Annotated[tyro.conf.OmitArgPrefixes[Rows], tyro.conf.arg(name="rows")]


@dataclass(frozen=True)
class Where:
    """Where runs are executed. The results are the same everywhere."""

    executor: str = "auto"
    """in-process; local: in other processes on this machine; ray: on a Ray cluster; auto: local if that is faster."""
    workers: int | None = None
    """How many runs to execute at once; by default one per core or accelerator."""
    address: str | None = None
    """The address of a Ray cluster, host:6379 or auto; without it, ray starts a cluster on this machine."""


WhereFlags = Annotated[tyro.conf.OmitArgPrefixes[Where], tyro.conf.arg(name="machines")]


def pairs(flag: str, words: Sequence[str]) -> dict[str, Any]:
    """Read ``key=value`` words into a dictionary. Values are Python literals if possible (``false`` too), else text."""
    options: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise ConfigError(f"{flag} {word}: expected key=value")
        options[key.replace("-", "_")] = _literal(value)
    return options


def _literal(value: str) -> Any:
    if value.lower() in ("true", "false", "none"):
        value = value.capitalize()
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def listed(words: str) -> list[str]:
    """Split a list at its commas."""
    return [word.strip() for word in words.split(",") if word.strip()]


def title(set: str) -> str:
    """The beginning of the names of a data set's folders."""
    from metasched.datasets import BUILT_IN

    return Path(set.removeprefix(BUILT_IN)).stem


def now() -> str:
    """The time, for the end of a folder's name."""
    return datetime.now().strftime("%Y%m%d-%H%M%S")


class _Careful(Console):
    """A console on which only its own styles steer the terminal, because names may come from anybody's files."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Render what appears on the screen."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text, keep=_LAYOUT), segment.style)


def stdout() -> Console:
    """The console for results."""
    return _Careful()


def stderr() -> Console:
    """The console for progress and errors."""
    return _Careful(stderr=True)


def put(text: str = "", end: str = "\n") -> None:
    """Print lines as they are, except for characters that would steer a terminal."""
    print(printable(text, keep=_LAYOUT), end=end)


def print_json(value: Mapping[str, Any]) -> None:
    """Print JSON for a program to read."""
    print(json.dumps(value, indent=2))


def print_line(value: Mapping[str, Any]) -> None:
    """Print one line of a stream that a program reads as it grows."""
    print(json.dumps(value, separators=(",", ":")), flush=True)


def say(text: str) -> None:
    """Print prose, wrapped between words on a terminal and unwrapped elsewhere."""
    console = stdout()
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)
