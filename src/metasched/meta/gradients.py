"""Three exact ways to carry a derivative back through the inner loop; they differ in memory and in arithmetic.

With w' = w − ρ ⊙ g(w), g the gradient of a batch's loss, and v the derivative of the outer loss by w', that by w is
v − H(ρ ⊙ v), H the Hessian of the batch's loss; by the rate ρ it is −v ⊙ g.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from metasched.meta.inner import (
    Adapted,
    Batch,
    Data,
    Knobs,
    Stream,
    Tuned,
    Walk,
    batch_numbers,
    first_walk,
    one_batch,
    trained_arrays,
)
from metasched.meta.networks import Weights
from metasched.meta.objective import Learner, Rows, task_loss


def adapt(learner: Learner, data: Data, tuned: Tuned, stream: Stream, knobs: Knobs) -> Adapted:
    """Train from ``tuned.weights`` on m scheduled batches of B rows; differentiable by all of ``tuned``."""
    match learner.config.gradient:
        case "stored" | "auto":
            return _stored(learner, data, tuned, stream, knobs)
        case "remat":
            return _rematerialised(learner, data, tuned, stream, knobs)
        case _:
            return _scanned(learner, data, tuned, stream, knobs)


def _scanned(learner: Learner, data: Data, tuned: Tuned, stream: Stream, knobs: Knobs) -> Adapted:
    """JAX keeps every intermediate value of every step: least arithmetic, most memory."""

    def step(walk: Walk, number: jax.Array) -> tuple[Walk, jax.Array]:
        walk, (chosen, _, _) = one_batch(learner, data, tuned, knobs, walk, number)
        return walk, chosen

    walk, tasks = lax.scan(step, first_walk(learner, data, tuned, stream), batch_numbers(learner.config))
    return Adapted(walk.weights, walk.stream, tasks)


def _rematerialised(learner: Learner, data: Data, tuned: Tuned, stream: Stream, knobs: Knobs) -> Adapted:
    """√m segments: only the weights between segments are kept, and each segment is walked again on the way back."""
    numbers = batch_numbers(learner.config)
    length = max(1, math.isqrt(len(numbers)))
    whole = len(numbers) // length * length

    @jax.checkpoint
    def segment(carry: tuple[Walk, Tuned], numbers: jax.Array) -> tuple[Walk, jax.Array]:
        walk, tuned = carry

        @jax.checkpoint
        def step(walk: Walk, number: jax.Array) -> tuple[Walk, jax.Array]:
            walk, (chosen, _, _) = one_batch(learner, data, tuned, knobs, walk, number)
            return walk, chosen

        return lax.scan(step, walk, numbers)

    def several(walk: Walk, numbers: jax.Array) -> tuple[Walk, jax.Array]:
        after: tuple[Walk, jax.Array] = segment((walk, tuned), numbers)
        return after

    walk, first = lax.scan(several, first_walk(learner, data, tuned, stream), numbers[:whole].reshape(-1, length))
    walk, rest = several(walk, numbers[whole:])
    return Adapted(walk.weights, walk.stream, jnp.concatenate([first.reshape(-1), rest]))


def _stored(learner: Learner, data: Data, tuned: Tuned, stream: Stream, knobs: Knobs) -> Adapted:
    """Only the weights before each step are kept; the way back takes one Hessian-vector product for each step.

    The product is forward-over-reverse: the tangent of (∂loss/∂w, ∂loss/∂emphasis) in the direction (ρ ⊙ v, 0) is
    (H(ρ ⊙ v), the mixed derivative that the emphasis needs), and the gradient g itself comes along.
    """

    def walk_all(tuned: Tuned, data: Data, stream: Stream, knobs: Knobs) -> tuple[Adapted, Any]:
        walk, (tasks, batches, weights) = lax.scan(
            partial(one_batch, learner, data, tuned, knobs),
            first_walk(learner, data, tuned, stream),
            batch_numbers(learner.config),
        )
        return Adapted(walk.weights, walk.stream, tasks), (tuned, data, batches, weights)

    @jax.custom_vjp
    def walked(tuned: Tuned, data: Data, stream: Stream, knobs: Knobs) -> Adapted:
        return walk_all(tuned, data, stream, knobs)[0]

    def backward(kept: Any, cotangent: Adapted) -> tuple[Tuned, None, None, None]:
        tuned, data, batches, weights = kept
        return _walk_back(learner, tuned, data, batches, weights, cotangent.weights), None, None, None

    walked.defvjp(walk_all, backward)
    return walked(tuned, data, stream, knobs)


def _walk_back(
    learner: Learner, tuned: Tuned, data: Data, batches: Batch, weights: Weights, cotangent: Weights
) -> Tuned:
    """Derivatives by ``tuned`` from the weights (m, R, …) before every step and the derivative by the last ones."""
    trained = trained_arrays(learner.network, tuned.weights, learner.config)

    def unstep(rows: Any, head: jax.Array, emphasis: jax.Array | None, carry: Any, before: Weights) -> tuple[Any, None]:
        by_weights, by_rates, by_emphasis = carry
        direction = jax.tree.map(
            lambda v, rate, moves: rate * v if moves else jnp.zeros_like(v), by_weights, tuned.rates, trained
        )
        slope = jax.grad(
            lambda w, e: task_loss(learner, w, e, rows, head), argnums=(0,) if emphasis is None else (0, 1)
        )
        still = None if emphasis is None else jnp.zeros_like(emphasis)
        (gradient, *_), (bend, *mixed) = jax.jvp(slope, (before, emphasis), (direction, still))
        by_rates = jax.tree.map(
            lambda total, v, g, moves: total - _summed_like(total, v * g) if moves else total,
            by_rates,
            by_weights,
            gradient,
            trained,
        )
        by_weights = jax.tree.map(jnp.subtract, by_weights, bend)
        return (by_weights, by_rates, None if emphasis is None else by_emphasis - mixed[0]), None

    def unfit(carry: Tuned, kept: tuple[Batch, Weights]) -> tuple[Tuned, None]:
        batch, before = kept
        emphasis = None if tuned.emphasis is None else tuned.emphasis[batch.rows]
        back = partial(unstep, data.sources.take(batch.rows), learner.heads.of_task(batch.task), emphasis)
        first = (carry.weights, carry.rates, None if emphasis is None else jnp.zeros_like(emphasis))
        (by_weights, by_rates, by_emphasis), _ = lax.scan(back, first, before, reverse=True)
        if learner.config.abstain:
            by_weights, by_rates = jax.tree.map(
                lambda new, old: jnp.where(batch.trains, new, old),
                (by_weights, by_rates),
                (carry.weights, carry.rates),
            )
            by_emphasis = None if by_emphasis is None else by_emphasis * batch.trains
        total = carry.emphasis
        if total is not None and by_emphasis is not None:
            total = total.at[batch.rows].add(by_emphasis)
        return Tuned(by_weights, by_rates, total), None

    nothing = jax.tree.map(jnp.zeros_like, (tuned.rates, tuned.emphasis))
    result, _ = lax.scan(unfit, Tuned(cotangent, *nothing), (batches, weights), reverse=True)
    return result


def _loss_of(learner: Learner, rows: Rows, head: jax.Array) -> Callable[..., jax.Array]:
    """A batch's loss as a function of the weights and, where rows have weights, of the emphasis."""

    def loss(weights: Weights, emphasis: jax.Array | None = None) -> jax.Array:
        return task_loss(learner, weights, emphasis, rows, head)

    return loss


def _summed_like(rate: jax.Array, values: jax.Array) -> jax.Array:
    """Values summed to a scalar where the rate is one number for the whole array."""
    return values if rate.shape == values.shape else values.sum()
