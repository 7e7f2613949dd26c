"""Always the same task: the control that says what one source alone is worth."""

import jax
import jax.numpy as jnp

from metasched.errors import whole_number
from metasched.schedulers.base import Scheduler


def single(num_tasks: int, task: int = 0) -> Scheduler:
    """Every batch comes from one task, whose index is the state.

    Args:
        num_tasks: N.
        task: its index.

    Returns:
        The scheduler, a control.

    Examples:
        >>> ms.Chooser(ms.schedulers.single(3, task=2), 3).ask().task
        2
    """
    always = whole_number("task", task, least=0, most=num_tasks - 1)

    def init(key: jax.Array) -> jax.Array:
        del key
        return jnp.full((), always, jnp.int32)

    def select(task: jax.Array, labels: jax.Array) -> jax.Array:
        del labels
        return task

    def update(state: jax.Array, labels: jax.Array, task: jax.Array, reward: jax.Array) -> jax.Array:
        del labels, task, reward
        return state

    return Scheduler(init, select, update, family="control")
