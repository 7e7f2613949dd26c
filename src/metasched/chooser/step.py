"""One compiled step: update with what was told, suppose what is under way, choose."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metasched.chooser.mixture import Mixture
from metasched.schedulers.base import State

Step = Callable[..., tuple[State, jax.Array, jax.Array]]
_AT_ONCE = 512


def room_for(number: int) -> int:
    """A power of two, at least 8: few sizes, so that few programs are compiled."""
    return 1 << max(number - 1, 7).bit_length()


@lru_cache(maxsize=64)
def compiled(mixture: Mixture) -> Step:
    """``step(state, draws, rewards, told, total) -> (state, choice, its chance)``, in one dispatch.

    The first ``told`` draws are real updates, those up to ``total`` supposed ones on a copy, where the choice is made.
    A row of ``draws`` is an arm and the labels of its draw, the last row the labels now: one array, because each costs.
    The chance is 1 where nobody asks for it.
    """
    scheduler, chances = mixture

    @jax.jit
    def step(
        state: State, draws: jax.Array, rewards: jax.Array, told: int, total: int
    ) -> tuple[State, jax.Array, jax.Array]:
        def add(place: int, state: State) -> State:
            return scheduler.update(state, draws[place, 1:], draws[place, 0], rewards[place])

        state = jax.lax.fori_loop(0, told, add, state)
        supposed, labels = jax.lax.fori_loop(told, total, add, state), draws[-1, 1:]
        choice = scheduler.select(supposed, labels)
        return state, choice, jnp.float32(1) if chances is None else chances(supposed, labels)[choice]

    return step


def first_state(mixture: Mixture, seed: int, changes: int) -> State:
    """The state before any reward; ``changes`` of the sources each start a stream of chance of their own."""
    key = jax.random.key(seed)
    key = jax.random.fold_in(key, changes) if changes else key
    return jax.device_put(mixture.scheduler.init(key), jax.local_devices(backend="cpu")[0])


def replayed(step: Step, state: State, draws: NDArray[np.int32], rewards: NDArray[np.float32]) -> State:
    """The state after these draws (tells, 1 + N), each an arm and its labels, with their rewards (tells,)."""
    for place in range(0, len(draws), _AT_ONCE):
        part = slice(place, place + _AT_ONCE)
        number = len(draws[part])
        padded, heard = np.zeros((_AT_ONCE + 1, draws.shape[1]), np.int32), np.zeros(_AT_ONCE + 1, np.float32)
        padded[:number], heard[:number] = draws[part], rewards[part]
        state, _, _ = step(state, padded, heard, number, number)
    return state


def named(state: State) -> dict[str, NDArray[Any]]:
    """The arrays of a scheduler's state by name."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {"scheduler" + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}
