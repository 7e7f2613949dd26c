"""What a chooser is set up with: sources, settings, and the scheduler made for them. No draw changes any of it.

When sources come or go, ``dataclasses.replace`` makes a new :class:`Setup`, and with it a new scheduler whose arms are
the sources that are left.

Fixed proportions stand alone or under a scheduler that learns. With proportions p and a share λ, a draw follows p with
probability λ and the scheduler otherwise: q = λ·p + (1 − λ)·s.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metasched.chooser.draws import ABSTAINS, Draw, History, Open
from metasched.chooser.permutation import shuffled_rows
from metasched.chooser.sources import Given, Source, Sources, labels_of, numbers_by_name, sources_of
from metasched.errors import ConfigError, flag, number, one_of, whole_number
from metasched.schedulers.base import Scheduler, State, key_of_draw
from metasched.schedulers.resolve import AUTO, BEST, TARGET_ONLY, build, needs_plan, plan_options, resolve
from metasched.seeds import check_seed
from metasched.tasks import TaskSet
from metasched.tasks.cursors import CURSORS, batch_rows, labels_at, positions_after, starts_of

LARGEST_BATCH = 2**24
"""Rows of one draw, whose numbers are handed out as an array."""
PRIOR = 10
"""Draws that proportions are worth under a scheduler that learns, by source, unless the user says otherwise."""
REDRAWS = 1024
"""How often a random scheduler is asked again, with other keys, to count how likely it was to choose each source."""
_APART = 0x6D697865
"""Folded into keys, so that the mixture's random numbers are independent of those of the scheduler in it."""
Step = Callable[..., tuple[State, jax.Array, jax.Array]]
_AT_ONCE = 512
_NO_LABELS = np.zeros(0, np.int32)


class MixtureState(NamedTuple):
    """Key data, draws told so far int32 (), and the state of the scheduler inside."""

    key: jax.Array
    turn: jax.Array
    inner: State


class Mixture(NamedTuple):
    """A scheduler and, where they are wanted, ``chances(state, labels) -> (arms,)`` of its next choice."""

    scheduler: Scheduler
    chances: Callable[[State, jax.Array], jax.Array] | None = None


@dataclass(frozen=True, eq=False)
class Setup:
    """The settings of :class:`~metasched.Chooser`, which says what each means, checked; and what follows from them.

    Attributes:
        sources: all, those that were removed included.
        labels: those of all rows, end to end, where the scheduler sees them.
        useful: names of the sources that are known to be useful, from a task set that says so.
        changes: how often the sources have changed.
    """

    scheduler: Scheduler | str
    options: Mapping[str, Any]
    sources: Sources
    batch_size: int
    seed: int
    shuffle: bool
    cursor: str
    abstain: bool
    min_share: float
    temperature: float | None
    prior: int | None
    weights: Mapping[str, float] | None
    loss_weights: Mapping[str, float] | None
    labels: NDArray[np.int32] | None
    useful: tuple[str, ...] | None
    changes: int = 0

    @property
    def name(self) -> str:
        """The scheduler's name; ``"own"`` for one that was given as an object."""
        return self.scheduler if isinstance(self.scheduler, str) else "own"

    def facts(self) -> dict[str, Any]:
        """The settings that a stored state must share, fit for JSON. Weights are not: they come and go with sources."""
        options = {key: value for key, value in self.options.items() if key != "plan"}
        plain = {key: _plain(value) for key, value in sorted(options.items())}
        others = ("batch_size", "abstain", "temperature", "min_share", "prior", "cursor", "shuffle")
        return {"scheduler": self.name, "options": plain, **{name: getattr(self, name) for name in others}}

    def with_weight(self, name: str, weight: float) -> "Setup":
        """The same with a weight for one more source, where there are weights."""
        weights, loss_weights = (given and {**given, name: weight} for given in (self.weights, self.loss_weights))
        return replace(self, weights=weights, loss_weights=loss_weights)

    def with_sources(self, sources: Sources) -> "Setup":
        """The same for other sources; refused where the scheduler cannot be made again for them."""
        if self.name == "own" or needs_plan(self.name):
            raise ConfigError(f"'{self.name}' is made for its sources and no others; give another scheduler, by name")
        return replace(self, sources=sources, labels=None, changes=self.changes + 1)

    # Arms: what a scheduler chooses among

    @cached_property
    def tasks(self) -> tuple[int, ...]:
        """The source of each arm; the arm behind them stands for no source."""
        return (*self.sources.active, ABSTAINS)

    @cached_property
    def arms(self) -> dict[int, int]:
        """The arm of each source that can be drawn."""
        return {task: arm for arm, task in enumerate(self.tasks)}

    @cached_property
    def mixture(self) -> Mixture:
        """The scheduler over the active sources, with fixed proportions mixed in where the settings ask for them."""
        active = [self.sources.all[task] for task in self.sources.active]
        scheduler, steady = self._scheduler(active), self.name == "uniform"
        fixed = self.weights is not None or self.temperature is not None
        if not fixed and not self.min_share and self.prior is None and self.loss_weights is None:
            return Mixture(scheduler)
        if not steady and scheduler.family != "active":
            raise ConfigError(
                f"'{self.name}' has an order of its own; weights and shares are for 'uniform' or a learner"
            )
        if self.name == "exp3" and (fixed or self.prior is not None):
            raise ConfigError("'exp3' must know the chance of every draw; of these settings it takes min_share alone")
        if self.loss_weights is not None and not steady and not self.min_share:
            raise ConfigError("loss_weights need a known chance for every source; give a min_share above 0")
        weights = None if self.weights is None else [self.weights.get(one.name, 1.0) for one in active]
        abstains = self.abstain or self.name == TARGET_ONLY
        shares = np.append(_proportions(active, weights, self.temperature), [0.0] * abstains)
        least = 1.0 if steady else 0.0 if self.name == "exp3" else self._floor(active)  # exp3 explores by itself
        prior = PRIOR * len(active) * fixed if self.prior is None else self.prior
        mixture = _mixed(scheduler, shares, least, prior)
        # Chances cost many redraws: they are computed only where a loss weight needs them.
        return mixture if self.loss_shares is not None else Mixture(mixture.scheduler)

    @cached_property
    def loss_shares(self) -> NDArray[np.float64] | None:
        """The mixture w (active,) whose loss is wanted, adding up to 1; None where no loss is weighted."""
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
            raise ConfigError(f"'{self.name}' takes a plan that is made already: give {', '.join(asked)} to ms.plan")
        if self.name == "single" and "task" in options:
            options["task"] = self.sources.active_name(options["task"])
        if self.name == "uniform" and options.get("tasks") is not None:
            if self.weights is not None or self.temperature is not None:
                raise ConfigError("'uniform' takes tasks or weights, not both; give the others weight 0")
            given = options["tasks"]
            given = [given] if isinstance(given, str | int) else given
            options["tasks"] = [self.sources.active_name(task) for task in given]
        if self.name == "exp3" and self.min_share:
            options = {"explore": self._floor(active), **options}
        spec = resolve(self.name, options, [one.name for one in active], useful=self.useful)
        sizes, plan = [one.size for one in active], self.options.get("plan")
        return build(spec, sizes, batch_size=self.batch_size, abstain=self.abstain, plan=plan)

    def _floor(self, active: Sequence[Source]) -> float:
        """The share of draws that gives each of N sources ``min_share``, where they have equal weights."""
        if self.min_share * len(active) > 1 + 1e-9:
            raise ConfigError(
                f"min_share is {self.min_share:g}; {len(active)} sources have at most {1 / len(active):g}"
            )
        return min(1.0, self.min_share * len(active))

    # The scheduler's state

    @cached_property
    def _step(self) -> Step:
        return _compiled(self.mixture)

    def first_state(self) -> State:
        """The scheduler's state before any reward. Every change of the sources starts a random stream of its own."""
        key = jax.random.key(self.seed)
        key = jax.random.fold_in(key, self.changes) if self.changes else key
        return on_host(self.mixture.scheduler.init(key))

    def state_after(self, history: History) -> State:
        """The state of a scheduler that gets again all rewards of the sources that there are."""
        asked, told, clipped = history.asked, history.told, history.clipped
        there = np.isin(asked[told], self.tasks)
        draws = [
            (self._remembered(asked, draw), reward)
            for draw, reward in zip(told[there].tolist(), clipped[there].tolist(), strict=True)
        ]
        state = self.first_state()
        for begin in range(0, len(draws), _AT_ONCE):
            part = draws[begin : begin + _AT_ONCE]
            state, _, _ = self._step(state, *self._as_arrays(part, _AT_ONCE + 1), len(part), len(part))
        return state

    def choose(
        self, state: State, told: Iterable[tuple[Open, float]], supposed: Iterable[tuple[Open, float]], labels: Any
    ) -> tuple[State, int, float]:
        """The state after ``told``, and the source chosen as if ``supposed`` had been told too, with its loss weight.

        Draws from sources that have left since mean nothing to the present scheduler and are passed over.
        """
        real = [one for one in told if one[0].task in self.arms]
        draws = [*real, *(one for one in supposed if one[0].task in self.arms)]
        # Powers of two, at least 8: few sizes, so that few programs are compiled.
        room = 1 << max(len(draws) - 1, 7).bit_length()
        rows, rewards = self._as_arrays(draws, room + 1)
        rows[-1, 1:] = labels
        state, choice, chance = self._step(state, rows, rewards, len(real), len(draws))
        arm, shares = int(choice), self.loss_shares
        weighted = shares is not None and self.tasks[arm] != ABSTAINS
        return state, self.tasks[arm], float(shares[arm]) / float(chance) if weighted else 1.0  # type: ignore[index]

    def _as_arrays(
        self, draws: Sequence[tuple[Open, float]], room: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Draws as the compiled step takes them: an arm and labels (room, 1 + N), and rewards (room,)."""
        rows = np.zeros((room, len(self.tasks)), np.int32)
        rewards = np.zeros(room, np.float32)
        for index, (draw, reward) in enumerate(draws):
            rows[index, 0], rewards[index] = self.arms[draw.task], reward
            if self.labels is not None:
                rows[index, 1:] = draw.labels
        return rows, rewards

    # Cursors: which rows a draw has

    def draw(self, number: int, opened: Open, chooser: str) -> Draw:
        """An open draw as it is handed out."""
        if opened.task == ABSTAINS:
            return Draw(number, len(self.sources.all), np.empty(0, np.int64), chooser)
        source = self.sources.all[opened.task]
        if source.size is None:
            rows = opened.begin + np.arange(self.batch_size)
        elif self.shuffle:
            rows = shuffled_rows(opened.begin, self.batch_size, source.size, self.seed, source.name)
        else:
            rows = batch_rows(np.int64(opened.begin), source.size, self.batch_size)
        return Draw(number, opened.task, rows, chooser, source.name, opened.weight)

    def opened(self, asked: NDArray[np.int64], number: int, weight: float) -> Open:
        """A draw as it was when it was made, from those asked before it."""
        positions, task = self.positions_after(asked[:number]), int(asked[number])
        return Open(task, int(positions[task]), self.labels_at(positions), weight)

    def _remembered(self, asked: NDArray[np.int64], number: int) -> Open:
        """What the scheduler needs of a draw. Where it sees no labels that is the source, which takes no counting."""
        return Open(int(asked[number]), 0, _NO_LABELS, 1.0) if self.labels is None else self.opened(asked, number, 1.0)

    def positions_after(self, asked: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows (sources,) by which the cursors have moved, counted over all passes."""
        return positions_after(asked, len(self.sources.all), self.batch_size, self.cursor)

    def moved(self, positions: NDArray[np.int64], task: int) -> NDArray[np.int64]:
        """Positions after one more draw. This is :func:`positions_after`, step by step."""
        if task == ABSTAINS:
            return positions
        if self.cursor == "global":
            return positions + self.batch_size
        positions = positions.copy()
        positions[task] += self.batch_size
        return positions

    def labels_at(self, positions: NDArray[np.int64]) -> NDArray[np.int32]:
        """Labels (active,) at the cursors; zeros where the scheduler sees none."""
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
    """Everything that a user gives to :class:`~metasched.Chooser`, checked."""
    sources, temperature = sources_of(given), settings["temperature"]
    if isinstance(scheduler, str):
        scheduler = BEST if scheduler == AUTO else scheduler
        if scheduler == "softmax" and temperature is not None:  # it has a temperature of its own
            options, temperature = {**options, "temperature": temperature}, None
    elif not isinstance(scheduler, Scheduler):
        raise ConfigError(f"the scheduler is {scheduler!r}; give a name or a Scheduler")
    elif options:
        raise ConfigError(f"options {sorted(options)} need a scheduler given by name")
    name = scheduler if isinstance(scheduler, str) else "own"
    # Schedulers that look at the label that comes next need rows in their own order; the others do better shuffled.
    # Whether your own scheduler looks at labels nobody knows: it is taken to do so where there are any.
    labels = [task.labels for task in given.tasks] if isinstance(given, TaskSet) else settings["labels"]
    looks = needs_plan(name) or settings["labels"] is not None
    shuffle = settings["shuffle"]
    shuffle = (not looks and (name != "own" or labels is None)) if shuffle is None else flag("shuffle", shuffle)
    if shuffle and looks:
        raise ConfigError(f"'{name}' with labels looks at what comes next; give shuffle=False")
    weights, loss_weights = (
        None if settings[key] is None else numbers_by_name(key, settings[key], sources)
        for key in ("weights", "loss_weights")
    )
    setup = Setup(
        scheduler=scheduler,
        options=options,
        sources=sources,
        batch_size=whole_number("batch_size", batch_size, least=1, most=LARGEST_BATCH),
        seed=check_seed(settings["seed"]),
        shuffle=shuffle,
        cursor=one_of("cursor", settings["cursor"], CURSORS),
        abstain=flag("abstain", settings["abstain"]),
        min_share=number("min_share", settings["min_share"], least=0, most=1),
        temperature=None if temperature is None else number("temperature", temperature, above=0),
        prior=None if settings["prior"] is None else whole_number("prior", settings["prior"], least=0),
        weights=weights,
        loss_weights=loss_weights,
        labels=None if labels is None or shuffle else labels_of(labels, sources),
        useful=given.useful if isinstance(given, TaskSet) else None,
    )
    setup.mixture  # noqa: B018 made now, so that settings that do not go together are refused now
    return setup


def _proportions(
    sources: Sequence[Source], weights: Sequence[float] | None, temperature: float | None
) -> NDArray[np.float64]:
    """p_i ∝ w_i^(1/T); w are the weights or, where only a temperature is given, the sizes; with neither, all equal."""
    if weights is None and temperature is None:
        return np.full(len(sources), 1 / len(sources))
    if weights is None:
        streams = [source.name for source in sources if source.size is None]
        if streams:
            raise ConfigError(f"source '{streams[0]}' has no size for temperature to act on; give weights")
        weights = [float(source.size or 0) for source in sources]
    given = np.array(weights, np.float64)
    if given.max() == 0:
        raise ConfigError("the weights are all 0; give at least one source some weight")
    given = (given / given.max()) ** (1 / (temperature or 1.0))
    shares: NDArray[np.float64] = given / given.sum()
    return shares


def _mixed(scheduler: Scheduler, shares: NDArray[np.float64], least: float, prior: float) -> Mixture:
    """``scheduler``, but a share λ_t = max(least, prior / (prior + t)) of the draws follows ``shares`` (arms,).

    ``prior`` is how many draws the proportions are worth: after so many, half of the draws are the scheduler's. It is
    told every reward, whoever chose.
    """
    chosen = np.log(np.maximum(shares, 1e-300)).astype(np.float32)
    exact = np.asarray(shares, np.float32)

    def share(turn: jax.Array) -> jax.Array:
        return jnp.maximum(least, prior / (prior + turn)) if prior > 0 else jnp.float32(least)

    def init(key: jax.Array) -> MixtureState:
        return MixtureState(jax.random.key_data(jax.random.fold_in(key, _APART)), jnp.int32(0), scheduler.init(key))

    def select(state: MixtureState, labels: jax.Array) -> jax.Array:
        whether, which = jax.random.split(key_of_draw(state.key, state.turn))
        by_share = jax.random.categorical(which, jnp.asarray(chosen)).astype(jnp.int32)
        follows = jax.random.uniform(whether) < share(state.turn)
        return jnp.where(follows, by_share, scheduler.select(state.inner, labels))

    def update(state: MixtureState, labels: jax.Array, task: jax.Array, reward: jax.Array) -> MixtureState:
        return MixtureState(state.key, state.turn + 1, scheduler.update(state.inner, labels, task, reward))

    def chances(state: MixtureState, labels: jax.Array) -> jax.Array:
        part = share(state.turn)
        return part * jnp.asarray(exact) + (1 - part) * _chances_alone(scheduler, state.inner, labels, len(exact))

    return Mixture(Scheduler(init, select, update, scheduler.family), chances)


def _chances_alone(scheduler: Scheduler, state: Any, labels: jax.Array, arms: int) -> jax.Array:
    """How likely each arm is: counted over other keys, or certain where the state has no ``key`` to draw with."""
    if "key" not in getattr(state, "_fields", ()):
        return jax.nn.one_hot(scheduler.select(state, labels), arms)
    other = jax.random.fold_in(key_of_draw(state.key, getattr(state, "turn", jnp.int32(0))), _APART)
    keys = jax.vmap(jax.random.key_data)(jax.random.split(other, REDRAWS))
    redrawn = jax.vmap(lambda key: scheduler.select(state._replace(key=key), labels))(keys)
    return jnp.bincount(redrawn, length=arms) / REDRAWS


@lru_cache(maxsize=64)
def _compiled(mixture: Mixture) -> Step:
    """``step(state, draws, rewards, told, total) -> (state, choice, its chance)``, in one dispatch.

    The first ``told`` draws are real updates, those up to ``total`` supposed ones on a copy, where the choice is made.
    A row of ``draws`` is an arm and the labels of its draw, the last row the labels now. That is one array and not
    three, because handing over each costs as much as the arithmetic. The chance is 1 where nobody asks for it.
    """
    scheduler, chances = mixture

    @jax.jit
    def step(
        state: State, draws: jax.Array, rewards: jax.Array, told: int, total: int
    ) -> tuple[State, jax.Array, jax.Array]:
        def add(index: int, state: State) -> State:
            return scheduler.update(state, draws[index, 1:], draws[index, 0], rewards[index])

        state = jax.lax.fori_loop(0, told, add, state)
        supposed, labels = jax.lax.fori_loop(told, total, add, state), draws[-1, 1:]
        choice = scheduler.select(supposed, labels)
        return state, choice, jnp.float32(1) if chances is None else chances(supposed, labels)[choice]

    return step


def named(state: State) -> dict[str, NDArray[Any]]:
    """The arrays of a scheduler's state by name."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {"scheduler" + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def on_host(state: State) -> State:
    """The state in the host's memory: one choice is too little work for an accelerator, and waits for it."""
    return jax.device_put(state, jax.local_devices(backend="cpu")[0])


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
