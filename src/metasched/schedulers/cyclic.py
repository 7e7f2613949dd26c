"""Round robin over the tasks."""

import jax
import jax.numpy as jnp

from metasched.schedulers.base import Scheduler


def cyclic(num_tasks: int) -> Scheduler:
    """One batch of each task in turn: batch t = 0, 1, … comes from task t mod N."""

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
