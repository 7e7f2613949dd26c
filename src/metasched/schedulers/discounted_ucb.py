"""UCB that forgets gradually, for rewards that drift."""

import jax
import jax.numpy as jnp

from metasched.errors import number, one_of
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler


def discounted_ucb(
    num_tasks: int, discount: float = 0.99, upper: float = 1.0, xi: float = 0.6, scale: str = "spread"
) -> Scheduler:
    """θ_t = argmax_i μ_i(γ) + U·√(ξ·log n(γ) / V_i(γ)), every past reward weighted by γ^age.

    V_i(γ) = Σ_s γ^(t−s)·1{θ_s = i}, μ_i(γ) the mean with the same weights, n(γ) = Σ_i V_i(γ). A task that is not drawn
    loses weight, so its bound rises, and it is tried again. About 1 / (1 − γ) batches are remembered.

    Reference: Garivier, Moulines, *On Upper-Confidence Bound Policies for Switching Bandit Problems*, ALT 2011.

    Args:
        num_tasks: N.
        discount: γ in [0.5, 1).
        upper: U, the width of the bound.
        xi: ξ > 0.5.
        scale: ``"spread"`` or ``"fixed"``, as in :func:`~metasched.schedulers.ucb`.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.discounted_ucb(2, discount=0.95), {"north": None, "south": None})
        >>> for _ in range(60):
        ...     draw = chooser.ask()
        ...     chooser.tell(draw, 1.0 if draw.source == "south" else 0.0)
        >>> chooser.shares()["south"] > 0.6
        True
    """
    factor = number("discount", discount, least=0.5, below=1)
    width = number("upper", upper, above=0)
    weight = number("xi", xi, above=0.5)
    one_of("scale", scale, arms.SCALES)

    def choose(state: Arms) -> jax.Array:
        return arms.best(arms.upper_bound(state, jnp.maximum(state.visits.sum(), 1), width, weight, scale))

    return arms.bandit(num_tasks, choose, factor)
