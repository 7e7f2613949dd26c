"""Everything that was asked and told, and what follows from it alone."""

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.chooser.draw import ABSTAINS
from metasched.chooser.reward_clipping import FIRST, RECENT, heard, judged


class Record:
    """Draws in the order of asking, rewards in the order of telling.

    Args:
        sources: how many sources there are; a draw of none is kept as ``ABSTAINS``, the last place of every sum.
        asked: the source of draw 0, 1, ….
        told: ids in the order of telling.
        rewards: as they were told.
        heard: as the scheduler heard them.
    """

    def __init__(
        self,
        sources: int,
        asked: NDArray[np.int64] | None = None,
        told: NDArray[np.int64] | None = None,
        rewards: NDArray[np.float64] | None = None,
        heard: NDArray[np.float64] | None = None,
    ) -> None:
        self._asked, self._told = (array("q", b"" if one is None else one.tobytes()) for one in (asked, told))
        self._rewards, self._heard = (array("d", b"" if one is None else one.tobytes()) for one in (rewards, heard))
        self.count(sources)

    def __len__(self) -> int:
        return len(self._asked)

    @property
    def asked(self) -> NDArray[np.int64]:
        """The source (draws,) of draw 0, 1, …."""
        return np.array(self._asked, np.int64)

    @property
    def told(self) -> NDArray[np.int64]:
        """Ids (tells,) in the order of telling."""
        return np.array(self._told, np.int64)

    @property
    def heard(self) -> NDArray[np.float64]:
        """Rewards (tells,) as the scheduler heard them."""
        return np.array(self._heard, np.float64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All columns, copied."""
        return {
            "asked": self.asked,
            "told": self.told,
            "rewards": np.array(self._rewards, np.float64),
            "heard": self.heard,
        }

    def count(self, sources: int) -> None:
        """Sum up by source, of whom there are now so many."""
        tasks = self.asked[self.told]
        tasks[tasks == ABSTAINS] = sources
        self._totals = np.bincount(tasks, self.heard, minlength=sources + 1).astype(np.float64)
        self._tells = np.bincount(tasks, minlength=sources + 1)

    def ask(self, task: int) -> int:
        """Note a draw; its id."""
        self._asked.append(task)
        return len(self._asked) - 1

    def tell(self, number: int, reward: float) -> tuple[float, bool]:
        """Note a reward; what is heard of it, and whether what was heard before it has changed."""
        said = heard(self._heard[-RECENT:], reward)
        task = self._asked[number]
        self._told.append(number)
        self._rewards.append(reward)
        self._heard.append(said)
        self._totals[task] += said
        self._tells[task] += 1
        if len(self._heard) != FIRST or (judged(self._heard) == self.heard).all():
            return said, False
        self._heard = array("d", judged(self._heard).tobytes())
        self.count(len(self._tells) - 1)
        return self._heard[-1], True

    def means(self) -> NDArray[np.float64]:
        """The mean reward (sources + 1,) of each; of one that has none, the mean of all."""
        overall = self._totals.sum() / max(self._tells.sum(), 1)
        return np.where(self._tells > 0, self._totals / np.maximum(self._tells, 1), overall)

    def history(self) -> dict[str, NDArray[Any]]:
        """All draws as columns; one of no source has the number of sources as its task."""
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
        tasks, rewards = asked[np.array(self._told[-last:], np.int64)], self.heard[-last:]
        logged = {f"share/{name}": float(shares[number]) for name, number in numbers.items()}
        by_name = {name: rewards[tasks == number] for name, number in numbers.items()}
        logged |= {f"reward/{name}": float(mine.mean()) for name, mine in by_name.items() if len(mine)}
        return logged | {f"draws/{name}": float((asked == number).sum()) for name, number in numbers.items()}
