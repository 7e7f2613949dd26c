"""The Bellman operator of N resting chains, one matrix product for each task and never a Cᴺ × Cᴺ matrix.

Drawing from task i moves s_i by P_i and leaves all other labels unchanged, so (P_i V)(s) = Σ_c P_i[s_i, c] V(s with s_i
= c): a product along axis i of the value table V (C, …, C). Tables are handled as vectors of length Cᴺ, last task
fastest.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metasched.planning.checks import Floats
from metasched.planning.payoffs import Payoffs

LONG = 4096  # from this stride on, neighbours along an axis are too far apart for a cache to serve them twice
VECTORS = 10  # value-sized vectors that a solver holds besides the rewards


class Bellman(NamedTuple):
    """Functions on value vectors of length Cᴺ, of NumPy or of JAX.

    ``constant(level)`` is the vector of equal entries, ``lowest`` the smallest best reward of a state.
    ``sweep(V, out)`` is TV(s) = max_i r(s, i) + γ(P_i V)(s); ``greedy(V, TV, tie)`` is the lowest task in each state
    whose value is within ``tie`` of TV; ``follow(actions)`` is the function (x, out) ↦ γP_a x for the policy a =
    ``actions``; ``rewards(actions)`` is r(s, a(s)); ``axpy(y, a, x)`` is y + a·x. NumPy writes results into ``out``
    and ``y``, since memory fresh from the system costs more than the arithmetic; JAX ignores ``out``.
    """

    constant: Callable[[float], Any]
    lowest: float
    sweep: Callable[[Any, Any], Any]
    greedy: Callable[[Any, Any, float], Any]
    follow: Callable[[Any], Callable[[Any, Any], Any]]
    rewards: Callable[[Any], Any]
    axpy: Callable[[Any, float, Any], Any]


def table_bytes(tasks: int, classes: int) -> int:
    """The bytes a solver needs: rewards, the chosen task of each state, vectors. An integer, however astronomical."""
    return int(classes**tasks) * (8 * (2 * tasks + VECTORS) + 1)


def numpy_bellman(chains: Floats, payoffs: Payoffs, discount: float) -> Bellman:
    """The operator in float64 on the host, for chains (N, C, C)."""
    tasks, classes, _ = chains.shape
    states = classes**tasks
    discounted = discount * chains
    R = payoffs.table(tuple(range(tasks)), np.zeros(tasks, np.int64)).reshape(tasks, states)
    scratch = np.empty(states)

    def move(task: int, x: Floats, out: Floats) -> Floats:
        """γP_i x into ``out``."""
        after = classes ** (tasks - 1 - task)
        if after == 1:
            np.matmul(x.reshape(-1, classes), discounted[task].T, out=out.reshape(-1, classes))
        else:
            np.matmul(discounted[task], x.reshape(-1, classes, after), out=out.reshape(-1, classes, after))
        return out

    def sweep(V: Floats, out: Floats | None = None) -> Floats:
        best = move(0, V, np.empty(states) if out is None else out)
        best += R[0]
        for task in range(1, tasks):
            value = move(task, V, scratch)
            value += R[task]
            np.maximum(best, value, out=best)
        return best

    def greedy(V: Floats, best: Floats, tie: float) -> Any:
        actions = np.full(states, tasks - 1, np.int8 if tasks <= 127 else np.int64)
        bar = best - tie
        for task in reversed(range(tasks - 1)):
            value = move(task, V, scratch)
            value += R[task]
            np.copyto(actions, task, where=value >= bar)
        return actions

    def follow(actions: Any) -> Callable[[Floats, Floats | None], Floats]:
        chosen = [(actions == task).astype(np.float64) for task in range(tasks)]  # multiplying is faster than masking

        def moved(x: Floats, out: Floats | None = None) -> Floats:
            total = move(0, x, np.empty(states) if out is None else out)
            total *= chosen[0]
            for task in range(1, tasks):
                part = move(task, x, scratch)
                part *= chosen[task]
                total += part
            return total

        return moved

    def axpy(y: Floats, a: float, x: Floats) -> Floats:
        y += np.multiply(x, a, out=scratch)
        return y

    return Bellman(
        constant=lambda level: np.full(states, level),
        lowest=float(R.max(axis=0).min()),
        sweep=sweep,
        greedy=greedy,
        follow=follow,
        rewards=lambda actions: R[actions, np.arange(states)],
        axpy=axpy,
    )


def jax_bellman(chains: Floats, payoffs: Payoffs, discount: float) -> Bellman:
    """The operator on JAX's default device, in float64, for chains (N, C, C).

    Call and use it under ``jax.enable_x64(True)``, around these calls alone, so that the user's own programs keep their
    precision.
    """
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
