"""One of several schedulers, decided when the program runs and not when it is compiled."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from metasched.schedulers.base import Scheduler


class EitherState(NamedTuple):
    """Which scheduler decides, int32 (), and the states of all."""

    which: jax.Array
    states: tuple[Any, ...]


def switch(schedulers: Sequence[Scheduler], which: int = 0) -> Scheduler:
    """The scheduler number ``which`` of several for the same tasks.

    ``which`` is part of the state: one compiled program compares any number of schedulers, one run after another or
    side by side under ``vmap``. Only the one that decides is told rewards.

    Args:
        schedulers: the several.
        which: the number of the one that decides, from 0.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> both = ms.schedulers.switch([ms.schedulers.cyclic(3), ms.schedulers.single(3, task=2)], which=1)
        >>> ms.Chooser(both, 3).ask().task
        2
    """

    def init(key: jax.Array) -> EitherState:
        return EitherState(jnp.int32(which), tuple(scheduler.init(key) for scheduler in schedulers))

    def select(state: EitherState, labels: jax.Array) -> jax.Array:
        def of(number: int) -> Any:
            return lambda: jnp.asarray(schedulers[number].select(state.states[number], labels), jnp.int32)

        task: jax.Array = jax.lax.switch(state.which, [of(number) for number in range(len(schedulers))])
        return task

    def update(state: EitherState, labels: jax.Array, task: jax.Array, reward: jax.Array) -> EitherState:
        def told(number: int) -> Any:
            mine, scheduler = state.states[number], schedulers[number]
            return jax.lax.cond(
                state.which == number, lambda: scheduler.update(mine, labels, task, reward), lambda: mine
            )

        return state._replace(states=tuple(told(number) for number in range(len(schedulers))))

    return Scheduler(init, select, update)
