"""Thompson sampling: each task is drawn as often as it is likely to be the best."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from metasched.errors import number, one_of
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler, key_of_draw

LEAST = 0.5
"""A task whose rewards have less weight than this counts as untried."""
FADE = 0.98 ** (1 / 35)
"""The factor by which the weight of a reward falls with every batch: 98 % is left after 35 batches. Chosen with
``benchmarks/choosing.py``.
"""


class Usual(NamedTuple):
    """Settings for rewards of whole batches, or of single rows, which are noisier but more numerous."""

    scale: str
    width: float
    explore: float


BATCHES = Usual("spread", 1.0, 0.0)
ROWS = Usual("within", 2.0, 0.1)


def thompson(
    num_tasks: int,
    model: str = "gaussian",
    scale: str | None = None,
    forget: float = FADE,
    width: float | None = None,
    explore: float | None = None,
) -> Scheduler:
    """Draw a plausible mean reward for every task from its posterior, and take the task with the largest.

    ``model="gaussian"``: θ_i ~ N(μ_i, σ² / V_i), where μ_i is the mean reward of task i and V_i the weight of its
    rewards; every task is tried once first. ``model="beta"``: θ_i ~ Beta(1 + Σ r, 1 + Σ (1 − r)), exact for rewards 0
    and 1; rewards outside [0, 1] are clipped.

    References: Thompson, *Biometrika* 25, 1933; Agrawal, Goyal, *Further Optimal Regret Bounds for Thompson Sampling*,
    AISTATS 2013 (both models, logarithmic regret).

    Args:
        num_tasks: N.
        model: ``"gaussian"`` or ``"beta"``.
        scale: what σ is: the observed :func:`~.arms.spread` of the rewards (``"spread"``, the default for batches of
            one task), their deviation within a task (``"within"``, the default for rows of a mixed batch), or 1
            (``"fixed"``).
        forget: the factor by which the weight of a reward falls with every batch. Below 1, a task that is not drawn
            loses weight and is tried again. 1 is the textbook version.
        width: a factor for σ. Above 1, draws are more even; below 1, the scheduler settles on the best task sooner. By
            default 1 for batches of one task and 2 for rows of a mixed batch.
        explore: the share of uniform draws. By default 0 for batches of one task, and 10 % of the rows of a mixed
            batch.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.thompson(2), {"north": None, "south": None})
        >>> for _ in range(60):
        ...     draw = chooser.ask()
        ...     chooser.tell(draw, 1.0 if draw.source == "south" else 0.0)
        >>> chooser.shares()["south"] > 0.8
        True
    """
    one_of("model", model, ("gaussian", "beta"))
    if scale is not None:
        one_of("scale", scale, (*arms.SCALES, "within"))
    fade = number("forget", forget, above=0, most=1)
    stretch = None if width is None else number("width", width, above=0)
    share = None if explore is None else number("explore", explore, least=0, most=1)

    def plausible(state: Arms, key: jax.Array, shape: tuple[int, ...], usual: Usual) -> jax.Array:
        """A mean for every task, drawn from its posterior."""
        if model == "beta":
            good = state.visits * state.mean
            return jax.random.beta(key, 1 + good, 1 + state.visits - good, shape)
        sigma = {"spread": arms.spread, "within": arms.within}.get(scale or usual.scale, lambda _: 1)(state)
        return arms.plausible(state, key, shape, (usual.width if stretch is None else stretch) * sigma, LEAST)

    def explored(state: Arms, usual: Usual, best: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """The choice of ``best(key)``, except for the share of uniform draws."""
        key, part = key_of_draw(state.key, state.turn), usual.explore if share is None else share
        # Stored results depend on using one key for both. Splitting the key hashes it once more, so the draws and the
        # choice whether to explore are as good as independent.
        return arms.explored(key, best(key), part, num_tasks) if part else best(key)

    def choose(state: Arms) -> jax.Array:
        def best(key: jax.Array) -> jax.Array:
            draws = plausible(state, key, (num_tasks,), BATCHES)
            return arms.best(jnp.where(state.visits > least, draws, jnp.inf))

        return explored(state, BATCHES, best)

    def choose_rows(state: Arms, count: int) -> jax.Array:
        def best(key: jax.Array) -> jax.Array:
            return arms.best_rows(state.visits > least, plausible(state, key, (count, num_tasks), ROWS))

        return explored(state, ROWS, best)

    if model == "gaussian":
        least = LEAST
        return arms.bandit(num_tasks, choose, fade, choose_rows)
    least = -1.0  # before any reward the posterior is the prior, which is known
    return arms.bandit(num_tasks, choose, choose_rows=choose_rows)._replace(
        update=lambda state, labels, task, reward: arms.observe(state, task, jnp.clip(reward, 0, 1)),
        update_rows=lambda state, labels, tasks, rewards: arms.observe_rows(state, tasks, jnp.clip(rewards, 0, 1)),
    )
