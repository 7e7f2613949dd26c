"""Always the same task: the control that says what one source alone is worth."""

import jax
import jax.numpy as jnp

from metasched.schedulers import options
from metasched.schedulers.base import Scheduler


def single(num_tasks: int, task: int = 0) -> Scheduler:
    """Every batch comes from ``task``; the state only counts them."""
    always = options.whole("task", task, least=0, most=num_tasks - 1)

    def init(key: jax.Array) -> jax.Array:
        del key
        return jnp.zeros((), jnp.int32)

    def select(turn: jax.Array, heads: jax.Array) -> jax.Array:
        del turn, heads
        return jnp.full((), always, jnp.int32)

    def update(turn: jax.Array, task: jax.Array, reward: jax.Array) -> jax.Array:
        del task, reward
        return turn + 1

    return Scheduler(init, select, update)
