"""Optimal values of the joint problem, with a certificate.

The value V* solves V = TV for the Bellman operator T of :mod:`metasched.planning.bellman`. The solver starts from
below, V = min_s max_i r(s, i) / (1 − γ), and applies T, which is enough for moderate discounts. After ``SWEEPS``
applications it switches to policy iteration: the value of the greedy policy a solves (I − γP_a) V = r_a, a linear
system whose matrix is known only through products and is solved by BiCGSTAB (H. A. van der Vorst, SIAM Journal on
Scientific and Statistical Computing 13, 1992). The work then hardly depends on the discount. The allowed error of that
solution is a tenth of the present residual divided by the horizon 1 / (1 − γ). With a looser bound, policies cycle near
γ = 1.

Whatever the path, the result is certified by one more application of T: with d = TV − V every state's V* lies between
V + min d / (1 − γ) and V + max d / (1 − γ) (J. MacQueen, Journal of Mathematical Analysis and Applications 14, 1966).
The returned V is shifted to the middle of that interval, which halves the span of d into the residual max |TV − V|.
Shifting only at the end is deliberate: chains that rest have many recurrent classes, and shifts in between may not
converge.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from metasched.planning.bellman import Bellman

SWEEPS = 100
CHECK = 5  # the number of sweeps between two checks of the residual
EPSILON = float(np.finfo(np.float64).eps)


class Solution(NamedTuple):
    """Values and actions of all joint states as vectors, max |TV − V|, and how many tables were swept."""

    value: Any
    actions: Any
    residual: float
    iterations: int


def optimal(bellman: Bellman, discount: float, tolerance: float, max_iterations: int) -> Solution:
    """The optimal values to a residual of ``tolerance``, or of rounding where that is larger."""
    V = bellman.constant(bellman.lowest / (1 - discount))
    improved = bellman.sweep(V, None)
    sweeps = 1
    while sweeps < min(SWEEPS, max_iterations) and (sweeps % CHECK or _half_span(improved - V) > tolerance):
        V, improved = improved, bellman.sweep(improved, V)
        sweeps += 1
    while sweeps < max_iterations and _half_span(improved - V) > max(tolerance, _rounding(V)):
        actions = bellman.greedy(V, improved, _rounding(V))
        improved -= V
        allowed = max(0.1 * tolerance, 0.1 * (1 - discount) * _largest(improved), _rounding(V))
        V, used = _evaluate(bellman, actions, V, improved, allowed, max_iterations - sweeps)
        improved = bellman.sweep(V, improved)
        sweeps += used + 2
    V, gap = improved, improved - V
    V += discount / (1 - discount) * 0.5 * (float(gap.max()) + float(gap.min()))
    improved = bellman.sweep(V, gap)
    return Solution(V, bellman.greedy(V, improved, _rounding(V)), _largest(improved - V), sweeps + 2)


def value_of(bellman: Bellman, discount: float, actions: Any, tolerance: float = 1e-10) -> Solution:
    """The value of the policy ``actions`` (Cᴺ,) instead of the best one; the residual is max |r_a + γP_a V − V|."""
    V = bellman.constant(bellman.lowest / (1 - discount))
    rewards, follow = bellman.rewards(actions), bellman.follow(actions)
    gap = rewards + follow(V, None) - V
    V, used = _evaluate(bellman, actions, V, gap, max(tolerance, _rounding(V)), 100_000)
    return Solution(V, actions, _largest(rewards + follow(V, None) - V), used + 2)


def _evaluate(bellman: Bellman, actions: Any, V: Any, gap: Any, allowed: float, max_products: int) -> tuple[Any, int]:
    """V + x with (I − γP_a) x = gap up to ``allowed``, and the number of products.

    BiCGSTAB updates its residual by recursion. The true residual is computed when it stops, and the solver starts again
    if the two have drifted apart.
    """
    follow = bellman.follow(actions)
    used = 0

    def system(x: Any, out: Any) -> Any:
        y = follow(x, out)
        y *= -1.0
        y += x
        return y

    for _ in range(5):
        x, spare, products = _bicgstab(system, bellman.axpy, gap, 0.5 * allowed, max_products - used)
        V = bellman.axpy(V, 1.0, x)
        gap = bellman.axpy(gap, -1.0, system(x, spare))
        used += products + 1
        if _largest(gap) <= allowed or used >= max_products:
            break
    return V, used


def _bicgstab(
    system: Callable[[Any, Any], Any], axpy: Callable[[Any, float, Any], Any], b: Any, allowed: float, max_products: int
) -> tuple[Any, Any, int]:
    """The x with |b − system(x)| ≤ ``allowed``, as far as the recursion is right; a spare vector; products spent."""
    x, r, direction = 0.0 * b, 1.0 * b, 1.0 * b
    moved = turned = None
    rho = float(b @ r)
    used = 0
    while used < max_products and _largest(r) > allowed:
        moved = system(direction, moved)
        used += 1
        along = float(b @ moved)
        if along == 0.0:
            break
        alpha = rho / along
        r = axpy(r, -alpha, moved)
        x = axpy(x, alpha, direction)
        turned = system(r, turned)
        used += 1
        size = float(turned @ turned)
        omega = float(turned @ r) / size if size else 0.0
        x = axpy(x, omega, r)
        r = axpy(r, -omega, turned)
        previous, rho = rho, float(b @ r)
        if omega == 0.0 or rho == 0.0:
            break
        direction = axpy(direction, -omega, moved)
        direction *= (rho / previous) * (alpha / omega)
        direction += r
    return x, moved, used


def _largest(x: Any) -> float:
    return max(float(x.max()), -float(x.min()))


def _half_span(x: Any) -> float:
    return 0.5 * (float(x.max()) - float(x.min()))


def _rounding(V: Any) -> float:
    """The part of TV − V that rounding alone leaves."""
    return 4 * EPSILON * _largest(V)
