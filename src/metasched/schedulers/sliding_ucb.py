"""UCB over a sliding window, for rewards that change abruptly."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from metasched.errors import number, one_of, whole_number
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler


class Window(NamedTuple):
    """The last τ batches as a ring: ``tasks`` int32 (τ,), N for empty places, ``rewards`` (τ,), ``turn`` int32 ()."""

    tasks: jax.Array
    rewards: jax.Array
    turn: jax.Array


def sliding_ucb(
    num_tasks: int, window: int = 200, upper: float = 1.0, xi: float = 0.6, scale: str = "spread"
) -> Scheduler:
    """θ_t = argmax_i μ_i(τ) + U·√(ξ·log min(t, τ) / V_i(τ)), over the last τ batches only.

    V_i(τ) counts the batches of task i in the window and μ_i(τ) is their mean reward. A task without batches in the
    window is tried again, so the window should be several times N.

    Reference: Garivier, Moulines, *On Upper-Confidence Bound Policies for Switching Bandit Problems*, ALT 2011.

    Args:
        num_tasks: N.
        window: τ, in batches.
        upper: U, the width of the bound.
        xi: ξ > 0.5.
        scale: ``"spread"`` or ``"fixed"``, as in :func:`~metasched.schedulers.ucb`.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> chooser = ms.Chooser(ms.schedulers.sliding_ucb(2, window=20), {"north": None, "south": None})
        >>> for _ in range(60):
        ...     draw = chooser.ask()
        ...     chooser.tell(draw, 1.0 if draw.source == "south" else 0.0)
        >>> chooser.shares()["south"] > 0.6
        True
    """
    length = whole_number("window", window, least=1, most=1_000_000)
    width = number("upper", upper, above=0)
    weight = number("xi", xi, above=0.5)
    one_of("scale", scale, arms.SCALES)

    def init(key: jax.Array) -> Window:
        return Window(jnp.full(length, num_tasks, jnp.int32), jnp.zeros(length, jnp.float32), jnp.int32(0))

    def select(state: Window, labels: jax.Array) -> jax.Array:
        time = jnp.clip(state.turn, 1, length).astype(jnp.float32)
        return arms.best(arms.upper_bound(_arms(state, num_tasks), time, width, weight, scale))

    def update(state: Window, labels: jax.Array, task: jax.Array, reward: jax.Array) -> Window:
        oldest = state.turn % length
        return Window(state.tasks.at[oldest].set(task), state.rewards.at[oldest].set(reward), state.turn + 1)

    return Scheduler(init, select, update)


def _arms(state: Window, num_tasks: int) -> Arms:
    """The window's rewards by task. Empty places belong to no task and drop out."""
    nothing = jnp.zeros(num_tasks, jnp.float32)
    visits = nothing.at[state.tasks].add(1, mode="drop")
    mean = nothing.at[state.tasks].add(state.rewards, mode="drop") / jnp.maximum(visits, 1)
    centred = state.rewards - mean.at[state.tasks].get(mode="fill", fill_value=0)
    scatter = nothing.at[state.tasks].add(centred**2, mode="drop")
    return Arms(jnp.zeros(0, jnp.uint32), state.turn, visits, mean, scatter)
