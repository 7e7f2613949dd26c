"""The setup of a chooser: sources, settings, and the scheduler made for them. Draws do not change it.

When sources come or go, ``dataclasses.replace`` makes a new :class:`Setup`, and with it a new scheduler whose arms are
the remaining sources.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.chooser.draws import ABSTAINS, Draw, Open, grouped
from metasched.chooser.history import History
from metasched.chooser.mixture import (
    Mixture,
    RowSteps,
    Step,
    Table,
    mixed_steps,
    mixed_with,
    on_host,
    one_source_step,
    with_proportions,
)
from metasched.chooser.permutation import shuffled_rows
from metasched.chooser.sources import Given, Source, Sources, labels_of, numbers_by_name, sources_of
from metasched.chooser.stages import Stages, proportions, stages_of
from metasched.errors import ConfigError, flag, number, one_of, whole_number
from metasched.schedulers.base import Scheduler, State
from metasched.schedulers.resolve import AUTO, BEST, TARGET_ONLY, build, needs_plan, plan_options, resolve
from metasched.seeds import check_seed
from metasched.tasks import TaskSet
from metasched.tasks.cursors import CURSORS, labels_at, starts_of

MIXED, PER_SOURCE = "mixed", "per_source"
BATCHINGS = (MIXED, PER_SOURCE)
"""Whether the rows of a batch are chosen one by one, or one source for all of them."""
LARGEST_BATCH = 2**24
"""The most rows of one draw, whose numbers are handed out as an array."""
PRIOR = 10
"""How many rewards of each source the proportions are worth under a scheduler that learns, by default."""
_AT_ONCE = 512


class Told(NamedTuple):
    """What a scheduler gets about a draw: arms (R,), rewards (R,), and labels (R, N), or None if it sees no labels."""

    arms: NDArray[np.int32]
    rewards: NDArray[np.float32]
    labels: NDArray[np.int32] | None


@dataclass(frozen=True, eq=False)
class Setup:
    """The checked settings of :class:`~metasched.Chooser`, which explains them, and values derived from them.

    Attributes:
        sources: all sources, including removed ones.
        labels: the labels of all rows, end to end, if the scheduler sees them.
        useful: the names of the sources that are known to be useful, if a task set says so.
        changes: how often the sources have changed, or the chooser was given weights in the middle of a run.
        given: whether it was; a state then has the weights in it.
    """

    scheduler: Scheduler | str
    options: Mapping[str, Any]
    sources: Sources
    batch_size: int
    batching: str
    seed: int
    shuffle: bool
    cursor: str
    abstain: bool
    min_share: float
    temperature: float | None
    prior: int | None
    weights: Stages | None
    loss_weights: Mapping[str, float] | None
    labels: NDArray[np.int32] | None
    useful: tuple[str, ...] | None
    changes: int = 0
    given: bool = False

    @property
    def name(self) -> str:
        """The scheduler's name, or ``"own"`` for a scheduler object."""
        return self.scheduler if isinstance(self.scheduler, str) else "own"

    def facts(self) -> dict[str, Any]:
        """The settings that a stored state must share, as JSON. Weights are not among them: they come and go with
        sources.
        """
        options = {key: value for key, value in self.options.items() if key != "plan"}
        plain = {key: _plain(value) for key, value in sorted(options.items())}
        others = ("batch_size", "batching", "abstain", "temperature", "min_share", "prior", "cursor", "shuffle")
        return {"scheduler": self.name, "options": plain, **{name: getattr(self, name) for name in others}}

    @property
    def mixed(self) -> bool:
        """Whether the rows of a draw are chosen one by one."""
        return self.batching == MIXED

    @property
    def choices(self) -> int:
        """The number of choices of a draw."""
        return self.batch_size if self.mixed else 1

    @property
    def rows_of_choice(self) -> int:
        """The number of rows of one choice."""
        return 1 if self.mixed else self.batch_size

    @property
    def usual_rows(self) -> int:
        """How many rows of one source are in a draw; in a mixed draw, if all sources had equal shares."""
        return -(-self.batch_size // len(self.sources.active)) if self.mixed else self.batch_size

    def with_weight(self, name: str, weight: float) -> "Setup":
        """The same setup with a weight for one more source, if there are weights."""
        weights = self.weights and self.weights.having(name, weight)
        return replace(self, weights=weights, loss_weights=self.loss_weights and {**self.loss_weights, name: weight})

    def with_weights(self, weights: Stages) -> "Setup":
        """The same setup with other weights. If they change already, the compiled programs change with them."""
        other = replace(self, weights=weights, given=True, changes=self.changes + (not self.moves))
        if self.moves:
            vars(other)["mixture"] = self.mixture
        other._proportions  # noqa: B018 refused now, if they do not fit
        return other

    def with_sources(self, sources: Sources) -> "Setup":
        """The same setup for other sources. Refused if the scheduler cannot be made again for them."""
        if self.name == "own" or needs_plan(self.name):
            raise ConfigError(f"'{self.name}' was made for a fixed set of sources; give another scheduler, by name")
        return replace(self, sources=sources, labels=None, changes=self.changes + 1)

    # Arms: what a scheduler chooses among

    @cached_property
    def tasks(self) -> NDArray[np.int64]:
        """The source of each arm. The arm behind them stands for no source."""
        return np.array([*self.sources.active, ABSTAINS], np.int64)

    @cached_property
    def arms(self) -> NDArray[np.int32]:
        """The arm of each source, or −1 if it cannot be drawn; at the end those for ``MISSING`` and ``ABSTAINS``."""
        arms = np.full(len(self.sources.all) + 2, -1, np.int32)
        arms[self.tasks] = np.arange(len(self.tasks))
        return arms

    @cached_property
    def names(self) -> NDArray[np.object_]:
        """The name of each source."""
        return np.array(self.sources.names, np.object_)

    @property
    def moves(self) -> bool:
        """Whether the proportions change during the run."""
        return self.weights is not None and (self.given or len(self.weights.begins) > 1)

    @cached_property
    def _proportions(self) -> NDArray[np.float64]:
        """The proportions of each stage (stages, arms)."""
        active = [self.sources.all[task] for task in self.sources.active]
        stages: list[list[float] | None] = [None]
        if self.weights is not None:
            stages = [[each.get(one.name, 1.0) for one in active] for each in self.weights.weights]
        rows = [proportions(active, stage, self.temperature) for stage in stages]
        return np.pad(rows, ((0, 0), (0, int(self.abstain or self.name == TARGET_ONLY))))

    @cached_property
    def mixture(self) -> Mixture:
        """The scheduler over the active sources, with fixed proportions mixed in if the settings ask for them."""
        active = [self.sources.all[task] for task in self.sources.active]
        scheduler, steady = self._scheduler(active), self.name == "uniform"
        fixed = self.weights is not None or self.temperature is not None
        if not fixed and not self.min_share and self.prior is None and self.loss_weights is None:
            return Mixture(scheduler)
        if not steady and scheduler.family != "active":
            raise ConfigError(
                f"'{self.name}' has its own order; weights and shares are for 'uniform' or a scheduler that learns"
            )
        if self.name == "exp3" and (fixed or self.prior is not None):
            raise ConfigError("'exp3' must know the probability of every draw; of these settings, use only min_share")
        if self.loss_weights is not None and not steady and not self.min_share:
            raise ConfigError("loss_weights need a positive probability for every source; give a min_share above 0")
        shares = self._proportions[0]
        least = 1.0 if steady else 0.0 if self.name == "exp3" else self._floor(active)  # exp3 explores by itself
        prior = PRIOR * len(active) * fixed if self.prior is None else self.prior
        mixture = mixed_with(scheduler, shares, least, prior, self.moves)
        # The probabilities cost many redraws, so they are computed only if a loss weight needs them.
        return mixture if self.loss_shares is not None else Mixture(mixture.scheduler)

    @cached_property
    def loss_shares(self) -> NDArray[np.float64] | None:
        """The mixture w (active,) whose loss is wanted, with sum 1, or None if losses are not weighted."""
        if self.loss_weights is None:
            return None
        weights = np.array([self.loss_weights.get(self.sources.names[task], 0.0) for task in self.sources.active])
        if weights.sum() == 0:
            raise ConfigError("the loss_weights are all 0; give at least one source some weight")
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares

    def _scheduler(self, active: Sequence[Source]) -> Scheduler:
        if isinstance(self.scheduler, Scheduler):
            return self.scheduler
        options = {key: value for key, value in self.options.items() if key != "plan"}
        if asked := plan_options(self.name, options):
            raise ConfigError(f"'{self.name}' takes a finished plan; pass {', '.join(asked)} to ms.plan instead")
        if self.name == "single" and "task" in options:
            options["task"] = self.sources.active_name(options["task"])
        if self.name == "uniform" and options.get("tasks") is not None:
            if self.weights is not None or self.temperature is not None:
                raise ConfigError("'uniform' takes tasks or weights, not both; give all other tasks weight 0")
            given = options["tasks"]
            given = [given] if isinstance(given, str | int) else given
            options["tasks"] = [self.sources.active_name(task) for task in given]
        if self.name == "exp3" and self.min_share:
            options = {"explore": self._floor(active), **options}
        spec = resolve(self.name, options, [one.name for one in active], useful=self.useful)
        sizes, plan = [one.size for one in active], self.options.get("plan")
        return build(spec, sizes, batch_size=self.rows_of_choice, abstain=self.abstain, plan=plan)

    def _floor(self, active: Sequence[Source]) -> float:
        """The share of draws that gives each of N sources ``min_share``, if they have equal weights."""
        if self.min_share * len(active) > 1 + 1e-9:
            raise ConfigError(
                f"min_share is {self.min_share:g}; {len(active)} sources have at most {1 / len(active):g}"
            )
        return min(1.0, self.min_share * len(active))

    # The scheduler's state

    @cached_property
    def _step(self) -> Step:
        return one_source_step(self.mixture)

    @cached_property
    def _steps(self) -> RowSteps:
        return mixed_steps(self.mixture, len(self.tasks) - 1, self.batch_size, self.cursor)

    def first_state(self) -> State:
        """The scheduler's state before any reward. Every change of the sources starts a new random stream."""
        key = jax.random.key(self.seed)
        key = jax.random.fold_in(key, self.changes) if self.changes else key
        return on_host((self._steps.init if self.mixed else self.mixture.scheduler.init)(key))

    def state_after(self, history: History) -> State:
        """The state of a scheduler after it gets the stored rewards of the present sources again.

        Rows of removed sources leave gaps in mixed batches, which later rows fill. So the scheduler always gets full
        batches, except for the last one.
        """
        told = self._told_again(history)
        state, size = self.first_state(), self.choices
        for begin in range(0, len(told.arms), size * _AT_ONCE):
            part = [_cut(told, first, size) for first in range(begin, len(told.arms), size)[:_AT_ONCE]]
            if not self.mixed:
                arrays = self._as_arrays(part, _AT_ONCE + 1)
                state, _, _ = self._step(state, *arrays, len(part), len(part))
                continue
            short = [part.pop()] if len(part[-1].arms) < size else []
            state, _, _ = self._choose_rows(state, part, [], np.zeros(len(self.sources.all), np.int64))
            state = self._told_apart(state, short)
        return state

    def choose(
        self,
        state: State,
        told: Sequence[tuple[Open, ArrayLike]],
        supposed: Sequence[tuple[Open, ArrayLike]],
        positions: NDArray[np.int64],
        draws: int,
    ) -> tuple[State, NDArray[np.int64], NDArray[np.float64]]:
        """The state after ``told``, the sources (choices,) chosen as if ``supposed`` had been told too, and the loss
        weights.

        ``draws`` is the number of draws before. Choices of removed sources are ignored.
        """
        if self.weights is not None and self.moves:
            state = with_proportions(state, self.weights.at(draws, self._proportions))
        real, others = ([one for one in map(self._present, draws) if len(one.arms)] for draws in (told, supposed))
        if not self.mixed:
            # Room for more draws than there usually are costs little where a row is short, and saves programs.
            room = _room(len(real) + len(others), least=64 if len(self.tasks) <= 64 else 8)
            rows, rewards = self._as_arrays([*real, *others], room + 1)
            rows[-1, 1:] = self._labels_at(positions)
            state, choice, chance = self._step(state, rows, rewards, len(real), len(real) + len(others))
        elif all(len(one.arms) == self.batch_size for one in (*real, *others)):
            state, choice, chance = self._choose_rows(state, real, others, positions)
        else:
            state = self._told_apart(state, real)
            _, choice, chance = self._choose_rows(self._told_apart(state, others), [], [], positions)
        arms = np.atleast_1d(np.asarray(choice))
        tasks, weights = self.tasks[arms], np.ones(len(arms))
        if self.loss_shares is not None:
            drawn = tasks != ABSTAINS
            weights[drawn] = self.loss_shares[arms[drawn]] / np.atleast_1d(np.asarray(chance, np.float64))[drawn]
        return state, tasks, weights

    def _choose_rows(
        self, state: State, real: Sequence[Told], others: Sequence[Told], positions: NDArray[np.int64]
    ) -> tuple[State, Any, Any]:
        """The mixed step. All batches are full."""
        batches = [*real, *others]
        room = _room(len(batches), least=8 if self.batch_size <= 4096 else 1)
        arms = np.zeros((room, self.batch_size), np.int32)
        rewards = np.zeros((room, self.batch_size), np.float32)
        for index, one in enumerate(batches):
            arms[index], rewards[index] = one.arms, one.rewards
        labels = table = None
        if self.labels is not None:
            labels = np.zeros((room, self.batch_size, len(self._sizes)), np.int32)
            if batches:
                labels[: len(batches)] = np.stack([one.labels for one in batches if one.labels is not None])
            table = Table(self.labels, self._sizes.astype(np.int32), (positions % self._sizes).astype(np.int32))
        return self._steps.step(state, arms, rewards, labels, len(real), len(batches), table)

    def _told_apart(self, state: State, batches: Sequence[Told]) -> State:
        """The state after batches of any length. Each length may need its own program."""
        for one in batches:
            state = self._steps.tell(state, *one)
        return state

    def _present(self, told: tuple[Open, ArrayLike]) -> Told:
        """What the present scheduler gets about a draw."""
        opened, rewards = told
        arms = self.arms[opened.tasks]
        there = arms >= 0
        labels = None if self.labels is None else opened.labels[there]
        return Told(arms[there], np.asarray(rewards, np.float32)[there], labels)

    def _told_again(self, history: History) -> Told:
        """All choices of the window for the present scheduler, in the order of telling."""
        places, tasks, heard = history.in_order()
        arms = self.arms[tasks]
        there = arms >= 0
        labels = None
        if self.labels is not None:
            before = history.drawn - history.count(history.asked)
            shown = [
                self._labels_before(self.positions(before + history.count(history.asked[:place])), one)
                for place, one in zip(places.tolist(), tasks, strict=True)
            ]
            labels = np.concatenate(shown)[there.ravel()] if shown else None
        return Told(arms[there], heard[there].astype(np.float32), labels)

    def _as_arrays(self, draws: Sequence[Told], room: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Draws of one source in the form that the compiled step takes: an arm and labels (room, 1 + N), and rewards
        (room,).
        """
        rows = np.zeros((room, len(self.tasks)), np.int32)
        rewards = np.zeros(room, np.float32)
        for index, one in enumerate(draws):
            rows[index, 0], rewards[index] = one.arms[0], one.rewards[0]
            if one.labels is not None:
                rows[index, 1:] = one.labels[0]
        return rows, rewards

    # Cursors: which rows a draw has

    def draw(self, number: int, opened: Open, chooser: str) -> Draw:
        """The draw that is handed out for an open draw."""
        drawn, each = opened.tasks >= 0, self.rows_of_choice
        tasks, weights = np.repeat(opened.tasks[drawn], each), np.repeat(opened.weights[drawn], each)
        places = (opened.begins[drawn, None] + np.arange(each)).ravel()
        return Draw(number, self._rows(tasks, places), tasks, weights, self.names, chooser, self.mixed)

    def _rows(self, tasks: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row numbers at these places of these sources, counted over all passes."""
        if len(tasks) and not self.mixed:
            return self._rows_of(int(tasks[0]), places)
        rows = np.empty(len(tasks), np.int64)
        for task, mine in grouped(tasks).items():
            rows[mine] = self._rows_of(task, places[mine])
        return rows

    def _rows_of(self, task: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row numbers at these places of one source. The places are sorted."""
        source = self.sources.all[task]
        if source.size is None:
            return places
        if not self.shuffle:
            return places % source.size
        begin = int(places[0])
        block = shuffled_rows(begin, int(places[-1]) - begin + 1, source.size, self.seed, source.name)
        return block if len(block) == len(places) else block[places - begin]

    def opened(self, positions: NDArray[np.int64], tasks: NDArray[np.int64], weights: NDArray[np.float64]) -> Open:
        """A draw of these sources, made when the cursors were at ``positions``."""
        before = positions[tasks] + self.rows_of_choice * _earlier(tasks, self.cursor)
        return Open(tasks, before, self._labels_before(positions, tasks), weights, positions)

    def positions(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many rows (sources,) the cursors have moved after this many choices of each source, counted over all
        passes.
        """
        moved = drawn[:-1] * self.rows_of_choice
        return np.full_like(moved, moved.sum()) if self.cursor == "global" else moved

    def _labels_before(self, positions: NDArray[np.int64], tasks: NDArray[np.int64]) -> NDArray[np.int32]:
        """Labels (choices, N) at the cursors before each choice or, if rows are drawn at random, before the draw."""
        if self.labels is None:
            return np.zeros((len(tasks), 0), np.int32)
        moves = np.zeros((len(tasks), len(positions)), np.int64)
        if self.mixed and self.mixture.scheduler.select_rows is None:
            drawn = tasks[:-1] >= 0
            if self.cursor == "global":
                moves[1:] = drawn[:, None]
            else:
                moves[1:][drawn, tasks[:-1][drawn]] = 1
        return np.stack([self._labels_at(one) for one in positions + moves.cumsum(0)])

    def _labels_at(self, positions: NDArray[np.int64]) -> NDArray[np.int32]:
        """Labels (active,) at the cursors, or zeros if the scheduler sees none."""
        if self.labels is None:
            return np.zeros(len(self.tasks) - 1, np.int32)
        labels: NDArray[np.int32] = labels_at(self.labels, starts_of(self._sizes), positions % self._sizes)
        return labels

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.array([one.size for one in self.sources.all], np.int64)


def set_up(
    scheduler: Scheduler | str, given: Given, batch_size: Any, options: Mapping[str, Any], **settings: Any
) -> Setup:
    """Check everything that a user gives to :class:`~metasched.Chooser`."""
    sources, temperature = sources_of(given), settings["temperature"]
    if isinstance(scheduler, str):
        scheduler = BEST if scheduler == AUTO else scheduler
        if scheduler == "softmax" and temperature is not None:  # it has its own temperature
            options, temperature = {**options, "temperature": temperature}, None
    elif not isinstance(scheduler, Scheduler):
        raise ConfigError(f"the scheduler is {scheduler!r}; give a name or a Scheduler")
    elif options:
        raise ConfigError(f"options {sorted(options)} need a scheduler given by name")
    name = scheduler if isinstance(scheduler, str) else "own"
    # Schedulers that look at the next label need rows in their own order; for the others a shuffled order is better.
    # Nobody knows whether a user's scheduler looks at labels: it is assumed to do so if there are any.
    labels = [task.labels for task in given.tasks] if isinstance(given, TaskSet) else settings["labels"]
    looks = needs_plan(name) or settings["labels"] is not None
    shuffle = settings["shuffle"]
    shuffle = (not looks and (name != "own" or labels is None)) if shuffle is None else flag("shuffle", shuffle)
    if shuffle and looks:
        raise ConfigError(
            f"'{name}' with labels looks at the next label, so rows must keep their order; give shuffle=False"
        )
    weights = None if settings["weights"] is None else stages_of(settings["weights"], settings["ramp"], sources)
    if flag("ramp", settings["ramp"]) and weights is None:
        raise ConfigError("a ramp needs stages of weights; give weights")
    wanted = settings["loss_weights"]
    size = whole_number("batch_size", batch_size, least=1, most=LARGEST_BATCH)
    batching = one_of("batching", settings["batching"], BATCHINGS)
    setup = Setup(
        scheduler=scheduler,
        options=options,
        sources=sources,
        batch_size=size,
        batching=batching if size > 1 else PER_SOURCE,  # a single row has one source
        seed=check_seed(settings["seed"]),
        shuffle=shuffle,
        cursor=one_of("cursor", settings["cursor"], CURSORS),
        abstain=flag("abstain", settings["abstain"]),
        min_share=number("min_share", settings["min_share"], least=0, most=1),
        temperature=None if temperature is None else number("temperature", temperature, above=0),
        prior=None if settings["prior"] is None else whole_number("prior", settings["prior"], least=0),
        weights=weights,
        loss_weights=None if wanted is None else numbers_by_name("loss_weights", wanted, sources),
        labels=None if labels is None or shuffle else labels_of(labels, sources),
        useful=given.useful if isinstance(given, TaskSet) else None,
    )
    setup.mixture  # noqa: B018 made now, so that settings that do not fit together are refused
    return setup


def _earlier(tasks: NDArray[np.int64], cursor: str) -> NDArray[np.int64]:
    """How many of the choices before each one moved its cursor."""
    if len(tasks) == 1:
        return np.zeros(1, np.int64)
    if cursor == "global":
        drawn = tasks >= 0
        return drawn.cumsum() - drawn
    order = np.argsort(tasks, kind="stable")
    same = tasks[order]
    rank = np.empty(len(tasks), np.int64)
    rank[order] = np.arange(len(tasks)) - np.searchsorted(same, same)
    return rank


def _cut(told: Told, first: int, size: int) -> Told:
    """The first choices, up to this number."""
    return Told(*(None if column is None else column[first : first + size] for column in told))  # type: ignore[arg-type]


def _room(draws: int, least: int = 8) -> int:
    """The smallest power of two that is large enough. With few sizes, few programs are compiled."""
    return 1 << (max(draws, least) - 1).bit_length()


def _plain(value: Any) -> Any:
    """A value as JSON stores it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
