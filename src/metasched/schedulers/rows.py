"""A scheduler for mixed batches: it chooses the task of every row, and gets the reward of every row.

A scheduler that draws at random draws every row separately. A scheduler without randomness would give all rows of a
batch to the same task. So it chooses row by row, and the rows before count as open draws, as if each had already
brought the mean reward of its task. The learners and :class:`~metasched.Chooser` both use this, so they draw the same
rows.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from metasched.schedulers.base import Scheduler, State
from metasched.schedulers.combine import SwitchState


class Cursors(NamedTuple):
    """The cursors of the tasks, as any pytree of arrays, the labels (N,) there, and how a row of a task moves them."""

    position: Any
    labels_at: Callable[[Any], jax.Array]
    after: Callable[[Any, jax.Array], Any]


class RowScheduler(NamedTuple):
    """Decides from which of N tasks each row of the next batch comes.

    Attributes:
        init: ``init(key) -> state``.
        choose: ``choose(state, cursors, count) -> tasks (count,), labels (count, N)``: the task of every row, and the
            labels at the cursors before it.
        tell: ``tell(state, labels (B, N), tasks (B,), rewards (B,)) -> state``, once after every batch.
    """

    init: Callable[[jax.Array], State]
    choose: Callable[[State, Cursors, int], tuple[jax.Array, jax.Array]]
    tell: Callable[[State, jax.Array, jax.Array, jax.Array], State]


class RowState(NamedTuple):
    """The scheduler's state, and for each task the sum and the number (N,) of all its rewards."""

    inner: State
    total: jax.Array
    tells: jax.Array


def means_of(state: RowState) -> jax.Array:
    """The mean reward (N,) of each task. A task without rewards gets the mean over all."""
    overall = state.total.sum() / jnp.maximum(state.tells.sum(), 1)
    return jnp.where(state.tells > 0, state.total / jnp.maximum(state.tells, 1), overall)


def by_rows(scheduler: Scheduler, arms: int) -> RowScheduler:
    """A scheduler with this many arms, asked for the rows of mixed batches."""
    update_rows = scheduler.update_rows or _one_by_one(scheduler)
    if scheduler.select_rows is not None:
        at_random = scheduler.select_rows

        def draw(state: State, cursors: Cursors, count: int) -> tuple[jax.Array, jax.Array]:
            labels = cursors.labels_at(cursors.position)
            return at_random(state, labels, count), jnp.broadcast_to(labels, (count, *labels.shape))

        return RowScheduler(scheduler.init, draw, update_rows)

    def init(key: jax.Array) -> RowState:
        nothing = jnp.zeros(arms, jnp.float32)
        return RowState(scheduler.init(key), nothing, nothing)

    def choose(state: RowState, cursors: Cursors, count: int) -> tuple[jax.Array, jax.Array]:
        mean = means_of(state)

        def row(carry: tuple[State, Any], _: None) -> tuple[tuple[State, Any], tuple[jax.Array, jax.Array]]:
            inner, position = carry
            labels = cursors.labels_at(position)
            task = scheduler.select(inner, labels)
            supposed = scheduler.update(inner, labels, task, mean[task])
            return (supposed, cursors.after(position, task)), (task, labels)

        _, chosen = jax.lax.scan(row, (state.inner, cursors.position), None, length=count)
        return chosen

    def tell(state: RowState, labels: jax.Array, tasks: jax.Array, rewards: jax.Array) -> RowState:
        if scheduler.family != "active":  # it uses no rewards, and values that are not used are never computed
            return state._replace(inner=update_rows(state.inner, labels, tasks, rewards))
        return RowState(
            update_rows(state.inner, labels, tasks, rewards),
            state.total.at[tasks].add(rewards),
            state.tells.at[tasks].add(1),
        )

    return RowScheduler(init, choose, tell)


def switch_rows(schedulers: Sequence[RowScheduler], which: int = 0) -> RowScheduler:
    """The scheduler number ``which`` of several: :func:`metasched.schedulers.switch`, for mixed batches."""

    def init(key: jax.Array) -> SwitchState:
        return SwitchState(jnp.int32(which), tuple(scheduler.init(key) for scheduler in schedulers))

    def choose(state: SwitchState, cursors: Cursors, count: int) -> tuple[jax.Array, jax.Array]:
        def chosen(scheduler: RowScheduler, own: State) -> Any:
            def choose() -> tuple[jax.Array, jax.Array]:
                tasks, labels = scheduler.choose(own, cursors, count)
                return tasks.astype(jnp.int32), labels  # a user's own scheduler may count in another way

            return choose

        tasks, labels = jax.lax.switch(state.which, list(map(chosen, schedulers, state.states)))
        return tasks, labels

    def tell(state: SwitchState, labels: jax.Array, tasks: jax.Array, rewards: jax.Array) -> SwitchState:
        def told(number: int, scheduler: RowScheduler, own: State) -> State:
            return jax.lax.cond(state.which == number, lambda: scheduler.tell(own, labels, tasks, rewards), lambda: own)

        return state._replace(states=tuple(map(told, range(len(schedulers)), schedulers, state.states)))

    return RowScheduler(init, choose, tell)


def _one_by_one(scheduler: Scheduler) -> Callable[[State, jax.Array, jax.Array, jax.Array], State]:
    def update_rows(state: State, labels: jax.Array, tasks: jax.Array, rewards: jax.Array) -> State:
        def row(state: State, told: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[State, None]:
            return scheduler.update(state, *told), None

        return jax.lax.scan(row, state, (labels, tasks, rewards))[0]

    return update_rows
