"""The Gittins index: what each label of a task is worth while the task is being drawn.

A task is a Markov chain over labels with matrix P that moves only when the task is chosen and then pays r(label).
With discount β the index of label c is the best rate of reward that a stopping time τ ≥ 1 can reach from c,

    ν(c) = max_τ  E[Σ_{t<τ} βᵗ r(c_t) | c₀ = c] / E[Σ_{t<τ} βᵗ | c₀ = c].

Choosing, again and again, the task whose present label has the largest index maximises the expected discounted
reward of any number of independent tasks (J. C. Gittins, Journal of the Royal Statistical Society B 41, 1979).

Substochastic rows: the missing mass is the chance that the task ends with that draw. After the end there are no rewards
and no time passes, so τ is at most the time of the end. A row of zeros, which :func:`transition_matrix` gives to a
label that never occurs, is the extreme case: ν(c) = r(c).
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from metasched.errors import DataError
from metasched.planning.checks import Floats, as_discount, as_floats, as_rewards, as_transitions

BLOCK = 64  # labels eliminated between two updates of a large matrix
SMALL = 32  # up to this many labels the matrix is updated at once
EPSILON = np.finfo(np.float64).eps
TIE = 16 * EPSILON  # indices closer than this, in units of the spread of r, are equal


def gittins_index(P: ArrayLike, r: ArrayLike, discount: float) -> Floats:
    """Gittins indices ν (…, C) of chains P (…, C, C) with rewards r (…, C), in O(C³) by eliminating labels.

    Each step takes the label with the largest ratio of discounted reward to discounted time, whose index that ratio
    is, and removes it from the chain: paths through it are folded into the labels that remain (I. M. Sonin, Statistics
    and Probability Letters 78, 2008).

    Accurate to about 1e-14 of the spread of r for discounts up to 1 − 1e-9: rewards are measured down from the
    largest, and 1 − P(c, c) is summed from its parts, so that no step subtracts (W. K. Grassmann, M. I. Taksar,
    D. P. Heyman, Operations Research 33, 1985). Labels of equal index come out exactly equal when rounding alone
    separates them. A row may exceed one by 1e-6, as rows made in float32 do, and counts as stochastic.

    Args:
        P: transition matrices; their leading dimensions and those of r broadcast, so that one call serves all tasks.
        r: rewards of the labels.
        discount: β in [0, 1).

    Returns:
        ν (…, C).

    Examples:
        >>> ms.planning.gittins_index([[0, 1], [1, 0]], [0.0, 1.0], 0.5).round(6)
        array([0.333333, 1.      ])
    """
    beta = as_discount(discount)
    matrix = as_transitions(P)
    rewards = as_floats(r, "r")
    size = matrix.shape[-1]
    try:
        batch = np.broadcast_shapes(matrix.shape[:-2], rewards.shape[:-1])
    except ValueError:
        batch = None
    if batch is None or rewards.shape[-1:] != (size,):
        raise DataError(f"r has shape {rewards.shape}, P {matrix.shape}; give one reward for each label of each matrix")
    matrix = np.broadcast_to(matrix, (*batch, size, size)).reshape(-1, size, size)
    rewards = np.broadcast_to(rewards, (*batch, size)).reshape(-1, size)
    return eliminate(matrix, rewards, beta).reshape(*batch, size)


def largest_remaining_index(P: ArrayLike, r: ArrayLike, discount: float) -> Floats:
    """The same indices of one chain by the paper's algorithm, in O(C⁴): short, plain, and for checking.

    Labels join the continuation set in order of their index. With Q the columns of P that belong to the set so far,

        d = (I − βQ)⁻¹ r,   b = (I − βQ)⁻¹ 1,   ν(α) = d(α) / b(α) for the α outside the set where it is largest

    (P. Varaiya, J. Walrand, C. Buyukkoc, IEEE Transactions on Automatic Control 30, 1985).

    Args:
        P: transition matrix (C, C).
        r: rewards (C,).
        discount: β in [0, 1).

    Returns:
        ν (C,).

    Examples:
        >>> ms.planning.largest_remaining_index([[0, 1], [1, 0]], [0.0, 1.0], 0.5).round(6)
        array([0.333333, 1.      ])
    """
    beta = as_discount(discount)
    matrix = as_transitions(P)
    if matrix.ndim != 2:
        raise DataError(f"P has shape {matrix.shape}; give one chain (C, C)")
    size = len(matrix)
    rewards = as_rewards(r, (size,))
    index = np.empty(size)
    outside = np.ones(size, dtype=bool)
    for _ in range(size):
        Q = np.where(outside, 0.0, matrix)
        d, b = np.linalg.solve(np.eye(size) - beta * Q, np.stack([rewards, np.ones(size)], axis=1)).T
        best = np.argmax(np.where(outside, d / b, -np.inf))
        index[best] = d[best] / b[best]
        outside[best] = False
    return index


def eliminate(matrix: Floats, rewards: Floats, beta: float) -> Floats:
    """The indices (B, C) of a batch of chains (B, C, C) with rewards (B, C).

    ``Q`` holds discounted transitions between the labels that remain. From one visit of such a label up to the next,
    ``totals`` has the discounted reward paid, the discounted time, and the leak: the chance that there is no next
    visit, by discount or because the task ends; Σ Q + leak = 1 throughout. Removing label p turns each total g(x)
    into g(x) + f(x)·g(p) and Q into Q + f ⊗ Q(p, ·), with f(x) = Q(x, p) / (1 − Q(p, p)). These rank-one updates are
    kept aside, as ``F`` and ``U``, and applied to all of a large Q once for each block of labels.
    """
    count, size, _ = matrix.shape
    top = rewards.max(axis=1, keepdims=True)
    missing = 1 - matrix.sum(axis=2)
    leak = (1 - beta) + beta * np.where(missing > 8 * size * EPSILON, missing, 0.0)
    totals = np.stack([rewards - top, np.ones_like(rewards), leak])  # reward, time, leak
    Q = beta * matrix
    scratch = np.empty_like(Q)
    labels = np.broadcast_to(np.arange(size), (count, size))
    each = np.arange(count)
    order, index = np.empty((count, size), np.int64), np.empty((count, size))
    delayed = size > SMALL
    for done in range(0, size, BLOCK):
        remaining = size - done
        steps = min(BLOCK, remaining)
        F, U = np.empty((2, count, steps, remaining))
        present = np.ones((count, remaining), bool)
        for k in range(steps):
            ratio = totals[0] / totals[1]
            pivot = ratio.argmax(axis=1)
            order[:, done + k], index[:, done + k] = labels[each, pivot], ratio[each, pivot]
            of_pivot = totals[:, each, pivot]
            present[each, pivot], totals[0, each, pivot] = False, -np.inf  # never chosen again
            row, column = Q[each, pivot], Q[each, :, pivot]
            if delayed and k:
                row += _combine(F[each, :k, pivot], U[:, :k])
                column += _combine(U[each, :k, pivot], F[:, :k])
            row *= present
            column[each, pivot] = 0.0
            column /= (row.sum(axis=1) + of_pivot[2])[:, None]
            totals += column * of_pivot[:, :, None]
            if delayed:
                F[:, k], U[:, k] = column, row
            else:
                Q += column[:, :, None] * row[:, None, :]
        if steps < remaining:
            kept = np.nonzero(present)[1].reshape(count, -1)
            labels, totals = np.take_along_axis(labels, kept, 1), np.take_along_axis(totals, kept[None], 2)
            rows = _view(scratch, (count, remaining - steps, remaining))
            smaller = (count, remaining - steps, remaining - steps)
            for one, those in enumerate(kept):
                np.take(Q[one], those, 0, out=rows[one], mode="clip")
            Q = _view(Q, smaller)
            for one, those in enumerate(kept):
                np.take(rows[one], those, 1, out=Q[one], mode="clip")
            F, U = (np.stack([part.take(c, 1) for part, c in zip(parts, kept, strict=True)]) for parts in (F, U))
            Q += np.matmul(F.transpose(0, 2, 1), U, out=_view(scratch, smaller))
    result = np.empty((count, size))
    np.put_along_axis(result, order, _level(index, TIE * (top - rewards.min(axis=1, keepdims=True))) + top, 1)
    return result


def _combine(weights: Floats, vectors: Floats) -> Floats:
    """Σ_k weights (B, k) · vectors (B, k, C), for each of a batch: (B, C)."""
    combined: Floats = (weights[:, None, :] @ vectors)[:, 0]
    return combined


def _view(memory: Floats, shape: tuple[int, ...]) -> Floats:
    """The first entries of ``memory`` in another shape. Fresh memory for a large matrix costs more than the sums."""
    base = memory if memory.base is None else memory.base
    return base.reshape(-1)[: math.prod(shape)].reshape(shape)


def _level(index: Floats, tie: Floats) -> Floats:
    """Indices (B, C) in order of elimination, made to fall. Steps up or down within ``tie`` (B, 1) are removed."""
    falling = np.minimum.accumulate(index, axis=1)
    drops = np.diff(falling, axis=1, prepend=np.inf) < -tie
    start = np.maximum.accumulate(np.where(drops, np.arange(index.shape[1]), 0), axis=1)
    levelled: Floats = np.take_along_axis(falling, start, 1)
    return levelled


def gittins_index_jax(P: jax.Array, r: jax.Array, discount: float) -> jax.Array:
    """Indices (N, C) of N chains P (N, C, C) with rewards r (N, C) in JAX, to be computed again during training.

    The algorithm of :func:`gittins_index` without its blocks, one label at a time: O(C³), in the precision of ``r``.
    A label that never occurs (a row of zeros) has its reward as its index.
    """
    return jax.vmap(lambda matrix, rewards: _one_chain_jax(matrix, rewards, discount))(P, r)


def _one_chain_jax(P: jax.Array, r: jax.Array, discount: float) -> jax.Array:
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
    index: jax.Array = jax.lax.fori_loop(0, size, eliminate, start)[2]
    return index + top
