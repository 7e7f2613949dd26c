"""Draws: one batch as it is handed out, what an open one remembers, and the history of all of them.

A scheduler gets each reward, or the edge of what is plausible. One reward of −1e20 among rewards near 0 (a loss that
overflowed, a unit forgotten) would fix the mean of its source for ever. So a reward may lie outside the recent ones by
ten times their range, and is clipped to that. When the scale of the rewards really changes, the range follows within a
few tells, because each of them widens it.
"""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError

ABSTAINS = -1
"""How a draw from no source is kept in a history; people see the number of sources, N."""
RECENT = 100
"""Rewards that the next one is compared with."""
FIRST = 10
"""Before so many rewards nothing is known of their scale; when the last of them comes, all are judged together."""
LARGEST = float(np.finfo(np.float32).max)
"""Rewards are float32 to a scheduler."""
REACH = 10.0
"""How far outside a reward may lie, in ranges."""


@dataclass(frozen=True, eq=False, slots=True)
class Draw:
    """One batch to train on.

    Attributes:
        id: 0, 1, … in the order of asking.
        task: the source's number, from 0; the number of sources, N, stands for "no source this time".
        rows: int64 ``(batch_size,)``, row numbers of that source; of a stream, the numbers of the rows that come next,
            counted from its beginning. Empty when no source was drawn.
        chooser: which chooser handed it out.
        source: the source's name; None when no source was drawn.
        weight: multiply the batch's loss by it. It is w / q, so that the expected loss is that of the mixture w
            although the source was drawn with probability q; 1 where no ``loss_weights`` were given.

    Examples:
        >>> ms.Chooser("cyclic", {"web": 10_000, "books": 500}, batch_size=2, shuffle=False).ask()
        Draw(id=0, task=0, rows=array([0, 1]), source='web', weight=1.0)
    """

    id: int
    task: int
    rows: NDArray[np.int64]
    chooser: str = field(repr=False)
    source: str | None = None
    weight: float = 1.0


class Open(NamedTuple):
    """What a draw that waits for its reward remembers: source, first position, labels at all cursors, loss weight."""

    task: int
    begin: int
    labels: NDArray[np.int32]
    weight: float


class History:
    """Draws in the order of asking, rewards in the order of telling, as they were told and as the scheduler got them.

    ``asked`` is the source of draw 0, 1, …, or ``ABSTAINS``; ``told`` are ids of draws. Sums have one more entry than
    there are sources, at the end, for draws from no source.
    """

    def __init__(
        self,
        sources: int,
        asked: Iterable[int] = (),
        told: Iterable[int] = (),
        rewards: Iterable[float] = (),
        clipped: Iterable[float] = (),
    ) -> None:
        self._asked, self._told = array("q", asked), array("q", told)  # arrays that grow: a million draws are 8 MB
        self._rewards, self._clipped = array("d", rewards), array("d", clipped)
        self.count(sources)

    @property
    def asked(self) -> NDArray[np.int64]:
        """The source (draws,) of draw 0, 1, …."""
        return np.array(self._asked, np.int64)

    @property
    def told(self) -> NDArray[np.int64]:
        """Ids (tells,) in the order of telling."""
        return np.array(self._told, np.int64)

    @property
    def clipped(self) -> NDArray[np.float64]:
        """Rewards (tells,) as the scheduler got them."""
        return np.array(self._clipped, np.float64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All columns, copied, under the names that a state has for them."""
        rewards = np.array(self._rewards, np.float64)
        return {"asked": self.asked, "told": self.told, "rewards": rewards, "heard": self.clipped}

    def count(self, sources: int) -> None:
        """Sum up by source, of which there are now so many."""
        tasks = self.asked[self.told]
        tasks[tasks == ABSTAINS] = sources
        self._totals = np.bincount(tasks, self.clipped, minlength=sources + 1).astype(np.float64)
        self._tells = np.bincount(tasks, minlength=sources + 1)

    def ask(self, task: int) -> int:
        """Note a draw; its id."""
        self._asked.append(task)
        return len(self._asked) - 1

    def tell(self, number: int, reward: float) -> tuple[float, bool]:
        """Note a reward; what the scheduler gets, and whether rewards that it got before have changed."""
        low, high = (reward, reward) if len(self._clipped) < FIRST else _plausible(self._clipped[-RECENT:])
        clipped = min(max(reward, low), high)
        task = self._asked[number]
        self._told.append(number)
        self._rewards.append(reward)
        self._clipped.append(clipped)
        self._totals[task] += clipped
        self._tells[task] += 1
        if len(self._clipped) != FIRST:
            return clipped, False
        # The first rewards were taken as they came, because nothing was known of their scale. Now it is.
        together = np.clip(self.clipped, *_plausible(self._clipped))
        if (together == self.clipped).all():
            return clipped, False
        self._clipped = array("d", together)
        self.count(len(self._tells) - 1)
        return self._clipped[-1], True

    def means(self) -> NDArray[np.float64]:
        """The mean reward (sources + 1,) of each; of one that has none, the mean of all."""
        overall = self._totals.sum() / max(self._tells.sum(), 1)
        return np.where(self._tells > 0, self._totals / np.maximum(self._tells, 1), overall)

    def columns(self) -> dict[str, NDArray[Any]]:
        """All draws as columns; one from no source has the number of sources as its task."""
        tasks, told = self.asked, self.told
        reward = np.full(len(tasks), np.nan)
        order = np.full(len(tasks), -1, np.int64)
        reward[told], order[told] = np.array(self._rewards, np.float64), np.arange(len(told))
        tasks[tasks == ABSTAINS] = len(self._tells) - 1
        return {"id": np.arange(len(tasks)), "task": tasks, "reward": reward, "told": order}

    def shares(self, last: int | None) -> NDArray[np.float64]:
        """The share (sources,) of each in the last draws, or in all."""
        tasks = np.array(self._asked[-last:] if last else self._asked, np.int64)
        counts = np.bincount(tasks[tasks != ABSTAINS], minlength=len(self._tells) - 1)
        return counts / max(len(tasks), 1)

    def log(self, numbers: Mapping[str, int], last: int) -> dict[str, float]:
        """Flat numbers for a tracker, of the sources with these names and numbers."""
        asked, shares = self.asked, self.shares(last)
        tasks, rewards = asked[np.array(self._told[-last:], np.int64)], self.clipped[-last:]
        logged = {f"share/{name}": float(shares[number]) for name, number in numbers.items()}
        by_name = {name: rewards[tasks == number] for name, number in numbers.items()}
        logged |= {f"reward/{name}": float(mine.mean()) for name, mine in by_name.items() if len(mine)}
        return logged | {f"draws/{name}": float((asked == number).sum()) for name, number in numbers.items()}


def _plausible(recent: Sequence[float]) -> tuple[float, float]:
    """[low − 10·w, high + 10·w], where low and high leave out the lowest and the highest reward, and w = high − low.

    Where those are all equal, w is their size, and at least 1.
    """
    ordered = np.sort(np.asarray(recent, np.float64))[1:-1]
    low, high = float(ordered[0]), float(ordered[-1])
    width = high - low if high > low else max(abs(high), 1.0)
    return low - REACH * width, high + REACH * width


def finite(reward: Any) -> float:
    """The reward as a number; anything else, and what float32 cannot hold, is refused."""
    try:
        value = math.nan if isinstance(reward, str) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= LARGEST:
        raise ConfigError(f"the reward is {reward!r}; give a finite number")
    return value
