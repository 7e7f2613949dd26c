"""Teacher–student: the task whose score changes fastest, up or down."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from metasched.errors import number
from metasched.schedulers import arms
from metasched.schedulers.base import Scheduler, key_of_draw


class Progress(NamedTuple):
    """Key data and the number of batches int32 (). By task (N,): the number of scores int32, the last score, the
    smoothed slope.
    """

    key: jax.Array
    turn: jax.Array
    seen: jax.Array
    last: jax.Array
    slope: jax.Array


def learning_progress(num_tasks: int, rate: float = 0.1, epsilon: float = 0.1) -> Scheduler:
    """With probability ε, draw a task uniformly, otherwise argmax_i |Q_i|, where Q_i ← (1 − α)·Q_i + α·(x_i − x_i').

    x_i is the score (reward) after a batch of task i, and x_i' the score after the batch of this task before. So Q_i is
    the smoothed slope of the score over the task's own batches. A falling score counts as much as a rising one, so
    tasks that are being forgotten are practised again. A task needs two scores to have a slope. Tasks with fewer scores
    come first, lowest first.

    Reference: Matiisen, Oliver, Cohen, Schulman, *Teacher–Student Curriculum Learning*, IEEE Transactions on Neural
    Networks and Learning Systems 31, 2019 (the Online algorithm).

    Args:
        num_tasks: N.
        rate: α in (0, 1]. A task's first slope is not smoothed.
        epsilon: ε in [0, 1].

    Returns:
        The scheduler, which is active.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.learning_progress(2, epsilon=0.0), {"north": None, "south": None})
        >>> for score in range(20):
        ...     draw = chooser.ask()
        ...     chooser.tell(draw, float(score) if draw.source == "south" else 0.5)
        >>> chooser.shares(last=10)  # what still rises is practised
        {'north': 0.0, 'south': 1.0}
    """
    alpha = number("rate", rate, above=0, most=1)
    share = number("epsilon", epsilon, least=0, most=1)

    def init(key: jax.Array) -> Progress:
        nothing = jnp.zeros(num_tasks, jnp.float32)
        return Progress(jax.random.key_data(key), jnp.int32(0), jnp.zeros(num_tasks, jnp.int32), nothing, nothing)

    def select(state: Progress, labels: jax.Array) -> jax.Array:
        fastest = arms.best(jnp.where(state.seen > 1, jnp.abs(state.slope), jnp.inf))
        return arms.explored(key_of_draw(state.key, state.turn), fastest, share, num_tasks)

    def update(state: Progress, labels: jax.Array, task: jax.Array, reward: jax.Array) -> Progress:
        change = reward - state.last[task]
        smoothed = (1 - alpha) * state.slope[task] + alpha * change
        slope = jnp.where(state.seen[task] > 1, smoothed, jnp.where(state.seen[task] > 0, change, 0))
        return Progress(
            state.key,
            state.turn + 1,
            state.seen.at[task].add(1),
            state.last.at[task].set(reward),
            state.slope.at[task].set(slope),
        )

    return Scheduler(init, select, update)
