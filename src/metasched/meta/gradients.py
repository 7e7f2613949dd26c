"""Three exact ways to carry a derivative back through the inner loop; they differ in memory and in arithmetic.

With w' = w − ρ ⊙ g(w), g the gradient of a batch's loss, and v the derivative of the outer loss by w', that by w is
v − H(ρ ⊙ v), H the Hessian of the batch's loss; by the rate ρ it is −v ⊙ g.
"""

import math
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
    Rates,
    Stream,
    Tuned,
    Walk,
    batch_numbers,
    first_walk,
    one_batch,
    rates_by_array,
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
    """Only the weights before each step are kept; the way back takes one Hessian-vector product for each step."""

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

    def unfit(carry: Tuned, kept: tuple[Batch, Weights]) -> tuple[Tuned, None]:
        batch, before = kept
        rows, head = data.sources.take(batch.rows), learner.heads.of_task(batch.task)
        emphasis = None if tuned.emphasis is None else tuned.emphasis[batch.rows]
        first = carry._replace(emphasis=None if emphasis is None else jnp.zeros_like(emphasis))

        def unstep(so_far: Tuned, before: Weights) -> tuple[Tuned, None]:
            by_step = _step_back(learner, tuned._replace(weights=before, emphasis=emphasis), rows, head, so_far.weights)
            return jax.tree.map(jnp.subtract, so_far, by_step), None

        back, _ = lax.scan(unstep, first, before, reverse=True)
        if learner.config.abstain:
            back = jax.tree.map(lambda new, old: jnp.where(batch.trains, new, old), back, first)
        total = carry.emphasis
        if total is not None and back.emphasis is not None:
            total = total.at[batch.rows].add(back.emphasis)
        return back._replace(emphasis=total), None

    nothing = jax.tree.map(jnp.zeros_like, (tuned.rates, tuned.emphasis))
    result, _ = lax.scan(unfit, Tuned(cotangent, *nothing), (batches, weights), reverse=True)
    return result


def _step_back(learner: Learner, tuned: Tuned, rows: Rows, head: jax.Array, v: Weights) -> Tuned:
    """What one step subtracts from the derivatives: that of φ = ⟨ρ ⊙ v, g(w)⟩ by the weights, rates and emphasis.

    φ is the derivative of the loss in the direction ρ ⊙ v, found in forward mode, so this is reverse over forward: the
    gradient g itself is never formed. With one rate for all, ∂φ/∂ρ is φ/ρ.
    """
    trained = trained_arrays(learner.network, tuned.weights, learner.config)
    one_rate = learner.config.inner_rates == "scalar"

    def phi(weights: Weights, emphasis: jax.Array | None, rates: Rates) -> jax.Array:
        direction = jax.tree.map(
            lambda v, rate, moves: rate * v if moves else jnp.zeros_like(v), v, rates_by_array(rates, v), trained
        )
        slope: jax.Array = jax.jvp(
            lambda weights: task_loss(learner, weights, emphasis, rows, head), (weights,), (direction,)
        )[1]
        return slope

    wanted = (0,) if one_rate else (0, 2)
    wanted = wanted if tuned.emphasis is None else (*wanted, 1)
    value, slopes = jax.value_and_grad(phi, argnums=wanted)(tuned.weights, tuned.emphasis, tuned.rates)
    found = dict(zip(wanted, slopes, strict=True))
    return Tuned(found[0], value / tuned.rates if one_rate else found[2], found.get(1))
