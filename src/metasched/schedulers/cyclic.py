"""Round robin over the tasks."""

import jax.numpy as jnp

from metasched.schedulers.base import Scheduler


def cyclic(num_tasks: int) -> Scheduler:
    """Draw one batch of each task in turn: batch t = 0, 1, … comes from task t mod N.

    Args:
        num_tasks: N.

    Returns:
        The scheduler, which is static.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.cyclic(3), 3)
        >>> [chooser.ask().task for _ in range(5)]
        [0, 1, 2, 0, 1]
    """
    return Scheduler(
        init=lambda key: jnp.zeros((), jnp.int32),
        select=lambda turn, labels: turn,
        update=lambda turn, labels, task, reward: (turn + 1) % num_tasks,
        family="static",
    )
