"""Schedulers made from schedulers: one with one more arm, "no source this time", and a choice among several."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from metasched.schedulers.base import Scheduler, State


def with_abstain(scheduler: Scheduler) -> Scheduler:
    """Let a scheduler of N + 1 arms choose among N tasks or, with arm N, none of them.

    ``make("ucb", num_tasks=N, abstain=True)`` is ``with_abstain(ucb(N + 1))``. It gets the labels at the cursors of the
    N tasks. The last arm has no rows and always shows label 0. ``task == N`` means that nothing is trained: no row is
    drawn, no cursor moves, and the model does not change. The arm gets a reward like any other. So a scheduler that
    learns avoids sources that hurt, and a static scheduler abstains when it is the arm's turn, whatever the rewards.

    Args:
        scheduler: a scheduler for N + 1 arms.

    Returns:
        The scheduler for N tasks, of the same family.

    Examples:
        >>> import jax
        >>> scheduler = ms.schedulers.with_abstain(ms.schedulers.single(3, task=2))
        >>> int(scheduler.select(scheduler.init(jax.random.key(0)), np.zeros(2, "int32")))  # of tasks 0 and 1: neither
        2
    """

    def padded(labels: jax.Array) -> jax.Array:
        return jnp.concatenate([labels, jnp.zeros((*labels.shape[:-1], 1), labels.dtype)], axis=-1)

    def select(state: State, labels: jax.Array) -> jax.Array:
        return scheduler.select(state, padded(labels))

    def update(state: State, labels: jax.Array, task: jax.Array, reward: jax.Array) -> State:
        return scheduler.update(state, padded(labels), task, reward)

    rows, told = scheduler.select_rows, scheduler.update_rows
    return scheduler._replace(
        select=select,
        update=update,
        select_rows=rows and (lambda state, labels, count: rows(state, padded(labels), count)),
        update_rows=told and (lambda state, labels, tasks, rewards: told(state, padded(labels), tasks, rewards)),
    )


class SwitchState(NamedTuple):
    """The number of the scheduler that decides, int32 (), and the states of all."""

    which: jax.Array
    states: tuple[Any, ...]


def switch(schedulers: Sequence[Scheduler], which: int = 0) -> Scheduler:
    """Choose one of several schedulers for the same tasks by its number.

    ``which`` is part of the state, so one compiled program can compare any number of schedulers, one run after another
    or side by side under ``vmap``. Only the scheduler that decides gets rewards.

    Args:
        schedulers: the schedulers.
        which: the number of the scheduler that decides, from 0.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> both = ms.schedulers.switch([ms.schedulers.cyclic(3), ms.schedulers.single(3, task=2)], which=1)
        >>> ms.Chooser(both, 3).ask().task
        2
    """

    def init(key: jax.Array) -> SwitchState:
        return SwitchState(jnp.int32(which), tuple(scheduler.init(key) for scheduler in schedulers))

    def select(state: SwitchState, labels: jax.Array) -> jax.Array:
        def choose(scheduler: Scheduler, own: State) -> Any:
            return lambda: jnp.asarray(scheduler.select(own, labels), jnp.int32)

        task: jax.Array = jax.lax.switch(state.which, list(map(choose, schedulers, state.states)))
        return task

    def update(state: SwitchState, labels: jax.Array, task: jax.Array, reward: jax.Array) -> SwitchState:
        def updated(number: int, scheduler: Scheduler, own: State) -> State:
            return jax.lax.cond(state.which == number, lambda: scheduler.update(own, labels, task, reward), lambda: own)

        states = map(updated, range(len(schedulers)), schedulers, state.states)
        return state._replace(states=tuple(states))

    return Scheduler(init, select, update)
