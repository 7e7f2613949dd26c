"""What a bandit stores about its tasks, and the bounds that several schedulers compute from it."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from metasched.schedulers.base import Scheduler

SCALES = ("spread", "fixed")
"""The scale of differences between rewards: as observed, or as given."""


class Arms(NamedTuple):
    """The rewards so far, by task. All fields are float32 (N,), except for the first two.

    Attributes:
        key: ``jax.random.key_data``, for schedulers that draw at random.
        turn: int32 (), the number of rewards so far.
        visits: V_i, the number of rewards of task i, weighted by age if old ones are forgotten.
        mean: μ_i, their weighted mean.
        scatter: Σ (r − μ_i)², with the same weights.
    """

    key: jax.Array
    turn: jax.Array
    visits: jax.Array
    mean: jax.Array
    scatter: jax.Array


def first(num_tasks: int, key: jax.Array) -> Arms:
    """No rewards yet."""
    nothing = jnp.zeros(num_tasks, jnp.float32)
    return Arms(jax.random.key_data(key), jnp.int32(0), nothing, nothing, nothing)


def observe(arms: Arms, task: jax.Array, reward: jax.Array, discount: float = 1.0) -> Arms:
    """Add one reward. All earlier rewards are multiplied by ``discount`` (Welford's update, weighted)."""
    visits = (arms.visits * discount).at[task].add(1)
    before = arms.mean[task]
    mean = before + (reward - before) / visits[task]
    return arms._replace(
        turn=arms.turn + 1,
        visits=visits,
        mean=arms.mean.at[task].set(mean),
        scatter=(arms.scatter * discount).at[task].add((reward - before) * (reward - mean)),
    )


def observe_rows(arms: Arms, tasks: jax.Array, rewards: jax.Array, discount: float = 1.0) -> Arms:
    """Add the rewards (B,) of the rows of one batch. All earlier rewards are multiplied by ``discount`` once.

    The mean and scatter of the batch are merged, task by task, with the earlier ones (Chan, Golub, LeVeque, 1979).
    """
    nothing = jnp.zeros_like(arms.mean)
    count = nothing.at[tasks].add(1)
    own = nothing.at[tasks].add(rewards) / jnp.maximum(count, 1)
    scatter = nothing.at[tasks].add((rewards - own[tasks]) ** 2)
    before = arms.visits * discount
    visits = before + count
    share = count / jnp.where(visits > 0, visits, 1)
    apart, merged = own - arms.mean, before * share
    return arms._replace(
        turn=arms.turn + len(tasks),
        visits=visits,
        mean=arms.mean + apart * share,
        # Nothing is merged if a task had no rewards before, or has none now. So a square that overflows does not become
        # NaN.
        scatter=arms.scatter * discount + scatter + jnp.where(merged > 0, apart**2 * merged, 0),
    )


def bandit(
    num_tasks: int,
    choose: Callable[[Arms], jax.Array],
    discount: float = 1.0,
    choose_rows: Callable[[Arms, int], jax.Array] | None = None,
) -> Scheduler:
    """A scheduler that remembers rewards, chooses the task ``choose(arms)`` and ignores labels.

    A scheduler that draws at random also has ``choose_rows(arms, count)``.
    """
    return Scheduler(
        init=lambda key: first(num_tasks, key),
        select=lambda arms, labels: choose(arms),
        update=lambda arms, labels, task, reward: observe(arms, task, reward, discount),
        select_rows=choose_rows and (lambda arms, labels, count: choose_rows(arms, count)),
        update_rows=lambda arms, labels, tasks, rewards: observe_rows(arms, tasks, rewards, discount),
    )


def untried_rows_first(tried: jax.Array, chosen: jax.Array) -> jax.Array:
    """The tasks (B,) of a batch's rows: one row for each task that was not yet ``tried`` (N,), then the ``chosen``
    tasks.

    As long as no task was tried, the rows cycle through the tasks. ``chosen`` (B,) are tasks that were tried, if there
    are any.
    """
    untried = jnp.argsort(tried)  # stable: untried tasks, lowest first, then the others
    missing, row = (~tried).sum(), jnp.arange(len(chosen))
    turn = untried[row % jnp.maximum(missing, 1)]
    return jnp.where((row < missing) | ~tried.any(), turn, chosen).astype(jnp.int32)


def spread(arms: Arms) -> jax.Array:
    """Standard deviation of the reward of a task drawn uniformly: √ mean_i (s_i² + (μ_i − μ)²), over tasks tried.

    Every task counts equally, however often it was drawn. A plain standard deviation of all rewards would shrink as one
    task takes over, and end exploration for good. The range max − min would grow with every outlier. If all rewards are
    equal in float32, the scale is unknown. Then it is 1, and all tasks are still tried.
    """
    tried = arms.visits > 0
    number = jnp.maximum(tried.sum(), 1)
    within = jnp.where(tried, arms.scatter / jnp.where(tried, arms.visits, 1), 0).sum() / number
    centre = jnp.where(tried, arms.mean, 0).sum() / number
    between = jnp.where(tried, (arms.mean - centre) ** 2, 0).sum() / number
    deviation = jnp.sqrt(jnp.maximum(within, 0) + between)
    return jnp.where(deviation > 1e-6 * jnp.abs(centre), deviation, 1)


def within(arms: Arms) -> jax.Array:
    """Standard deviation of rewards about the mean of their own task: √ mean_i s_i², over the tried tasks.

    If no task has two different rewards, this is the :func:`spread`. Without any scale, the first task that looks best
    would get all draws.
    """
    tried = arms.visits > 0
    variances = jnp.where(tried, jnp.maximum(arms.scatter, 0) / jnp.where(tried, arms.visits, 1), 0)
    deviation = jnp.sqrt(variances.sum() / jnp.maximum(tried.sum(), 1))
    return jnp.where(deviation > 0, deviation, spread(arms))


def untried_first(arms: Arms, values: jax.Array) -> jax.Array:
    """``values`` (N,), with +∞ for tasks without rewards. argmax then takes the lowest of these tasks."""
    return jnp.where(arms.visits > 0, values, jnp.inf)


def upper_bound(arms: Arms, time: jax.Array, width: float, xi: float, scale: str) -> jax.Array:
    """μ_i + w·√(ξ·log t / V_i) for all tasks (N,), where w is ``width``, times the spread unless the scale is fixed."""
    wide = width * spread(arms) if scale == "spread" else width
    bonus = wide * jnp.sqrt(xi * jnp.log(time) / jnp.where(arms.visits > 0, arms.visits, 1))
    return untried_first(arms, arms.mean + bonus)


def bonus(arms: Arms, upper: float, xi: float) -> jax.Array:
    """The exploration bonus on the index of each task (N,): U·spread·√(ξ·log t / V_i), infinite for a task never drawn.

    If all rewards of a task rise by a number, its Gittins index rises by the same number, so a bonus on the rewards may
    be added to the index. V_i fades with the rewards, so a task that is not drawn is tried again after a while.
    """
    time = jnp.maximum(arms.visits.sum(), 1)
    return upper_bound(arms._replace(mean=jnp.zeros_like(arms.mean)), time, upper, xi, "fixed") * jnp.where(
        arms.visits > 0, spread(arms), 1
    )


def shrunk(sums: jax.Array, weights: jax.Array, arms: Arms) -> jax.Array:
    """Reward estimates (N, C, …) from faded sums and weights, each shrunk towards its task's mean by one observation.

    r̂ = (Σ + μ_i) / (W + 1): a label that was seen once counts half, and a label that was never seen counts nothing.
    """
    mean = arms.mean.reshape(-1, *[1] * (sums.ndim - 1))
    return (sums + mean) / (weights + 1)


def explored(key: jax.Array, chosen: jax.Array, share: float | jax.Array, num_tasks: int) -> jax.Array:
    """``chosen`` tasks, of any shape. Each is replaced by a uniformly drawn task with probability ``share``."""
    whether, which = jax.random.split(key)
    instead = jax.random.randint(which, chosen.shape, 0, num_tasks, jnp.int32)
    return jnp.where(jax.random.uniform(whether, chosen.shape) < share, instead, chosen)


def plausible(arms: Arms, key: jax.Array, shape: tuple[int, ...], sigma: jax.Array | float, least: float) -> jax.Array:
    """Means drawn from their posteriors N(μ_i, σ² / V_i), of ``shape`` (…, N). V_i is at least ``least``."""
    return arms.mean + sigma * jax.random.normal(key, shape) / jnp.sqrt(jnp.maximum(arms.visits, least))


def best_rows(tried: jax.Array, values: jax.Array) -> jax.Array:
    """For each row the ``tried`` (N,) task with the largest of its values (B, N). Untried tasks get rows first."""
    return untried_rows_first(tried, jnp.argmax(jnp.where(tried, values, -jnp.inf), axis=1))


def best(values: jax.Array) -> jax.Array:
    """The task with the largest value, int32. Ties go to the lowest task."""
    return jnp.argmax(values).astype(jnp.int32)
