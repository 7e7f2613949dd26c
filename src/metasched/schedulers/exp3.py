"""Exponential weights, which assume nothing about rewards except that they are bounded."""

from math import log
from typing import NamedTuple

import jax
import jax.numpy as jnp

from metasched.errors import number, one_of
from metasched.schedulers import arms
from metasched.schedulers.base import Scheduler, key_of_draw


class Weights(NamedTuple):
    """Key data, the number of batches int32 (), the estimated total loss of each task (N,), and the lowest and highest
    reward.
    """

    key: jax.Array
    turn: jax.Array
    loss: jax.Array
    low: jax.Array
    high: jax.Array


def exp3(num_tasks: int, rate: float = 1.0, explore: float = 0.0, scale: str = "spread") -> Scheduler:
    """Draw task i with probability p_i = (1 − ε)·softmax(−η_t·L)_i + ε / N, where η_t = rate·√(log N / (N·t)).

    After a batch of task i with reward r in [0, 1], L_i grows by (1 − r) / p_i, an unbiased estimate of the loss of
    every task. For any rewards, the expected regret against the best single task is at most 2·√(T·N·log N). Online data
    mixing weights the domains of a language model in this way.

    References: Auer, Cesa-Bianchi, Freund, Schapire, *SIAM Journal on Computing* 32, 2002; Bubeck, Cesa-Bianchi,
    *Regret Analysis of Stochastic and Nonstochastic Multi-armed Bandit Problems*, 2012, theorem 3.1 (this form);
    Albalak, Pan, Raffel, Wang, *Efficient Online Data Mixing for Language Model Pre-Training*, 2023.

    Args:
        num_tasks: N.
        rate: the factor of the learning rate, > 0.
        explore: ε in [0, 1], the share of uniform choices.
        scale: ``"spread"`` maps the range of the rewards seen so far to [0, 1]; ``"fixed"`` uses rewards as they are,
            clipped to [0, 1].

    Returns:
        The scheduler, which is active.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.exp3(2), {"north": None, "south": None})
        >>> for _ in range(60):
        ...     draw = chooser.ask()
        ...     chooser.tell(draw, 1.0 if draw.source == "south" else 0.0)
        >>> chooser.shares()["south"] > 0.6
        True
    """
    factor = number("rate", rate, above=0)
    share = number("explore", explore, least=0, most=1)
    one_of("scale", scale, arms.SCALES)

    def init(key: jax.Array) -> Weights:
        edge = (0.0, 1.0) if scale == "fixed" else (jnp.inf, -jnp.inf)
        return Weights(
            jax.random.key_data(key), jnp.int32(0), jnp.zeros(num_tasks, jnp.float32), *map(jnp.float32, edge)
        )

    def probabilities(state: Weights) -> jax.Array:
        eta = factor * jnp.sqrt(log(num_tasks) / (num_tasks * (state.turn + 1)))
        return (1 - share) * jax.nn.softmax(-eta * state.loss) + share / num_tasks

    def select(state: Weights, labels: jax.Array) -> jax.Array:
        noise = jax.random.gumbel(key_of_draw(state.key, state.turn), (num_tasks,))
        return arms.best(jnp.log(probabilities(state)) + noise)

    def select_rows(state: Weights, labels: jax.Array, count: int) -> jax.Array:
        key = key_of_draw(state.key, state.turn)
        tasks: jax.Array = jax.random.categorical(key, jnp.log(probabilities(state)), shape=(count,))
        return tasks.astype(jnp.int32)

    def update_rows(state: Weights, labels: jax.Array, tasks: jax.Array, rewards: jax.Array) -> Weights:
        """All rows were drawn with the same probabilities, so their estimates can be added."""
        tasks, rewards = jnp.asarray(tasks), jnp.asarray(rewards)
        low, high = state.low, state.high
        if scale == "spread":
            low, high = jnp.minimum(low, rewards.min()), jnp.maximum(high, rewards.max())
        lost = jnp.clip((high - rewards) / jnp.where(high > low, high - low, 1), 0, 1)
        estimates = lost / jnp.maximum(probabilities(state)[tasks], 1e-30)
        return Weights(state.key, state.turn + tasks.size, state.loss.at[tasks].add(estimates), low, high)

    return Scheduler(init, select, update_rows, select_rows=select_rows, update_rows=update_rows)
