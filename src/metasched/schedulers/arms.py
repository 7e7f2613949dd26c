"""What a bandit remembers of its tasks, and the bounds that several schedulers compute from it."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from metasched.schedulers.base import Scheduler

SCALES = ("spread", "fixed")
"""How large a reward difference is taken to be: as observed, or as given."""


class Arms(NamedTuple):
    """Rewards so far, by task; all of shape (N,) float32 but the first two.

    Attributes:
        key: ``jax.random.key_data``, for schedulers that draw.
        turn: int32 (), rewards so far.
        visits: V_i, rewards of task i, each weighted by its age where old ones are forgotten.
        mean: μ_i, their weighted mean.
        scatter: Σ (r − μ_i)², weighted likewise.
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
    """One more reward; all earlier ones lose the factor ``discount`` (Welford's update, weighted)."""
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
    """The rewards (B,) of the rows of one batch; all earlier ones lose the factor ``discount``, once.

    Mean and scatter of the batch by task are merged with those of before (Chan, Golub, LeVeque, 1979).
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
        # Nothing is merged where a task had no rewards before, or has none now; a square that overflows is then no NaN.
        scatter=arms.scatter * discount + scatter + jnp.where(merged > 0, apart**2 * merged, 0),
    )


def bandit(
    num_tasks: int,
    choose: Callable[[Arms], jax.Array],
    discount: float = 1.0,
    choose_rows: Callable[[Arms, int], jax.Array] | None = None,
) -> Scheduler:
    """A scheduler that remembers rewards, chooses the task ``choose(arms)`` and looks at no labels.

    One that draws at random also has ``choose_rows(arms, count)``.
    """
    return Scheduler(
        init=lambda key: first(num_tasks, key),
        select=lambda arms, labels: choose(arms),
        update=lambda arms, labels, task, reward: observe(arms, task, reward, discount),
        select_rows=choose_rows and (lambda arms, labels, count: choose_rows(arms, count)),
        update_rows=lambda arms, labels, tasks, rewards: observe_rows(arms, tasks, rewards, discount),
    )


def untried_rows_first(tried: jax.Array, chosen: jax.Array) -> jax.Array:
    """The tasks (B,) of a batch's rows: one row for each task that is not yet ``tried`` (N,), then those ``chosen``.

    While no task is tried, all rows go round the tasks. ``chosen`` (B,) are tasks that are tried, where there are any.
    """
    untried = jnp.argsort(tried)  # stable: those that are not tried, lowest first, then the others
    missing, row = (~tried).sum(), jnp.arange(len(chosen))
    turn = untried[row % jnp.maximum(missing, 1)]
    return jnp.where((row < missing) | ~tried.any(), turn, chosen).astype(jnp.int32)


def spread(arms: Arms) -> jax.Array:
    """Standard deviation of the reward of a task drawn uniformly: √ mean_i (s_i² + (μ_i − μ)²), over tasks tried.

    Every task counts alike, however often it was drawn. A plain standard deviation of all rewards would shrink as one
    task takes over and end exploration for good; the range max − min would grow with every outlier. Rewards that are
    all equal, as far as float32 can tell, say nothing of the scale: then it is 1, and the tasks go on being tried.
    """
    tried = arms.visits > 0
    number = jnp.maximum(tried.sum(), 1)
    within = jnp.where(tried, arms.scatter / jnp.where(tried, arms.visits, 1), 0).sum() / number
    centre = jnp.where(tried, arms.mean, 0).sum() / number
    between = jnp.where(tried, (arms.mean - centre) ** 2, 0).sum() / number
    deviation = jnp.sqrt(jnp.maximum(within, 0) + between)
    return jnp.where(deviation > 1e-6 * jnp.abs(centre), deviation, 1)


def within(arms: Arms) -> jax.Array:
    """Standard deviation of rewards about the mean of their own task: √ mean_i s_i², over tasks tried.

    Where no task has two different rewards it is the :func:`spread`: without any scale, the first task that looks best
    would have all draws.
    """
    tried = arms.visits > 0
    variances = jnp.where(tried, jnp.maximum(arms.scatter, 0) / jnp.where(tried, arms.visits, 1), 0)
    deviation = jnp.sqrt(variances.sum() / jnp.maximum(tried.sum(), 1))
    return jnp.where(deviation > 0, deviation, spread(arms))


def untried_first(arms: Arms, values: jax.Array) -> jax.Array:
    """``values`` (N,), with +∞ for tasks that have no reward yet; argmax then takes the lowest of them."""
    return jnp.where(arms.visits > 0, values, jnp.inf)


def upper_bound(arms: Arms, time: jax.Array, width: float, xi: float, scale: str) -> jax.Array:
    """μ_i + w·√(ξ·log t / V_i) for all tasks (N,), where w is ``width``, times the spread unless scale is fixed."""
    wide = width * spread(arms) if scale == "spread" else width
    bonus = wide * jnp.sqrt(xi * jnp.log(time) / jnp.where(arms.visits > 0, arms.visits, 1))
    return untried_first(arms, arms.mean + bonus)


def bonus(arms: Arms, upper: float, xi: float) -> jax.Array:
    """What exploring adds to the index of each task (N,): U·spread·√(ξ·log t / V_i), infinite for a task never drawn.

    A Gittins index moves by as much as all its rewards do, so a bonus on a task's rewards may be added to its index.
    V_i fades with the rewards: a task left alone is tried again after a while.
    """
    time = jnp.maximum(arms.visits.sum(), 1)
    return upper_bound(arms._replace(mean=jnp.zeros_like(arms.mean)), time, upper, xi, "fixed") * jnp.where(
        arms.visits > 0, spread(arms), 1
    )


def shrunk(sums: jax.Array, weights: jax.Array, arms: Arms) -> jax.Array:
    """Reward estimates (N, C, …) from faded sums and weights, each drawn to its task's mean by one observation.

    A label seen once counts half, one never seen not at all: r̂ = (Σ + μ_i) / (W + 1).
    """
    mean = arms.mean.reshape(-1, *[1] * (sums.ndim - 1))
    return (sums + mean) / (weights + 1)


def explored(key: jax.Array, chosen: jax.Array, share: float | jax.Array, num_tasks: int) -> jax.Array:
    """``chosen`` tasks, of any shape, each replaced by one drawn uniformly with probability ``share``."""
    whether, which = jax.random.split(key)
    instead = jax.random.randint(which, chosen.shape, 0, num_tasks, jnp.int32)
    return jnp.where(jax.random.uniform(whether, chosen.shape) < share, instead, chosen)


def plausible(arms: Arms, key: jax.Array, shape: tuple[int, ...], sigma: jax.Array | float, least: float) -> jax.Array:
    """Means drawn from their posteriors N(μ_i, σ² / V_i), of ``shape`` (…, N); V_i is at least ``least``."""
    return arms.mean + sigma * jax.random.normal(key, shape) / jnp.sqrt(jnp.maximum(arms.visits, least))


def best_rows(tried: jax.Array, values: jax.Array) -> jax.Array:
    """For each row the ``tried`` (N,) task with the largest of its values (B, N); untried tasks have rows first."""
    return untried_rows_first(tried, jnp.argmax(jnp.where(tried, values, -jnp.inf), axis=1))


def best(values: jax.Array) -> jax.Array:
    """The task with the largest value, int32; ties go to the lowest."""
    return jnp.argmax(values).astype(jnp.int32)
