"""Task after task: all rows of the first, then all rows of the second."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from metasched.errors import ConfigError
from metasched.schedulers.base import Scheduler


def sequential(num_tasks: int, passes: Sequence[int] | None = None) -> Scheduler:
    """``passes[i]`` batches of task i before task i + 1 has its turn; after the last task the first again.

    ``passes`` is the number of batches in one pass through each task (⌊n_i / B⌋); without it every task has one, which
    is :func:`~metasched.schedulers.cyclic`.
    """
    counts = np.ones(num_tasks, np.int32) if passes is None else np.asarray(passes, np.int32)
    if counts.shape != (num_tasks,) or counts.min() < 1:
        raise ConfigError(f"passes is {passes}; give one whole number ≥ 1 for each of the {num_tasks} tasks")
    ends = np.cumsum(counts, dtype=np.int32)

    def init(key: jax.Array) -> jax.Array:
        del key
        return jnp.zeros((), jnp.int32)

    def select(turn: jax.Array, labels: jax.Array) -> jax.Array:
        del labels
        return jnp.searchsorted(jnp.asarray(ends), turn, side="right").astype(jnp.int32)

    def update(turn: jax.Array, labels: jax.Array, task: jax.Array, reward: jax.Array) -> jax.Array:
        del labels, task, reward
        return (turn + 1) % int(ends[-1])

    return Scheduler(init, select, update, family="static")
