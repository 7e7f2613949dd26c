"""The draws and rewards so far: the last million choices one by one, and sums by source over all.

Rewards are clipped to a plausible range before the scheduler gets them. A single reward of −1e20 among rewards near 0,
from a loss that overflowed, would spoil the mean of its source for ever. So a reward may lie outside the recent ones by
at most ten times their range. When the scale of the rewards really changes, the range follows within a few rewards,
because each of them widens it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.chooser.draws import ABSTAINS, MISSING

WINDOW = 2**20
"""How many choices are stored one by one. A state then has at most about 30 MB however long the run, or 13 MB if draws
are mixed.
"""
RECENT = 100
"""How many recent rewards the next ones are compared with, or those of four mixed batches if that is more."""
MOST_RECENT = 4096
"""The most recent rewards that are compared."""
FIRST = 10
"""With fewer rewards the scale is unknown. When this many have arrived, all are judged together."""
REACH = 10.0
"""How far outside the recent rewards a reward may lie, in multiples of their range."""


class Record(NamedTuple):
    """A history as it is stored. Each draw of the window has W choices.

    Attributes:
        asked: int32 (draws, W), the source of each choice, or ``ABSTAINS``, or ``MISSING``.
        told: int64 (draws,), the rank of each draw among the draws with a reward, or −1.
        rewards: (draws, W) as they were told, or NaN; float64 if W is 1, otherwise float32.
        heard: (draws, W) the same after clipping, as the scheduler got them.
        recent: float64, the last rewards that the scheduler got, in the order of telling.
        drawn: int64 (sources + 1,), choices by source, the last entry for no source. This and the next two count all
            draws, not only those of the window.
        tells: int64 (sources + 1,), rewards by source.
        totals: float64 (sources + 1,), their sums.
        losses: float32 (draws, W), or NaN.
    """

    asked: NDArray[np.int32]
    told: NDArray[np.int64]
    rewards: NDArray[Any]
    heard: NDArray[Any]
    recent: NDArray[np.float64]
    drawn: NDArray[np.int64]
    tells: NDArray[np.int64]
    totals: NDArray[np.float64]
    losses: NDArray[np.float32]


def kind_of(width: int) -> type[np.floating[Any]]:
    """The number type of stored rewards for draws of this many choices."""
    return np.float64 if width == 1 else np.float32


def no_record(sources: int, width: int) -> Record:
    """An empty record: nothing was drawn yet."""
    numbers, rewards = np.zeros(sources + 1, np.int64), np.empty((0, width), kind_of(width))
    return Record(
        asked=np.empty((0, width), np.int32),
        told=np.empty(0, np.int64),
        rewards=rewards,
        heard=rewards,
        recent=np.empty(0),
        drawn=numbers,
        tells=numbers,
        totals=np.zeros(sources + 1),
        losses=np.empty((0, width), np.float32),
    )


class History:
    """Draws in the order of asking, with their rewards.

    Args:
        record: the stored history.
        first: the id of its first draw.
        tellings: how many draws have got a reward so far.
    """

    def __init__(self, record: Record, first: int = 0, tellings: int = 0) -> None:
        # The arrays get room for more draws at the end.
        self._columns: list[NDArray[Any]] = [column.copy() for column in (*record[:4], record.losses)]
        self.recent = record.recent.copy()
        self.drawn, self.tells, self.totals = record.drawn.copy(), record.tells.copy(), record.totals.copy()
        self.first, self.tellings, self._length = first, tellings, len(record.told)
        self.width = record.asked.shape[1]

    def record(self) -> Record:
        """Copy everything."""
        *columns, losses = (column[: self._length].copy() for column in self._columns)
        sums = (column.copy() for column in (self.recent, self.drawn, self.tells, self.totals))
        return Record._make([*columns, *sums, losses])

    @property
    def draws(self) -> int:
        """How many draws there were."""
        return self.first + self._length

    @property
    def asked(self) -> NDArray[np.int32]:
        """The source (draws, W) of each choice in the window. It is not copied, and neither are the next three."""
        return self._columns[0][: self._length]

    @property
    def told(self) -> NDArray[np.int64]:
        """The rank (draws,) of each draw of the window among the draws with a reward, or −1."""
        return self._columns[1][: self._length]

    @property
    def rewards(self) -> NDArray[Any]:
        """Rewards (draws, W) of the window as they were told, or NaN."""
        return self._columns[2][: self._length]

    @property
    def heard(self) -> NDArray[Any]:
        """Rewards (draws, W) of the window as the scheduler got them, or NaN."""
        return self._columns[3][: self._length]

    @property
    def losses(self) -> NDArray[np.float32]:
        """Losses (draws, W) of the window, or NaN."""
        return self._columns[4][: self._length]

    def grow(self, sources: int) -> None:
        """Make room for this many sources in the sums."""
        more = np.zeros(sources + 1 - len(self.drawn))
        self.drawn = np.insert(self.drawn, -1, more.astype(np.int64))
        self.tells = np.insert(self.tells, -1, more.astype(np.int64))
        self.totals = np.insert(self.totals, -1, more)

    def ask(self, tasks: NDArray[np.int64]) -> int:
        """Store a draw, and return its id."""
        self._make_room()
        place = self._length
        self._length += 1
        for column, nothing in zip(self._columns, (tasks, -1, np.nan, np.nan, np.nan), strict=True):
            column[place] = nothing
        np.add.at(self.drawn, tasks, 1)
        return self.first + place

    def lose(self, number: int, tasks: NDArray[np.int64], choices: NDArray[np.int64]) -> None:
        """Note that these choices of a draw of ``tasks`` (W,) could not be read."""
        np.subtract.at(self.drawn, tasks[choices], 1)
        if number >= self.first:
            self.asked[number - self.first, choices] = MISSING

    def tell(
        self, number: int, tasks: NDArray[np.int64], rewards: NDArray[np.float64], losses: ArrayLike = np.nan
    ) -> tuple[NDArray[Any], bool]:
        """Store the rewards (W,) of a draw, and its losses (W,), which are only for people to read.

        Returns the rewards for the scheduler, and whether earlier rewards have changed.
        """
        there, known = tasks != MISSING, int(self.tells.sum())
        given = rewards.astype(kind_of(self.width))
        heard = given if known < FIRST else _clipped(given, self.recent)
        counted, values = tasks[there], heard[there].astype(np.float64)
        np.add.at(self.tells, counted, 1)
        np.add.at(self.totals, counted, values)
        place = number - self.first
        if place >= 0:
            self.told[place], self.rewards[place], self.heard[place] = self.tellings, given, heard
            with np.errstate(over="ignore"):
                self.losses[place] = losses
        self.tellings += 1
        lately, changed = np.concatenate([self.recent, values]), False
        if known < FIRST <= known + len(counted):
            # The first rewards were accepted without a check, because their scale was unknown. Now it is known.
            together = _clipped(lately, lately)
            changed = not bool((together == lately).all())
            if changed:
                self.heard[:], heard = _clipped(self.heard, lately), _clipped(heard, lately)
                self._sum_up()
                lately = together
        self.recent = lately[-max(RECENT, min(4 * self.width, MOST_RECENT)) :]
        return heard, changed

    def in_order(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """The places in the window, the sources and the clipped rewards of all draws with a reward, in the order of
        telling.
        """
        order = np.argsort(self.told, kind="stable")
        order = order[np.searchsorted(self.told[order], 0) :]
        return order, self.asked[order], self.heard[order]

    def means(self) -> NDArray[np.float64]:
        """The mean reward (sources + 1,) of each source. A source without rewards gets the mean over all."""
        overall = self.totals.sum() / max(self.tells.sum(), 1)
        return np.where(self.tells > 0, self.totals / np.maximum(self.tells, 1), overall)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The choices of the window as columns. If no source was chosen, the task is the number of sources."""
        there = self.asked != MISSING
        tasks = self.asked[there].astype(np.int64)
        tasks[tasks == ABSTAINS] = len(self.drawn) - 1
        ids = np.arange(self.first, self.draws)
        wide = (np.broadcast_to(column[:, None], there.shape)[there] for column in (ids, self.told))
        id_, told = wide
        columns = {"id": id_, "task": tasks, "reward": self.rewards[there].astype(np.float64), "told": told}
        losses = self.losses[there].astype(np.float64)
        return columns if np.isnan(losses).all() else {**columns, "loss": losses}

    def shares(self, last: int | None) -> NDArray[np.float64]:
        """The share (sources,) of each source in the choices of the last draws, or of all draws."""
        counts = self.drawn if last is None else self.count(self.asked[-last:])
        shares: NDArray[np.float64] = counts[:-1] / max(counts.sum(), 1)
        return shares

    def log(self, numbers: Mapping[str, int], last: int) -> dict[str, float]:
        """Plain numbers for a tracker, for the sources with these names and numbers."""
        shares, lately = self.shares(last), self.told >= max(self.tellings - last, 0)
        logged = {f"share/{name}": float(shares[number]) for name, number in numbers.items()}
        for what, values in (("reward", self.heard), ("loss", self.losses)):
            tasks, known = self.asked[lately], values[lately]
            there = (tasks != MISSING) & ~np.isnan(known)
            counts, totals = self.count(tasks[there]), np.zeros(len(self.drawn))
            np.add.at(totals, tasks[there], known[there].astype(np.float64))
            logged |= {
                f"{what}/{name}": float(totals[number] / counts[number])
                for name, number in numbers.items()
                if counts[number]
            }
        return logged | {f"draws/{name}": float(self.drawn[number]) for name, number in numbers.items()}

    def count(self, tasks: NDArray[np.int32]) -> NDArray[np.int64]:
        """Count how often (sources + 1,) each source occurs."""
        counts = np.zeros(len(self.drawn), np.int64)
        np.add.at(counts, tasks[tasks != MISSING], 1)
        return counts

    def _make_room(self) -> None:
        """Make room for one more draw. If the window is full, its oldest quarter is dropped."""
        most = max(1, WINDOW // self.width)
        if self._length == most:
            old = max(1, most // 4)
            for column in self._columns:
                column[: most - old] = column[old:most].copy()
            self.first += old
            self._length -= old
        elif self._length == len(self._columns[0]):
            room = min(most, max(64, 2 * self._length))
            self._columns = [_longer(column, room) for column in self._columns]

    def _sum_up(self) -> None:
        """Compute the sums over the window."""
        _, tasks, heard = self.in_order()
        there = tasks != MISSING
        self.totals[:] = 0
        np.add.at(self.totals, tasks[there], heard[there].astype(np.float64))


def _longer(column: NDArray[Any], room: int) -> NDArray[Any]:
    longer = np.zeros((room, *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    return longer


def _clipped(rewards: NDArray[Any], recent: NDArray[np.float64]) -> NDArray[Any]:
    """``rewards`` within [low − 10·w, high + 10·w], where low and high bound the recent ones and w = high − low.

    The lowest and the highest hundredth, and at least one of each, are left out. If all others are equal, w is their
    absolute value, or 1 if that is larger.
    """
    out = max(1, len(recent) // RECENT)
    ordered = np.sort(recent)[out:-out]
    low, high = float(ordered[0]), float(ordered[-1])
    width = high - low if high > low else max(abs(high), 1.0)
    wide = np.clip(rewards.astype(np.float64), low - REACH * width, high + REACH * width)
    return wide.astype(rewards.dtype)
