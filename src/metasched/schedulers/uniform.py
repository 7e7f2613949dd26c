"""Independent draws: every task is equally likely, every time."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metasched.errors import ConfigError, whole_number
from metasched.schedulers.base import Scheduler, key_of_draw


class UniformState(NamedTuple):
    """The key, as data that can be stored, and the number of batches drawn."""

    key: jax.Array
    turn: jax.Array


def uniform(num_tasks: int, tasks: Sequence[int] | None = None) -> Scheduler:
    """Draw each batch from a task that is chosen uniformly, with the t-th key of the stream for batch t.

    Args:
        num_tasks: N.
        tasks: the indices of the tasks to draw from; by default all.

    Returns:
        The scheduler, which is static.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.uniform(4, tasks=[1, 3]), 4)
        >>> sorted({chooser.ask().task for _ in range(20)})
        [1, 3]
    """
    given: Any = tasks
    if not isinstance(given, Sequence | None) or isinstance(given, str):
        raise ConfigError(f"tasks is {given!r}; give a list of indices")
    known = range(num_tasks) if tasks is None else tuple(tasks)
    if not known or len(set(known)) < len(known):
        raise ConfigError(f"tasks are {list(known)}; give one or more different indices")
    drawn = np.array([whole_number("tasks", task, least=0, most=num_tasks - 1) for task in known], np.int32)

    def init(key: jax.Array) -> UniformState:
        return UniformState(jax.random.key_data(key), jnp.int32(0))

    def select(state: UniformState, labels: jax.Array) -> jax.Array:
        return draw(state, ())

    def draw(state: UniformState, shape: tuple[int, ...]) -> jax.Array:
        key = key_of_draw(state.key, state.turn)
        return jnp.asarray(drawn)[jax.random.randint(key, shape, 0, len(drawn), jnp.int32)]

    def update(state: UniformState, labels: jax.Array, task: jax.Array, reward: jax.Array) -> UniformState:
        return state._replace(turn=state.turn + 1)

    return Scheduler(
        init,
        select,
        update,
        family="static",
        select_rows=lambda state, labels, count: draw(state, (count,)),
        update_rows=lambda state, labels, tasks, rewards: state._replace(turn=state.turn + 1),
    )
