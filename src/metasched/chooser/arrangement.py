"""Sources, and the scheduler made for them: everything of a chooser that no draw changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.chooser.draw import ABSTAINS, Draw, Open
from metasched.chooser.mixture import Mixture
from metasched.chooser.permutation import shuffled_rows
from metasched.chooser.recipe import Recipe
from metasched.chooser.record import Record
from metasched.chooser.sources import Given, Sources, labels_of, numbers_by_name, sources_of
from metasched.chooser.step import Step, compiled, first_state, replayed, room_for
from metasched.errors import ConfigError, flag, number, one_of, whole_number
from metasched.schedulers.base import Scheduler, State
from metasched.schedulers.resolve import AUTO, BEST
from metasched.seeds import check_seed
from metasched.tasks import TaskSet
from metasched.tasks.cursors import CURSORS, UNBOUNDED, batch_rows, labels_at, positions_after, starts_of

LARGEST_BATCH = 2**24
"""Rows of one draw, whose numbers are handed out as an array."""
_NONE = np.zeros(0, np.int32)


class Settings(NamedTuple):
    """What a user gives besides the scheduler and its sources; :class:`~metasched.Chooser` says what each means."""

    seed: Any
    shuffle: Any
    min_share: Any
    weights: Any
    temperature: Any
    prior: Any
    loss_weights: Any
    cursor: Any
    labels: Any
    abstain: Any


@dataclass(frozen=True, eq=False)
class Arrangement:
    """What the arms stand for, which rows a draw has, and which labels the scheduler sees.

    Attributes:
        recipe: how the scheduler is made.
        sources: all, those that were removed included.
        cursor: which cursors a draw moves.
        shuffle: whether every pass has an order of its own.
        seed: of chance and of these orders.
        labels: those of all rows, end to end, where the scheduler sees them.
        changes: how often the sources have changed.
    """

    recipe: Recipe
    sources: Sources
    cursor: str
    shuffle: bool
    seed: int
    labels: NDArray[np.int32] | None = None
    changes: int = 0
    mixture: Mixture = field(init=False)
    step: Step = field(init=False)
    loss_weights: NDArray[np.float64] | None = field(init=False)
    sizes: NDArray[np.int64] = field(init=False)
    unbounded: NDArray[np.int64] = field(init=False)
    tasks: tuple[int, ...] = field(init=False)
    arms: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        tasks = (*self.sources.active, ABSTAINS)
        mixture = self.recipe.make(self.sources)
        derived: dict[str, Any] = {
            "mixture": mixture,
            "step": compiled(mixture),
            "loss_weights": self.recipe.loss_weight_of(self.sources),
            "sizes": np.array([one.size or UNBOUNDED for one in self.sources.all], np.int64),
            "unbounded": np.full(len(self.sources.all), UNBOUNDED, np.int64),
            "tasks": tasks,
            "arms": {task: arm for arm, task in enumerate(tasks)},
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def first_state(self) -> State:
        """The scheduler's state before any reward."""
        return first_state(self.mixture, self.seed, self.changes)

    def state_after(self, record: Record) -> State:
        """The state of a scheduler that hears again all rewards of the sources that there are."""
        asked, told, heard = record.asked, record.told, record.heard
        there = np.isin(asked[told], self.tasks)
        draws = [
            (
                self.opened(asked, number, 1.0) if self.labels is not None else Open(int(asked[number]), 0, _NONE, 1.0),
                reward,
            )
            for number, reward in zip(told[there].tolist(), heard[there].tolist(), strict=True)
        ]
        return replayed(self.step, self.first_state(), *self.rows_of(draws, len(draws)))

    def rows_of(self, draws: Sequence[tuple[Open, float]], room: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Draws as a scheduler hears them: an arm and labels (room, 1 + N), and rewards (room,)."""
        rows = np.zeros((room, len(self.tasks)), np.int32)
        rewards = np.zeros(room, np.float32)
        for place, (draw, reward) in enumerate(draws):
            rows[place, 0], rewards[place] = self.arms[draw.task], reward
            if self.labels is not None:
                rows[place, 1:] = draw.labels
        return rows, rewards

    def choose(
        self, state: State, told: Iterable[tuple[Open, float]], supposed: Iterable[tuple[Open, float]], labels: Any
    ) -> tuple[State, int, float]:
        """The state after ``told``; the arm chosen as if ``supposed`` had been told too, and the chance that it had."""
        real = [one for one in told if one[0].task in self.arms]
        draws = [*real, *(one for one in supposed if one[0].task in self.arms)]
        rows, rewards = self.rows_of(draws, room_for(len(draws)) + 1)
        rows[-1, 1:] = labels
        state, choice, chance = self.step(state, rows, rewards, len(real), len(draws))
        return state, int(choice), 1.0 if self.mixture.chances is None else float(chance)

    def draw(self, number: int, opened: Open, chooser: str) -> Draw:
        """An open draw as it is handed out."""
        if opened.task == ABSTAINS:
            return Draw(number, len(self.sizes), np.empty(0, np.int64), chooser)
        source = self.sources.all[opened.task]
        if self.shuffle and source.size is not None:
            rows = shuffled_rows(opened.begin, self.recipe.batch_size, source.size, self.seed, source.name)
        else:
            rows = batch_rows(np.int64(opened.begin), self.sizes[opened.task], self.recipe.batch_size)
        return Draw(number, opened.task, rows, chooser, source.name, opened.weight)

    def opened(self, asked: NDArray[np.int64], number: int, weight: float) -> Open:
        """A draw as it was when it was made, from those asked before it."""
        positions, task = self.positions_after(asked[:number]), int(asked[number])
        return Open(task, int(positions[task]), self.labels_at(positions), weight)

    def positions_after(self, asked: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows (sources,) by which the cursors have moved."""
        return positions_after(asked, len(self.sizes), self.recipe.batch_size, self.cursor)

    def labels_at(self, positions: NDArray[np.int64]) -> NDArray[np.int32]:
        """Labels (active,) at the cursors; zeros where the scheduler sees none."""
        if self.labels is None:
            return np.zeros(len(self.tasks) - 1, np.int32)
        labels: NDArray[np.int32] = labels_at(self.labels, starts_of(self.sizes), positions % self.sizes)
        return labels


def arranged(
    scheduler: Scheduler | str, given: Given, batch_size: Any, settings: Settings, options: Mapping[str, Any]
) -> Arrangement:
    """All that a user gives, checked."""
    sources, asked = sources_of(given), settings
    labels = [task.labels for task in given.tasks] if isinstance(given, TaskSet) else asked.labels
    if isinstance(scheduler, str):
        scheduler = BEST if scheduler == AUTO else scheduler
        if scheduler == "softmax" and asked.temperature is not None:  # has a temperature of its own
            options, asked = {**options, "temperature": asked.temperature}, asked._replace(temperature=None)
    elif not isinstance(scheduler, Scheduler):
        raise ConfigError(f"the scheduler is {scheduler!r}; give a name or a Scheduler")
    if not isinstance(scheduler, str) and options:
        raise ConfigError(f"options {sorted(options)} need a scheduler given by name")
    recipe = Recipe(
        scheduler,
        options,
        whole_number("batch_size", batch_size, least=1, most=LARGEST_BATCH),
        flag("abstain", asked.abstain),
        None if asked.weights is None else numbers_by_name("weights", asked.weights, sources),
        None if asked.temperature is None else number("temperature", asked.temperature, above=0),
        number("min_share", asked.min_share, least=0, most=1),
        None if asked.prior is None else whole_number("prior", asked.prior, least=0),
        None if asked.loss_weights is None else numbers_by_name("loss_weights", asked.loss_weights, sources),
        given.useful if isinstance(given, TaskSet) else None,
    )
    looks = recipe.looks_at_labels or asked.labels is not None
    by_default = not looks and (recipe.name != "own" or labels is None)
    shuffle = by_default if asked.shuffle is None else flag("shuffle", asked.shuffle)
    if shuffle and looks:
        raise ConfigError(f"'{recipe.name}' with labels looks at what comes next; give shuffle=False")
    cursor = one_of("cursor", asked.cursor, CURSORS)
    seed = check_seed(asked.seed)
    seen = None if labels is None or shuffle else labels_of(labels, sources)
    return Arrangement(recipe, sources, cursor, shuffle, seed, seen)
