"""Mirror descent: proportions that move towards what has transferred, a little with every batch."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metasched.errors import ConfigError, number, one_of
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler, key_of_draw
from metasched.schedulers.thompson import FADE, LEAST


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
        """Rewards so far."""
        return Arms(*self[:5])


def mirror(
    num_tasks: int,
    rate: float = 0.05,
    explore: float = 0.05,
    forget: float = FADE,
    keep: float = 1.0,
    scale: str = "spread",
    start: Sequence[float] | None = None,
) -> Scheduler:
    """Draw from proportions p ∝ exp(z), where z_i grows by η·μ_i / σ with every batch.

    μ_i is the estimated mean reward of task i, and σ their scale. Thompson sampling asks which task is best now, and
    draws evenly again as soon as rewards are alike. Proportions only move on evidence. So they remember what a task
    was worth after its rows have been learned.

    References: Fan, Pagliardini, Jaggi, *DoGE: Domain Reweighting with Generalization Estimation*, arXiv:2310.15393
    (proportions of a language model's domains by mirror descent on gradient alignment, with rewards of the domains
    just seen where this has estimates of all); Nemirovski, Yudin, *Problem Complexity and Method Efficiency in
    Optimization*, 1983.

    Args:
        num_tasks: N.
        rate: η > 0.
        explore: a share of uniform draws.
        forget: the weight of a reward in μ one batch later.
        keep: the factor of z with every batch; below 1 the proportions slowly go back to those of the start.
        scale: what σ is: the :func:`~.arms.spread` of the rewards (``"spread"``), their deviation within a task
            (``"within"``), or 1 (``"fixed"``).
        start: the proportions of the first draws; by default all alike.

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
    share = number("explore", explore, least=0, most=1)
    fade, kept = number("forget", forget, above=0, most=1), number("keep", keep, above=0, most=1)
    one_of("scale", scale, (*arms.SCALES, "within"))
    first = np.ones(num_tasks) if start is None else np.asarray(start, np.float64)
    if first.shape != (num_tasks,) or not (np.isfinite(first).all() and (first > 0).all()):
        raise ConfigError(f"start is {start}; give a number above 0 for each of the {num_tasks} tasks")
    origin = np.log(first / first.sum()).astype(np.float32)

    def init(key: jax.Array) -> Proportions:
        return Proportions(*arms.first(num_tasks, key), jnp.asarray(origin))

    def logarithms(state: Proportions) -> jax.Array:
        return jnp.log((1 - share) * jax.nn.softmax(state.logits) + share / num_tasks)

    def select(state: Proportions, labels: jax.Array) -> jax.Array:
        return select_rows(state, labels, 1)[0]

    def select_rows(state: Proportions, labels: jax.Array, count: int) -> jax.Array:
        key, tried = key_of_draw(state.key, state.turn), state.visits > LEAST
        chances = jnp.where(tried, logarithms(state), -jnp.inf)
        return arms.untried_rows_first(tried, jax.random.categorical(key, chances, shape=(count,)))

    def moved(state: Proportions, seen: Arms) -> Proportions:
        sigma = {"spread": arms.spread, "within": arms.within}.get(scale, lambda _: 1)(seen)
        known = jnp.where(seen.visits > LEAST, seen.mean, 0)
        # Before two rewards of a task nothing is known of the scale, and 1 could be any number of times too small.
        gain = jnp.where((sigma > 0) & (seen.turn > num_tasks), known / jnp.where(sigma > 0, sigma, 1), 0)
        logits = origin + kept * (state.logits - origin) + step * gain
        return Proportions(*seen, logits - jax.nn.logsumexp(logits))

    def update(state: Proportions, labels: jax.Array, task: jax.Array, reward: jax.Array) -> Proportions:
        return moved(state, arms.observe(state.seen, task, reward, fade))

    def update_rows(state: Proportions, labels: jax.Array, tasks: jax.Array, rewards: jax.Array) -> Proportions:
        return moved(state, arms.observe_rows(state.seen, tasks, rewards, fade))

    return Scheduler(init, select, update, select_rows=select_rows, update_rows=update_rows)
