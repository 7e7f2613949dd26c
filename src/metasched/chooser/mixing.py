"""Fixed proportions, alone or under a scheduler that learns, and the chance with which a source is drawn.

With proportions p and a share λ, a draw follows p with probability λ and the scheduler otherwise: q = λ·p + (1 − λ)·s.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metasched.chooser.sources import Source
from metasched.errors import ConfigError
from metasched.schedulers.base import Scheduler, State, key_of_draw

REDRAWS = 1024
"""How often a random scheduler is asked again, with other keys, to count how likely it was to choose each source."""
_APART = 0x6D697865
"""Folded into keys, so that the mixture's random numbers are independent of those of the scheduler in it."""


class MixtureState(NamedTuple):
    """Key data, draws told so far int32 (), and the state of the scheduler inside."""

    key: jax.Array
    turn: jax.Array
    inner: State


class Mixture(NamedTuple):
    """A scheduler and, where they are wanted, ``chances(state, labels) -> (arms,)`` of its next choice."""

    scheduler: Scheduler
    chances: Callable[[State, jax.Array], jax.Array] | None = None


def proportions(
    sources: Sequence[Source], weights: Sequence[float] | None, temperature: float | None
) -> NDArray[np.float64]:
    """p_i ∝ w_i^(1/T); w are the weights or, where only a temperature is given, the sizes; with neither, all equal."""
    if weights is None and temperature is None:
        return np.full(len(sources), 1 / len(sources))
    if weights is None:
        streams = [source.name for source in sources if source.size is None]
        if streams:
            raise ConfigError(f"source '{streams[0]}' has no size for temperature to act on; give weights")
        weights = [float(source.size or 0) for source in sources]
    given = np.array(weights, np.float64)
    if given.max() == 0:
        raise ConfigError("the weights are all 0; give at least one source some weight")
    given = (given / given.max()) ** (1 / (temperature or 1.0))
    shares: NDArray[np.float64] = given / given.sum()
    return shares


def mixed(scheduler: Scheduler, shares: NDArray[np.float64], least: float, prior: float) -> Mixture:
    """``scheduler``, but a share λ_t = max(least, prior / (prior + t)) of the draws follows ``shares`` (arms,).

    ``prior`` is how many draws the proportions are worth: after so many, half of the draws are the scheduler's. It is
    told every reward, whoever chose.
    """
    chosen = np.log(np.maximum(shares, 1e-300)).astype(np.float32)
    exact = np.asarray(shares, np.float32)

    def share(turn: jax.Array) -> jax.Array:
        return jnp.maximum(least, prior / (prior + turn)) if prior > 0 else jnp.float32(least)

    def init(key: jax.Array) -> MixtureState:
        return MixtureState(jax.random.key_data(jax.random.fold_in(key, _APART)), jnp.int32(0), scheduler.init(key))

    def select(state: MixtureState, labels: jax.Array) -> jax.Array:
        whether, which = jax.random.split(key_of_draw(state.key, state.turn))
        by_share = jax.random.categorical(which, jnp.asarray(chosen)).astype(jnp.int32)
        follows = jax.random.uniform(whether) < share(state.turn)
        return jnp.where(follows, by_share, scheduler.select(state.inner, labels))

    def update(state: MixtureState, labels: jax.Array, task: jax.Array, reward: jax.Array) -> MixtureState:
        return MixtureState(state.key, state.turn + 1, scheduler.update(state.inner, labels, task, reward))

    def chances(state: MixtureState, labels: jax.Array) -> jax.Array:
        part = share(state.turn)
        return part * jnp.asarray(exact) + (1 - part) * _chances_alone(scheduler, state.inner, labels, len(exact))

    return Mixture(Scheduler(init, select, update, scheduler.family), chances)


def _chances_alone(scheduler: Scheduler, state: Any, labels: jax.Array, arms: int) -> jax.Array:
    """How likely each arm is: counted over other keys, or certain where the state has no ``key`` to draw with."""
    if "key" not in getattr(state, "_fields", ()):
        return jax.nn.one_hot(scheduler.select(state, labels), arms)
    other = jax.random.fold_in(key_of_draw(state.key, getattr(state, "turn", jnp.int32(0))), _APART)
    keys = jax.vmap(jax.random.key_data)(jax.random.split(other, REDRAWS))
    redrawn = jax.vmap(lambda key: scheduler.select(state._replace(key=key), labels))(keys)
    return jnp.bincount(redrawn, length=arms) / REDRAWS
