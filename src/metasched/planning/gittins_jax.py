"""The Gittins index as a traceable function, for indices that are computed again while training runs."""

import jax
import jax.numpy as jnp
from jax import lax


def gittins_index_jax(P: jax.Array, r: jax.Array, discount: float) -> jax.Array:
    """Indices (N, C) of N chains P (N, C, C) with rewards r (N, C), by eliminating labels one at a time.

    The algorithm of :func:`metasched.planning.gittins_index` without its blocks: O(C³), in the precision of ``r``. A
    label that never occurs (a row of zeros) has its reward as its index.
    """
    return jax.vmap(lambda matrix, rewards: _one_chain(matrix, rewards, discount))(P, r)


def _one_chain(P: jax.Array, r: jax.Array, discount: float) -> jax.Array:
    size = len(r)
    top = r.max()
    leak = 1 - discount * jnp.minimum(P.sum(axis=1), 1)
    totals = jnp.stack([r - top, jnp.ones_like(r), leak])  # reward, time, chance of no further visit

    def eliminate(_: int, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        Q, totals, index, present = state
        ratio = jnp.where(present, totals[0] / totals[1], -jnp.inf)
        pivot = ratio.argmax()
        index = index.at[pivot].set(ratio[pivot])
        present = present.at[pivot].set(False)
        row, column = Q[pivot] * present, Q[:, pivot] * present
        column = column / (row.sum() + totals[2, pivot])
        return Q + jnp.outer(column, row), totals + column * totals[:, pivot, None], index, present

    start = (discount * P, totals, jnp.zeros_like(r), jnp.ones(size, bool))
    index: jax.Array = lax.fori_loop(0, size, eliminate, start)[2]
    return index + top
