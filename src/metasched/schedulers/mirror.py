"""Mirror descent: proportions that move a little with every batch, towards the tasks that have helped."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metasched.errors import ConfigError, number
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler, key_of_draw
from metasched.schedulers.thompson import FADE, LEAST

LARGEST_GAIN = 10.0
"""The bound of a change with one batch, in units of σ."""


class Proportions(NamedTuple):
    """The fields of :class:`Arms`, and the logarithms (N,) of the proportions."""

    key: jax.Array
    turn: jax.Array
    visits: jax.Array
    mean: jax.Array
    scatter: jax.Array
    logits: jax.Array

    @property
    def seen(self) -> Arms:
        """The number of rewards so far."""
        return Arms(*self[:5])


def mirror(
    num_tasks: int,
    rate: float = 0.05,
    sample: float = 0.5,
    explore: float = 0.05,
    width: float = 2.0,
    forget: float = FADE,
    keep: float = 1.0,
    start: Sequence[float] | None = None,
) -> Scheduler:
    """Draw from proportions p ∝ exp(z), where z_i grows by η·μ_i / σ with every batch. Half of the draws are sampled.

    μ_i is the estimated mean reward of task i, and σ the deviation of rewards within a task. Thompson sampling asks
    which task is best now, and draws evenly again as soon as rewards are alike. The proportions only move with
    evidence. So they remember what a task was worth after its rows have been learned. By themselves they lock onto a
    few tasks, which is too soon if there are many small tasks. So a share of the draws is left to Thompson sampling.

    References: Fan, Pagliardini, Jaggi, *DoGE: Domain Reweighting with Generalization Estimation*, arXiv:2310.15393
    (proportions of a language model's domains by mirror descent on gradient alignment; it uses only the rewards of the
    domains just seen); Nemirovski, Yudin, *Problem Complexity and Method Efficiency in Optimization*, 1983.

    Args:
        num_tasks: N.
        rate: η > 0.
        sample: the share of draws that Thompson sampling makes, from N(μ_i, (width·σ)² / V_i).
        explore: the share of uniform draws.
        width: of Thompson sampling.
        forget: the factor by which the weight of a reward in μ falls with every batch.
        keep: the factor of z with every batch. Below 1, the proportions slowly return to those of the start.
        start: the proportions of the first draws; by default all are equal.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.mirror(2), {"north": None, "south": None})
        >>> for _ in range(100):
        ...     draw = chooser.ask()
        ...     chooser.tell(draw, 1.0 if draw.source == "south" else 0.0)
        >>> chooser.shares(last=20)["south"] > 0.7
        True
    """
    step = number("rate", rate, above=0)
    share, sampled = number("explore", explore, least=0, most=1), number("sample", sample, least=0, most=1)
    fade, kept = number("forget", forget, above=0, most=1), number("keep", keep, above=0, most=1)
    stretch = number("width", width, above=0)
    first = np.ones(num_tasks) if start is None else np.asarray(start, np.float64)
    if first.shape != (num_tasks,) or not (np.isfinite(first).all() and (first > 0).all()):
        raise ConfigError(f"start is {start}; give a number above 0 for each of the {num_tasks} tasks")
    origin = np.log(first / first.sum()).astype(np.float32)

    def init(key: jax.Array) -> Proportions:
        return Proportions(*arms.first(num_tasks, key), jnp.asarray(origin))

    def select(state: Proportions, labels: jax.Array) -> jax.Array:
        return select_rows(state, labels, 1)[0]

    def select_rows(state: Proportions, labels: jax.Array, count: int) -> jax.Array:
        which, noise, whether, uniform = jax.random.split(key_of_draw(state.key, state.turn), 4)
        tried, wide = state.visits > LEAST, stretch * arms.within(state.seen)
        by_share = jax.random.categorical(which, jnp.where(tried, state.logits, -jnp.inf), shape=(count,))
        likely = arms.plausible(state.seen, noise, (count, num_tasks), wide, LEAST)
        best = jnp.where(tried, likely, -jnp.inf).argmax(axis=1)
        chosen = jnp.where(jax.random.uniform(whether, (count,)) < sampled, best, by_share)
        return arms.explored(uniform, arms.untried_rows_first(tried, chosen), share, num_tasks)

    def moved(state: Proportions, seen: Arms) -> Proportions:
        sigma = arms.within(seen)
        tried = seen.visits > LEAST
        known = jnp.where(tried, seen.mean, jnp.where(tried, seen.mean, 0).sum() / jnp.maximum(tried.sum(), 1))
        # Until there are more rewards than tasks, the scale is unknown. Rewards without noise have no scale.
        gain = jnp.where(seen.turn > num_tasks, jnp.clip(known / sigma, -LARGEST_GAIN, LARGEST_GAIN), 0)
        logits = origin + kept * (state.logits - origin) + step * gain
        return Proportions(*seen, logits - jax.nn.logsumexp(logits))

    def update(state: Proportions, labels: jax.Array, task: jax.Array, reward: jax.Array) -> Proportions:
        return moved(state, arms.observe(state.seen, task, reward, fade))

    def update_rows(state: Proportions, labels: jax.Array, tasks: jax.Array, rewards: jax.Array) -> Proportions:
        return moved(state, arms.observe_rows(state.seen, tasks, rewards, fade))

    return Scheduler(init, select, update, select_rows=select_rows, update_rows=update_rows)
