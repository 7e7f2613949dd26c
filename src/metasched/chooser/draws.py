"""Draws: a batch as it is handed out, what is stored while it is open, and how a reward is shared out among its rows.

A draw is made of *choices*. In a mixed batch every row is a choice. A batch of one source is a single choice of all its
rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError, unknown

ABSTAINS = -1
"""How a choice of no source is stored. Users see N, the number of sources."""
MISSING = -2
"""How a choice is stored if its row could not be read because the stream had ended."""
REWARD, LOSS = "reward", "loss"
"""What can be told about a draw: rewards, which decide, and losses, which are only for people to read."""
LARGEST = float(np.finfo(np.float32).max)
"""The largest reward. Schedulers store rewards as float32."""


class SourceRows(NamedTuple):
    """The rows of one source in a draw, and their positions in the batch, both int64 of the same length."""

    rows: NDArray[np.int64]
    positions: NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Draw:
    """One batch to train on.

    Attributes:
        id: 0, 1, … in the order of asking.
        rows: int64, one entry for each row of the batch: its number in its source. In a stream, rows are counted from
            the beginning. Rows for which the scheduler abstained are left out.
        tasks: int64, the number of each row's source, from 0.
        weights: float64, the factor for each row's loss. It is w / q, so that the expected loss is that of the mixture
            w although the source was drawn with probability q. Without ``loss_weights`` it is 1.
        names: the names of all sources, by number.
        chooser: the id of the chooser that made the draw.
        mixed: whether its rows were chosen one by one. If not, all rows come from one source.

    Examples:
        >>> draw = ms.Chooser("cyclic", {"web": 10_000, "books": 500}, batch_size=3, shuffle=False).ask()
        >>> draw.sources.tolist(), draw.rows.tolist()
        (['web', 'books', 'web'], [0, 0, 1])
        >>> draw.by_source["web"]
        SourceRows(rows=array([0, 1]), positions=array([0, 2]))
    """

    id: int
    rows: NDArray[np.int64]
    tasks: NDArray[np.int64]
    weights: NDArray[np.float64]
    names: NDArray[np.object_]
    chooser: str
    mixed: bool

    def __repr__(self) -> str:
        if self.mixed:
            counts = {name: len(part.rows) for name, part in self.by_source.items()}
            return f"Draw(id={self.id}, rows={counts})"
        return f"Draw(id={self.id}, source={self.source!r}, rows={self.rows.tolist()})"

    @property
    def sources(self) -> NDArray[np.object_]:
        """The name of each row's source."""
        names: NDArray[np.object_] = self.names[self.tasks]
        return names

    @property
    def by_source(self) -> dict[str, SourceRows]:
        """The rows of each source and their positions in the batch, by name."""
        return {str(self.names[task]): SourceRows(self.rows[mine], mine) for task, mine in grouped(self.tasks).items()}

    @property
    def task(self) -> int:
        """The number of the source, for a draw of one source; the number of sources, N, if none was drawn."""
        self._refuse_if_mixed("task", "tasks")
        return int(self.tasks[0]) if len(self.tasks) else len(self.names)

    @property
    def source(self) -> str | None:
        """The name of the source, for a draw of one source; None if none was drawn."""
        self._refuse_if_mixed("source", "sources")
        return str(self.names[self.tasks[0]]) if len(self.tasks) else None

    @property
    def weight(self) -> float:
        """The factor for the batch's loss, for a draw of one source."""
        self._refuse_if_mixed("weight", "weights")
        return float(self.weights[0]) if len(self.weights) else 1.0

    def cut(self, positions: Any) -> "Draw":
        """The same draw with fewer rows, for a process that trains on only a part of them.

        Args:
            positions: the positions of the rows to keep.

        Returns:
            The draw with only these rows. To give the chooser a reward, use the whole draw.

        Examples:
            >>> draw = ms.Chooser("cyclic", {"web": 10_000, "books": 500}, batch_size=4, shuffle=False).ask()
            >>> draw.cut([1, 3]).sources.tolist()
            ['books', 'books']
        """
        tasks, weights = self.tasks[positions], self.weights[positions]
        return Draw(self.id, self.rows[positions], tasks, weights, self.names, self.chooser, self.mixed)

    def _refuse_if_mixed(self, asked: str, instead: str) -> None:
        # This also applies if all rows happen to come from one source: a loop that needs one source should fail always,
        # not by chance.
        if self.mixed:
            raise ConfigError(
                f"draw.{asked} is for batches of one source, and this one mixes rows of several; use draw.{instead} "
                "or draw.by_source, or make the chooser with batching='per_source'"
            )


def grouped(tasks: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """The positions of each number among ``tasks``, by number."""
    order = np.argsort(tasks, kind="stable")
    same = tasks[order]
    edges = [0, *(np.flatnonzero(same[1:] != same[:-1]) + 1).tolist(), len(tasks)]
    return {int(same[begin]): order[begin:end] for begin, end in pairwise(edges) if begin < end}


class Open(NamedTuple):
    """What is stored of an open draw. All fields but ``positions`` have one entry for each choice.

    Attributes:
        tasks: the source of each choice, or ``ABSTAINS``, or ``MISSING``.
        begins: the position of its first row in that source, counted over all passes.
        labels: (choices, N) at all cursors before it; empty if the scheduler sees no labels.
        weights: the factors of the loss.
        positions: (sources,) of all cursors before the draw.
    """

    tasks: NDArray[np.int64]
    begins: NDArray[np.int64]
    labels: NDArray[np.int32]
    weights: NDArray[np.float64]
    positions: NDArray[np.int64]


def credited(given: Any, draw: Draw, what: str = REWARD) -> NDArray[np.float64]:
    """One reward or loss for each row (rows,) of a mixed draw, or one () for a whole draw. An unknown loss is NaN."""
    if isinstance(given, Mapping):
        values = _by_source(given, draw, what)
    else:
        # Arrays of NumPy, JAX and PyTorch, on any device, become plain numbers and lists.
        plain = given.tolist() if hasattr(given, "tolist") else given
        if not isinstance(plain, list | tuple):
            return np.array(_number(given, plain, what))
        if len(plain) != len(draw.rows):
            raise ConfigError(
                f"the {what} has {len(plain)} numbers, but the draw has {len(draw.rows)} rows; "
                "give one number, one for each row, or one for each source by name"
            )
        values = np.array([_number(one, one, what, f" of row {row}") for row, one in enumerate(plain)], np.float64)
    if draw.mixed:
        return values
    if not len(values) and what == REWARD:
        raise ConfigError(f"the reward is {given!r} but the draw has no rows; give one number")
    known = values[~np.isnan(values)]
    return np.array(known.mean() if len(known) else np.nan)


def _number(given: Any, plain: Any, what: str, whose: str = "") -> float:
    """A reward must be finite in float32. A loss may be infinite, or NaN for a row without one."""
    try:
        value = None if isinstance(plain, str) else float(plain)
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None or (what == REWARD and not abs(value) <= LARGEST):
        raise ConfigError(f"the {what} is {given!r}{whose}; give a {'finite ' * (what == REWARD)}number")
    return value


def _by_source(given: Mapping[Any, Any], draw: Draw, what: str) -> NDArray[np.float64]:
    """One number for each row, from one for each source. Sources that are not in the draw are ignored."""
    parts = draw.by_source
    if strange := [name for name in given if name not in set(draw.names)]:
        raise unknown("source", strange[0], list(draw.names))
    missing = [name for name in parts if name not in given]
    if missing and what == REWARD:
        raise ConfigError(f"source '{missing[0]}' has no reward; give one number for each of: {', '.join(parts)}")
    values = np.full(len(draw.rows), np.nan)
    for name in parts.keys() - set(missing):
        values[parts[name].positions] = _number(given[name], given[name], what, f" of source '{name}'")
    return values
