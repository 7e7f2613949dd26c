"""How the meta-gradient is computed: estimators by name. A new estimator is a function and a line in ``_REGISTRY``.

Three estimators are exact and differ in memory and time. Let w' = w − ρ·g(w), where g is the gradient of a batch's loss
and H its Hessian, and let v be the derivative of the outer loss with respect to w'. Then its derivative with respect to
w is v − ρ·H·v, and with respect to the rate ρ it is −⟨v, g⟩.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from metasched.errors import ConfigError, unknown
from metasched.learners.inner import Adapted, Journey, Scene, Start, batch_numbers, first_walk, one_batch
from metasched.learners.losses import Objective, measured, target_loss, task_loss
from metasched.learners.networks import Weights
from metasched.learners.settings import AlgorithmOne
from metasched.learners.stream import Batch, Data, Stream, loss_arguments


class MetaParameters(NamedTuple):
    """λ: the initial weights, and the logarithm of the inner learning rate, so that the rate stays positive."""

    weights: Weights
    log_rate: jax.Array


Found: TypeAlias = tuple[tuple[jax.Array, Adapted], MetaParameters]
"""The outer loss, the adapted model, and the derivative of the loss with respect to λ."""
Adapt: TypeAlias = Callable[[Scene, Start], Adapted]
"""Train from a start on m scheduled batches of B rows. Differentiable with respect to the start."""


class Estimator(NamedTuple):
    """A way to compute the meta-gradient, and how many sets of weights it keeps for the backward pass."""

    find: Callable[[Scene, MetaParameters], Found]
    kept: Callable[[AlgorithmOne], int]


def start_of(parameters: MetaParameters) -> Start:
    """The start of the inner loop, given λ."""
    return Start(parameters.weights, jnp.exp(parameters.log_rate))


def through(adapt: Adapt) -> Callable[[Scene, MetaParameters], Found]:
    """The derivative with respect to λ of ℓ(f_w(x), y) on the target's rows ``scene.batch``, where w is adapted from λ.

    If the adaptation is exact, this is the full second-order meta-gradient, because the inner gradients are part of the
    graph.
    """

    def loss(parameters: MetaParameters, scene: Scene) -> tuple[jax.Array, Adapted]:
        adapted = adapt(scene, start_of(parameters))
        return target_loss(scene.objective, adapted.weights, scene.batch), adapted

    return lambda scene, parameters: jax.value_and_grad(loss, has_aux=True)(parameters, scene)


def scanned(scene: Scene, start: Start) -> Adapted:
    """JAX keeps every intermediate value of every step: the least computation and the most memory."""

    def step(journey: Journey, number: jax.Array) -> tuple[Journey, jax.Array]:
        journey, (batch, _) = one_batch(scene, start, journey, number)
        return journey, batch.chosen

    (walk, stream), tasks = lax.scan(step, (first_walk(scene, start), scene.stream), batch_numbers(scene))
    return Adapted(walk.weights, stream, tasks)


def rematerialised(scene: Scene, start: Start) -> Adapted:
    """√m segments: only the weights between segments are kept, and the backward pass computes each segment again."""
    numbers = batch_numbers(scene)
    length = max(1, math.isqrt(len(numbers)))
    whole = len(numbers) // length * length

    # Two levels: a segment keeps only its first weights, and when it is computed again each step keeps only its own.
    @jax.checkpoint
    def segment(carry: tuple[Journey, Start], numbers: jax.Array) -> tuple[Journey, jax.Array]:
        journey, start = carry

        @jax.checkpoint
        def step(journey: Journey, number: jax.Array) -> tuple[Journey, jax.Array]:
            journey, (batch, _) = one_batch(scene, start, journey, number)
            return journey, batch.chosen

        return lax.scan(step, journey, numbers)

    def several(journey: Journey, numbers: jax.Array) -> tuple[Journey, jax.Array]:
        after: tuple[Journey, jax.Array] = segment((journey, start), numbers)
        return after

    journey, first = lax.scan(several, (first_walk(scene, start), scene.stream), numbers[:whole].reshape(-1, length))
    (walk, stream), rest = several(journey, numbers[whole:])
    return Adapted(walk.weights, stream, jnp.concatenate([first.reshape(-1, *rest.shape[1:]), rest]))


def stored(scene: Scene, start: Start) -> Adapted:
    """Only the weights before each step are kept. The backward pass needs one Hessian-vector product for each step."""

    # A custom derivative may not close over traced arrays, so the arrays of the scene are arguments.
    def walk_all(start: Start, data: Data, stream: Stream, reward_index: jax.Array) -> tuple[Adapted, Any]:
        objective = measured(scene.objective, data.unit)
        here = scene._replace(objective=objective, data=data, stream=stream, reward_index=reward_index)
        (walk, stream), (batches, weights) = lax.scan(
            partial(one_batch, here, start), (first_walk(here, start), stream), batch_numbers(here)
        )
        return Adapted(walk.weights, stream, batches.chosen), (start, data, batches, weights)

    @jax.custom_vjp
    def walked(start: Start, data: Data, stream: Stream, reward_index: jax.Array) -> Adapted:
        return walk_all(start, data, stream, reward_index)[0]

    def backward(kept: Any, cotangent: Adapted) -> tuple[Start, None, None, None]:
        start, data, batches, weights = kept
        objective = measured(scene.objective, data.unit)
        return _walk_back(objective, start, data, batches, weights, cotangent.weights), None, None, None

    walked.defvjp(walk_all, backward)
    return walked(start, scene.data, scene.stream, scene.reward_index)


def _walk_back(
    objective: Objective, start: Start, data: Data, batches: Batch, weights: Weights, cotangent: Weights
) -> Start:
    """The derivatives with respect to ``start``, from the weights (m, R, …) before every step and the derivative at the
    end.
    """

    def unfit(carry: Start, kept: tuple[Batch, Weights]) -> tuple[Start, None]:
        batch, before = kept
        scheduled = loss_arguments(objective, data, batch)

        def unstep(so_far: Start, before: Weights) -> tuple[Start, None]:
            by_step = _step_back(objective, start._replace(weights=before), scheduled, so_far.weights)
            return jax.tree.map(jnp.subtract, so_far, by_step), None

        back, _ = lax.scan(unstep, carry, before, reverse=True)
        if objective.abstain and not batch.trains.ndim:
            # A batch that trained nothing left the weights unchanged, so derivatives pass through it unchanged.
            back = jax.tree.map(lambda new, old: jnp.where(batch.trains, new, old), back, carry)
        return back, None

    first = Start(cotangent, jnp.zeros_like(start.rate))
    result, _ = lax.scan(unfit, first, (batches, weights), reverse=True)
    return result


def _step_back(objective: Objective, start: Start, scheduled: Any, v: Weights) -> Start:
    """What one step subtracts from the derivatives: that of φ = ⟨ρ·v, g(w)⟩ with respect to the weights and to the
    rate, φ/ρ.

    φ is the derivative of the loss in the direction ρ·v, computed in forward mode. So this is reverse mode over forward
    mode, and the gradient g itself is never formed.
    """
    direction = jax.tree.map(lambda v: start.rate * v, v)

    def phi(weights: Weights) -> jax.Array:
        _, slope = jax.jvp(lambda weights: task_loss(objective, weights, *scheduled), (weights,), (direction,))
        return jnp.asarray(slope)

    value, by_weights = jax.value_and_grad(phi)(start.weights)
    return Start(by_weights, value / start.rate)


def first_order(scene: Scene, start: Start) -> Adapted:
    """FOMAML: the inner gradients g count as constants, so w' = w − ρ·Σg needs no backward pass through the steps.

    The derivative with respect to w is 1, and with respect to ρ it is −Σg = (w' − w) / ρ.
    """
    still = lax.stop_gradient(start)
    adapted = lax.stop_gradient(scanned(scene, still))

    def tie(after: jax.Array, w: jax.Array, before: jax.Array) -> jax.Array:
        return after + (w - before) + (start.rate / still.rate - 1) * (after - before)

    return adapted._replace(weights=jax.tree.map(tie, adapted.weights, start.weights, still.weights))


def _steps(settings: AlgorithmOne) -> int:
    return (settings.batches_per_update or 0) * settings.steps_per_batch


def _segments(settings: AlgorithmOne) -> int:
    return 2 * max(1, round(math.sqrt(_steps(settings)))) * settings.steps_per_batch


_REGISTRY: Mapping[str, Estimator] = {
    "stored": Estimator(through(stored), _steps),
    "scan": Estimator(through(scanned), _steps),
    "remat": Estimator(through(rematerialised), _segments),
    "first-order": Estimator(through(first_order), lambda settings: 0),  # noqa: ARG005
}


def names() -> tuple[str, ...]:
    """The names of the estimators for the settings, apart from ``auto``."""
    return tuple(_REGISTRY)


def find(gradient: str | Estimator) -> Estimator:
    """Find an estimator by name. Your own estimator is returned unchanged."""
    if isinstance(gradient, Estimator):
        return gradient
    if not isinstance(gradient, str):
        raise ConfigError(f"gradient is {gradient!r}; give a name or an Estimator")
    if gradient not in _REGISTRY:
        raise unknown("gradient", gradient, ("auto", *_REGISTRY))
    return _REGISTRY[gradient]
