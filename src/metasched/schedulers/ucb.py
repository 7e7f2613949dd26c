"""The paper's UCB scheduler: the task whose mean reward could, with confidence, be the highest."""

import jax
import jax.numpy as jnp

from metasched.errors import number, one_of
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler


def ucb(num_tasks: int, upper: float = 1.0, xi: float = 1.1, scale: str = "spread") -> Scheduler:
    """Draw the task with the highest upper confidence bound: θ_t = argmax_i μ_i + U·√(ξ·log t / V_i).

    The first N batches are one of each task, in order. Then t = 1, 2, … counts the choices. μ_i is the mean reward of
    task i, and V_i is the number of its batches, including the first.

    Reference: Wang, Koppel, Krishnamurthy, *A Markov Decision Process Approach to Active Meta Learning*, AAAI 2021,
    Algorithm "UCB Scheduler"; its regret is O(log t) after Auer, Cesa-Bianchi, Fischer, *Machine Learning* 47, 2002.

    Args:
        num_tasks: N.
        upper: U, the width of the bound; the paper's is 2, for ``scale="fixed"``.
        xi: ξ > 1, the weight of exploration.
        scale: ``"fixed"`` is the formula above, made for rewards with a range of about U. It hardly notices rewards
            that differ by hundredths. ``"spread"`` multiplies U by the observed :func:`~.arms.spread` of the rewards,
            so that the choices stay the same when all rewards are shifted or stretched.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.ucb(2), {"north": None, "south": None})
        >>> for _ in range(60):
        ...     draw = chooser.ask()
        ...     chooser.tell(draw, 1.0 if draw.source == "south" else 0.0)
        >>> chooser.shares()["south"] > 0.7
        True
    """
    width = number("upper", upper, above=0)
    weight = number("xi", xi, above=1)
    one_of("scale", scale, arms.SCALES)

    def choose(state: Arms) -> jax.Array:
        time = jnp.maximum(state.turn - num_tasks + 1, 1).astype(jnp.float32)
        return arms.best(arms.upper_bound(state, time, width, weight, scale))

    return arms.bandit(num_tasks, choose)
