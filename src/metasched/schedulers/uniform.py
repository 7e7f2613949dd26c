"""Independent draws: every task equally likely, every time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from metasched.schedulers.base import Scheduler, key_of_draw


class UniformState(NamedTuple):
    """The key, as data that can be stored, and how many batches were drawn."""

    key: jax.Array
    turn: jax.Array


def uniform(num_tasks: int) -> Scheduler:
    """Batch t comes from a task drawn uniformly with the t-th key of the stream."""

    def init(key: jax.Array) -> UniformState:
        return UniformState(jax.random.key_data(key), jnp.int32(0))

    def select(state: UniformState, labels: jax.Array) -> jax.Array:
        del labels
        return jax.random.randint(key_of_draw(state.key, state.turn), (), 0, num_tasks, jnp.int32)

    def update(state: UniformState, labels: jax.Array, task: jax.Array, reward: jax.Array) -> UniformState:
        del labels, task, reward
        return state._replace(turn=state.turn + 1)

    return Scheduler(init, select, update, family="static")
