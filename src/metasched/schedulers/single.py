"""Always the same task: a control that shows what one source alone is worth."""

import jax.numpy as jnp

from metasched.errors import whole_number
from metasched.schedulers.base import Scheduler


def single(num_tasks: int, task: int = 0) -> Scheduler:
    """Take every batch from the same task.

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

    return Scheduler(
        init=lambda key: jnp.full((), always, jnp.int32),
        select=lambda task, labels: task,
        update=lambda state, labels, task, reward: state,
        family="control",
    )
