"""The best task so far, and now and then any task."""

import jax
import jax.numpy as jnp

from metasched.errors import number
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler, key_of_draw


def epsilon_greedy(num_tasks: int, epsilon: float = 0.1, decay: float = 0.0) -> Scheduler:
    """With probability ε_t, draw a task uniformly, otherwise argmax_i μ_i. Untried tasks come before tried ones.

    ε_t = ε / (1 + decay·t / N). Without decay, the share of exploration and the regret per batch stay constant. With
    decay > 0 they fall like N / t, and the regret is O(log t) if ε / decay is large enough.

    Reference: Auer, Cesa-Bianchi, Fischer, *Finite-time Analysis of the Multiarmed Bandit Problem*, Machine Learning
    47, 2002 (ε_n-greedy).

    Args:
        num_tasks: N.
        epsilon: ε in [0, 1].
        decay: ≥ 0.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.epsilon_greedy(2, epsilon=0.2), {"north": None, "south": None})
        >>> for _ in range(60):
        ...     draw = chooser.ask()
        ...     chooser.tell(draw, 1.0 if draw.source == "south" else 0.0)
        >>> chooser.shares()["south"] > 0.7
        True
    """
    share = number("epsilon", epsilon, least=0, most=1)
    rate = number("decay", decay, least=0)

    def explored(state: Arms, greedy: jax.Array) -> jax.Array:
        part = share / (1 + rate * state.turn / num_tasks)
        return arms.explored(key_of_draw(state.key, state.turn), greedy, part, num_tasks)

    def choose(state: Arms) -> jax.Array:
        return explored(state, arms.best(arms.untried_first(state, state.mean)))

    def choose_rows(state: Arms, count: int) -> jax.Array:
        tried = state.visits > 0
        return explored(state, arms.best_rows(tried, jnp.broadcast_to(state.mean, (count, num_tasks))))

    return arms.bandit(num_tasks, choose, choose_rows=choose_rows)
