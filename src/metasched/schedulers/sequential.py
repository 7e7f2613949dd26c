"""Task after task: all rows of the first, then all rows of the second."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metasched.errors import ConfigError, one_of
from metasched.schedulers.base import Scheduler

MOST = 1_000_000
"""Batches of a task in one turn."""


class SequentialState(NamedTuple):
    """The number of the next batch in a round through all tasks, int32 (), and the order of the tasks, int32 (N,)."""

    turn: jax.Array
    order: jax.Array


def sequential(
    num_tasks: int, passes: Sequence[int] | None = None, order: Literal["given", "random"] = "given"
) -> Scheduler:
    """Draw ``passes[i]`` batches of task i, then go on with the next task. After the last task, start again.

    Args:
        num_tasks: N.
        passes: the batches in one pass through each task (⌊n_i / B⌋). By default one for each task, as in
            :func:`~metasched.schedulers.cyclic`.
        order: whether tasks come in the given order, or in a random order from the seed. If the useful tasks come first
            in a file, a short run in the given order flatters this schedule.

    Returns:
        The scheduler, which is static.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.sequential(2, passes=[3, 1]), 2)
        >>> [chooser.ask().task for _ in range(6)]
        [0, 0, 0, 1, 0, 0]
    """
    given = np.ones(num_tasks, np.int32) if passes is None else np.asarray(passes)
    if given.dtype.kind not in "iu" or given.shape != (num_tasks,) or not 1 <= given.min() <= given.max() <= MOST:
        raise ConfigError(
            f"passes is {passes}; give one whole number from 1 to {MOST:,} for each of the {num_tasks} tasks"
        )
    counts = given.astype(np.int32)
    drawn = one_of("order", order, ("given", "random")) == "random"

    def init(key: jax.Array) -> SequentialState:
        tasks = jnp.arange(num_tasks, dtype=jnp.int32)
        return SequentialState(jnp.zeros((), jnp.int32), jax.random.permutation(key, tasks) if drawn else tasks)

    def select(state: SequentialState, labels: jax.Array) -> jax.Array:
        ends = jnp.cumsum(jnp.asarray(counts)[state.order])
        return state.order[jnp.searchsorted(ends, state.turn, side="right")]

    def update(state: SequentialState, labels: jax.Array, task: jax.Array, reward: jax.Array) -> SequentialState:
        return state._replace(turn=(state.turn + 1) % int(counts.sum()))

    return Scheduler(init, select, update, family="static")
