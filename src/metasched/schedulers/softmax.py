"""Boltzmann exploration: better tasks more often, by how much better they are."""

import jax
import jax.numpy as jnp

from metasched.errors import flag, number, one_of
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler, key_of_draw


def softmax(num_tasks: int, temperature: float = 0.5, anneal: bool = False, scale: str = "spread") -> Scheduler:
    """Draw task i with probability ∝ exp(μ_i / τ). Every task is tried once first.

    It is drawn as argmax_i μ_i + τ·G_i with independent standard Gumbel variables G_i. With ``anneal`` the noise of a
    task shrinks as the task becomes known, τ·G_i / √V_i, and the regret is O(log² t). Without it, exploration never
    ends.

    References: Sutton, Barto, *Reinforcement Learning*, 2nd edition, 2018, section 2.8; Cesa-Bianchi, Gentile, Lugosi,
    Neu, *Boltzmann Exploration Done Right*, NeurIPS 2017 (``anneal``).

    Args:
        num_tasks: N.
        temperature: τ > 0, in units of the observed :func:`~.arms.spread` of the rewards (``scale="spread"``) or of
            the reward itself (``scale="fixed"``).
        anneal: whether the noise shrinks.
        scale: ``"spread"`` or ``"fixed"``.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.softmax(2, temperature=0.3), {"north": None, "south": None})
        >>> for _ in range(60):
        ...     draw = chooser.ask()
        ...     chooser.tell(draw, 1.0 if draw.source == "south" else 0.0)
        >>> chooser.shares()["south"] > 0.7
        True
    """
    tau = number("temperature", temperature, above=0)
    shrinks = flag("anneal", anneal)
    one_of("scale", scale, arms.SCALES)

    def drawn(state: Arms, shape: tuple[int, ...]) -> jax.Array:
        noise = jax.random.gumbel(key_of_draw(state.key, state.turn), shape)
        noise = noise / jnp.sqrt(jnp.maximum(state.visits, 1)) if shrinks else noise
        unit = tau * arms.spread(state) if scale == "spread" else tau
        return state.mean + unit * noise

    def choose(state: Arms) -> jax.Array:
        return arms.best(arms.untried_first(state, drawn(state, (num_tasks,))))

    def choose_rows(state: Arms, count: int) -> jax.Array:
        return arms.best_rows(state.visits > 0, drawn(state, (count, num_tasks)))

    return arms.bandit(num_tasks, choose, choose_rows=choose_rows)
