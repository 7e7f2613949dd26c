"""The Bellman operator in JAX: the same functions as the NumPy one, compiled for the device JAX finds.

Values are float64 on the device; the caller enters ``jax.enable_x64(True)`` around every call, so that the user's own
programs keep their precision.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metasched.planning.bellman import Bellman
from metasched.planning.checks import Floats
from metasched.planning.payoffs import Payoffs

LONG = 4096  # from this stride on, neighbours along an axis are too far apart for a cache to serve them twice


def jax_bellman(chains: Floats, payoffs: Payoffs, discount: float) -> Bellman:
    """The operator on JAX's default device, for chains (N, C, C). Call and use under ``jax.enable_x64(True)``."""
    tasks, classes, _ = chains.shape
    states = classes**tasks
    P = jnp.asarray(discount * chains)
    R = jax.jit(lambda: payoffs.table(tuple(range(tasks)), np.zeros(tasks, np.int64), jnp).reshape(tasks, states))()
    return Bellman(
        constant=lambda level: jnp.full(states, level),
        lowest=float(R.max(axis=0).min()),
        sweep=lambda V, _: _sweep(P, R, V),
        greedy=partial(_greedy, P, R),
        follow=lambda actions: lambda x, _: _follow(P, actions, x),
        rewards=lambda actions: jnp.take_along_axis(R, jnp.asarray(actions)[None], 0)[0],
        axpy=_axpy,
    )


def _move(P: Any, task: int, x: Any) -> Any:
    """γP_i x. Along a long stride as one product for each block; along a short one as a sum that fuses with its use."""
    tasks, classes, _ = P.shape
    after = classes ** (tasks - 1 - task)
    blocks = x.reshape(-1, classes, after)
    if after >= LONG:
        return jnp.matmul(jnp.broadcast_to(P[task], (len(blocks), classes, classes)), blocks).reshape(-1)
    terms = (P[task, :, label, None] * blocks[:, label, None, :] for label in range(classes))
    return sum(terms, start=jnp.zeros((), x.dtype)).reshape(-1)


@jax.jit
def _sweep(P: Any, R: Any, V: Any) -> Any:
    best = R[0] + _move(P, 0, V)
    for task in range(1, len(P)):
        best = jnp.maximum(best, R[task] + _move(P, task, V))
    return best


@jax.jit
def _greedy(P: Any, R: Any, V: Any, best: Any, tie: Any) -> Any:
    actions = jnp.full(V.shape, len(P) - 1, jnp.int8 if len(P) <= 127 else jnp.int32)
    for task in reversed(range(len(P) - 1)):
        actions = jnp.where(R[task] + _move(P, task, V) >= best - tie, actions.dtype.type(task), actions)
    return actions


@jax.jit
def _follow(P: Any, actions: Any, x: Any) -> Any:
    moved = _move(P, 0, x)
    for task in range(1, len(P)):
        moved = jnp.where(actions == task, _move(P, task, x), moved)
    return moved


@jax.jit
def _axpy(y: Any, a: Any, x: Any) -> Any:
    return y + a * x
