"""Round robin over the tasks."""

import jax
import jax.numpy as jnp

from metasched.schedulers.base import Scheduler


def cyclic(num_tasks: int) -> Scheduler:
    """One batch of each task in turn: batch t = 0, 1, … comes from task t mod N.

    Args:
        num_tasks: N.

    Returns:
        The scheduler, which is static.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.cyclic(3), 3)
        >>> [chooser.ask().task for _ in range(5)]
        [0, 1, 2, 0, 1]
    """

    def init(key: jax.Array) -> jax.Array:
        del key
        return jnp.zeros((), jnp.int32)

    def select(turn: jax.Array, labels: jax.Array) -> jax.Array:
        del labels
        return turn

    def update(turn: jax.Array, labels: jax.Array, task: jax.Array, reward: jax.Array) -> jax.Array:
        del labels, task, reward
        return (turn + 1) % num_tasks

    return Scheduler(init, select, update, family="static")
