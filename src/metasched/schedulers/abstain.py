"""One more arm: no source this time."""

import jax
import jax.numpy as jnp

from metasched.schedulers.base import Scheduler, State


def with_abstain(scheduler: Scheduler) -> Scheduler:
    """Let a scheduler of N + 1 arms choose among N tasks and, with arm N, none of them.

    ``make("ucb", num_tasks=N, abstain=True)`` is ``with_abstain(ucb(N + 1))``. It is given the labels at the cursors of
    the N tasks; the last arm, which has no rows, always shows label 0. Whoever asks reads ``task == N``
    as *train on nothing*: no row is drawn, no cursor moves, the model stays as it is, and the arm is told the reward
    measured then, like any other. What learns from rewards will thus leave sources that hurt; a static scheduler
    abstains in its turn, whatever the rewards.

    Args:
        scheduler: for N + 1 arms.

    Returns:
        The scheduler for N tasks, of the same family.

    Examples:
        >>> import jax
        >>> scheduler = ms.schedulers.with_abstain(ms.schedulers.single(3, task=2))
        >>> int(scheduler.select(scheduler.init(jax.random.key(0)), np.zeros(2, "int32")))  # of tasks 0 and 1: neither
        2
    """

    def padded(labels: jax.Array) -> jax.Array:
        return jnp.append(labels, jnp.zeros((), labels.dtype))

    def select(state: State, labels: jax.Array) -> jax.Array:
        return scheduler.select(state, padded(labels))

    def update(state: State, labels: jax.Array, task: jax.Array, reward: jax.Array) -> State:
        return scheduler.update(state, padded(labels), task, reward)

    return scheduler._replace(select=select, update=update)
