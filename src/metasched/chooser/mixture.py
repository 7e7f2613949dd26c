"""The scheduler of a chooser: fixed proportions mixed in if requested, and the compiled step that asks it.

Fixed proportions are used alone or together with a scheduler that learns. With proportions p and a share λ, a choice
follows p with probability λ and the scheduler otherwise: q = λ·p + (1 − λ)·s.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metasched.schedulers.base import Scheduler, State, key_of_draw
from metasched.schedulers.rows import Cursors, RowState, by_rows, means_of
from metasched.tasks.cursors import advance, labels_at, starts_of

REDRAWS = 1024
"""How often a random scheduler is asked again, with other keys, to estimate the probability of each source."""
_APART = 0x6D697865
"""Folded into keys, so that the random numbers of the mixture are independent of those of its scheduler."""
_LEAST = 1e-37
"""Replaces a proportion of 0, which has no logarithm. It is never drawn."""
Step = Callable[..., tuple[State, jax.Array, jax.Array]]


class MixtureState(NamedTuple):
    """Key data, the number of choices told so far int32 (), and the state of the inner scheduler."""

    key: jax.Array
    turn: jax.Array
    inner: State


class MovingState(NamedTuple):
    """The same if the fixed proportions float32 (arms,) change during a run."""

    key: jax.Array
    turn: jax.Array
    inner: State
    proportions: jax.Array


class Mixture(NamedTuple):
    """A scheduler and, if requested, the probabilities of its choices.

    Attributes:
        scheduler: the scheduler that chooses.
        chances: ``chances(state, labels) -> (arms,)`` of its next choice.
        row_chances: ``row_chances(state, labels (B, N), chosen (B,)) -> (B,)`` of the rows of a mixed batch, where the
            state is that of the scheduler by rows.
    """

    scheduler: Scheduler
    chances: Callable[[State, jax.Array], jax.Array] | None = None
    row_chances: Callable[[Any, jax.Array, jax.Array], jax.Array] | None = None


def mixed_with(
    scheduler: Scheduler, shares: NDArray[np.float64], least: float, prior: float, moves: bool = False
) -> Mixture:
    """``scheduler``, but a share λ_t = max(least, prior / (prior + t)) of the choices follows ``shares`` (arms,).

    ``prior`` is how many rewards the proportions are worth: after that many, the scheduler makes half of the choices.
    It gets every reward, including those of rows that it did not choose. In a mixed batch every row is a choice. If the
    proportions change, they are part of the state (:func:`with_proportions`), so that new ones need no new program.
    """
    chosen, exact = np.log(np.maximum(shares, 1e-300)).astype(np.float32), np.asarray(shares, np.float32)

    def proportions(state: Any) -> jax.Array:
        return state.proportions if moves else jnp.asarray(exact)

    def logarithms(state: Any) -> jax.Array:
        return jnp.log(jnp.maximum(state.proportions, _LEAST)) if moves else jnp.asarray(chosen)

    def share(turn: jax.Array) -> jax.Array:
        return (
            jnp.maximum(least, prior / (prior + turn)) if prior > 0 else jnp.full(jnp.shape(turn), least, jnp.float32)
        )

    def init(key: jax.Array) -> Any:
        parts = jax.random.key_data(jax.random.fold_in(key, _APART)), jnp.int32(0), scheduler.init(key)
        return MovingState(*parts, jnp.asarray(exact)) if moves else MixtureState(*parts)

    def proportional(state: Any, turns: jax.Array) -> tuple[jax.Array, jax.Array]:
        """What the proportions choose on these turns, and whether this choice is followed."""
        whether, which = jax.random.split(key_of_draw(state.key, state.turn))
        by_share = jax.random.categorical(which, logarithms(state), shape=jnp.shape(turns)).astype(jnp.int32)
        return by_share, jax.random.uniform(whether, jnp.shape(turns)) < share(turns)

    def select(state: Any, labels: jax.Array) -> jax.Array:
        by_share, follows = proportional(state, state.turn)
        return jnp.where(follows, by_share, scheduler.select(state.inner, labels))

    def update(state: Any, labels: jax.Array, task: jax.Array, reward: jax.Array) -> Any:
        return state._replace(turn=state.turn + 1, inner=scheduler.update(state.inner, labels, task, reward))

    def chances(state: Any, labels: jax.Array) -> jax.Array:
        part = share(state.turn)
        return part * proportions(state) + (1 - part) * _chances_alone(scheduler, state.inner, labels, len(exact))

    at_random, told = scheduler.select_rows, scheduler.update_rows

    def select_rows(state: Any, labels: jax.Array, count: int) -> jax.Array:
        by_share, follows = proportional(state, state.turn + jnp.arange(count))
        return jnp.where(follows, by_share, at_random(state.inner, labels, count))  # type: ignore[misc]

    def update_rows(state: Any, labels: jax.Array, tasks: jax.Array, rewards: jax.Array) -> Any:
        inner = told(state.inner, labels, tasks, rewards)  # type: ignore[misc]
        return state._replace(turn=state.turn + len(tasks), inner=inner)

    def chances_at_random(state: Any, labels: jax.Array, tasks: jax.Array) -> jax.Array:
        """The expected share of each row's source in the batch. It gives the batch the loss of the mixture."""
        count = len(tasks)
        part = share(state.turn + jnp.arange(count))
        redrawn = _redrawn(lambda inner: at_random(inner, labels[0], count), state.inner, max(8, REDRAWS // count))  # type: ignore[misc]
        own = jnp.zeros(len(exact)).at[redrawn].add(jnp.broadcast_to(1 - part, redrawn.shape)) / redrawn.size
        return (part.mean() * proportions(state) + own)[tasks]

    def chances_one_by_one(state: RowState, labels: jax.Array, tasks: jax.Array) -> jax.Array:
        """The probability of each row's source, given the rows before it."""
        mean = means_of(state)

        def row(inner: Any, one: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
            return update(inner, *one, mean[one[1]]), chances(inner, one[0])[one[1]]

        chance: jax.Array = jax.lax.scan(row, state.inner, (labels, tasks))[1]
        return chance

    return Mixture(
        Scheduler(
            init,
            select,
            update,
            scheduler.family,
            select_rows=at_random and select_rows,
            update_rows=told and update_rows,
        ),
        chances,
        chances_one_by_one if at_random is None else chances_at_random,
    )


def _chances_alone(scheduler: Scheduler, state: Any, labels: jax.Array, arms: int) -> jax.Array:
    """The probability of each arm: estimated with other keys, or certain if the state has no ``key`` to draw with."""
    if "key" not in getattr(state, "_fields", ()):
        return jax.nn.one_hot(scheduler.select(state, labels), arms)
    redrawn = _redrawn(lambda other: scheduler.select(other, labels), state, REDRAWS)
    return jnp.bincount(redrawn, length=arms) / REDRAWS


def _redrawn(select: Callable[[Any], jax.Array], state: Any, times: int) -> jax.Array:
    """What would be chosen with other keys."""
    other = jax.random.fold_in(key_of_draw(state.key, getattr(state, "turn", jnp.int32(0))), _APART)
    keys = jax.vmap(jax.random.key_data)(jax.random.split(other, times))
    return jax.vmap(lambda key: select(state._replace(key=key)))(keys)


@lru_cache(maxsize=64)
def one_source_step(mixture: Mixture) -> Step:
    """``step(state, draws, rewards, told, total) -> (state, choice, its chance)``, in one dispatch.

    The first ``told`` draws are real updates. Those up to ``total`` only update a copy, on which the choice is made. A
    row of ``draws`` is an arm and the labels of its draw, and the last row has the present labels. This is one array
    and not three, because passing each array costs as much as the arithmetic. The probability is 1 unless it is needed.
    """
    scheduler, chances = mixture.scheduler, mixture.chances

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


class Table(NamedTuple):
    """The labels of all rows end to end, the size (N,) of each source, and its cursor (N,), all int32."""

    labels: Any
    sizes: Any
    cursors: Any


class RowSteps(NamedTuple):
    """A scheduler by rows, compiled.

    Attributes:
        init: ``init(key) -> state``.
        step: ``step(state, arms (D, B), rewards (D, B), labels (D, B, N) or None, told, total, table or None)`` returns
            the state, the arms chosen (B,) and their chances (B,), in one dispatch. As in :func:`one_source_step` the
            first ``told`` of D batches are real, and those up to ``total`` supposed.
        tell: ``tell(state, arms (R,), rewards (R,), labels (R, N) or None) -> state`` for a batch of any length.
    """

    init: Callable[[jax.Array], State]
    step: Step
    tell: Callable[..., State]


@lru_cache(maxsize=64)
def mixed_steps(mixture: Mixture, sources: int, batch_size: int, cursor: str) -> RowSteps:
    """The steps for mixed batches. If the scheduler sees no labels, they are None, and the scheduler gets zeros."""
    rows = by_rows(mixture.scheduler, sources + 1)  # one more for no source

    def tell(state: State, tasks: jax.Array, rewards: jax.Array, labels: jax.Array | None) -> State:
        shown = jnp.zeros((len(tasks), sources), jnp.int32) if labels is None else labels
        return rows.tell(state, shown, tasks, rewards)

    def step(
        state: State, tasks: jax.Array, rewards: jax.Array, labels: jax.Array | None, told: int, total: int, table: Any
    ) -> tuple[State, jax.Array, jax.Array]:
        def add(index: int, state: State) -> State:
            return tell(state, tasks[index], rewards[index], None if labels is None else labels[index])

        state = jax.lax.fori_loop(0, told, add, state)
        supposed = jax.lax.fori_loop(told, total, add, state)
        chosen, seen = rows.choose(supposed, _cursors(table, sources, cursor), batch_size)
        if mixture.row_chances is None:
            return state, chosen, jnp.ones(())
        return state, chosen, mixture.row_chances(supposed, seen, chosen)

    return RowSteps(rows.init, jax.jit(step), jax.jit(tell))


def _cursors(table: Table | None, sources: int, cursor: str) -> Cursors:
    if table is None:
        return Cursors(jnp.zeros(()), lambda _: jnp.zeros(sources, jnp.int32), lambda place, _: place)
    starts = starts_of(table.sizes)
    return Cursors(
        table.cursors,
        lambda cursors: labels_at(table.labels, starts, cursors),
        lambda cursors, task: advance(cursors, table.sizes, task, 1, cursor),
    )


def with_proportions(state: State, shares: NDArray[np.float64]) -> State:
    """The state of a mixture whose proportions change, with these proportions (arms,) from now on."""
    if isinstance(state, RowState):
        return state._replace(inner=with_proportions(state.inner, shares))
    return state._replace(proportions=shares.astype(np.float32))


def with_other_keys(state: State, number: int) -> State:
    """The same state with other future random numbers.

    A scheduler takes the key of a draw from the number of rewards so far. So a draw without a reward would be followed
    by the very same draw.
    """
    if not hasattr(state, "_fields"):
        return state
    parts = {name: with_other_keys(getattr(state, name), number) for name in state._fields}
    if "key" in parts:
        key = jax.random.fold_in(jax.random.wrap_key_data(jnp.asarray(state.key)), number)
        parts["key"] = on_host(jax.random.key_data(key))
    return state._replace(**parts)


def named(state: State) -> dict[str, NDArray[Any]]:
    """The arrays of a scheduler's state by name."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {"scheduler" + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def on_host(state: State) -> State:
    """Move the state to the host's memory. One choice is too little work for an accelerator, which would only wait for
    it.
    """
    return jax.device_put(state, jax.local_devices(backend="cpu")[0])
