"""Thompson sampling: each task as often as it is likely to be the best."""

import jax
import jax.numpy as jnp

from metasched.errors import number, one_of
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler, key_of_draw

LEAST = 0.5
"""Weight of its rewards below which a task counts as untried."""
FADE = 0.98 ** (1 / 35)
"""Weight of a reward one batch later: 98 % after 35 batches. Chosen with ``benchmarks/choosing.py``."""


def thompson(
    num_tasks: int, model: str = "gaussian", scale: str = "spread", forget: float = FADE, width: float = 1.0
) -> Scheduler:
    """Draw a plausible mean reward for every task from its posterior and take the largest.

    ``model="gaussian"``: θ_i ~ N(μ_i, σ² / V_i), where μ_i is the mean reward of task i and V_i the weight of its
    rewards; every task is tried once first. ``model="beta"``: θ_i ~ Beta(1 + Σ r, 1 + Σ (1 − r)), exact for rewards 0
    and 1; rewards outside [0, 1] are clipped.

    References: Thompson, *Biometrika* 25, 1933; Agrawal, Goyal, *Further Optimal Regret Bounds for Thompson Sampling*,
    AISTATS 2013 (both models, logarithmic regret).

    Args:
        num_tasks: N.
        model: ``"gaussian"`` or ``"beta"``.
        scale: what σ is: the observed :func:`~.arms.spread` of the rewards (``"spread"``), their deviation within a
            task (``"within"``), or 1 (``"fixed"``).
        forget: the weight of a reward one batch later: below 1 a task that rests loses weight and is tried again; 1 is
            the textbook's.
        width: stretches σ: above 1 draws are more even, below 1 the best task is locked onto sooner.

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
    one_of("scale", scale, (*arms.SCALES, "within"))
    fade = number("forget", forget, above=0, most=1)
    stretch = number("width", width, above=0)

    def gaussian(state: Arms) -> jax.Array:
        noise = jax.random.normal(key_of_draw(state.key, state.turn), (num_tasks,))
        sigma = {"spread": arms.spread, "within": arms.within}.get(scale, lambda _: 1)(state)
        draws = state.mean + stretch * sigma * noise / jnp.sqrt(jnp.maximum(state.visits, LEAST))
        return arms.best(jnp.where(state.visits > LEAST, draws, jnp.inf))

    def beta(state: Arms) -> jax.Array:
        good = state.visits * state.mean
        return arms.best(jax.random.beta(key_of_draw(state.key, state.turn), 1 + good, 1 + state.visits - good))

    if model == "beta":
        return arms.bandit(num_tasks, beta)._replace(
            update=lambda state, labels, task, reward: arms.observe(state, task, jnp.clip(reward, 0, 1))
        )
    return arms.bandit(num_tasks, gaussian, fade)
