"""Whether the paper's scaled reward stays put over time: how validation errors fall while one task is trained on."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from metasched.learners.networks import Weights
from metasched.learners.probe import Hits, Loss, right_by_class
from metasched.tasks import TaskSet


class Stationarity(NamedTuple):
    """How validation errors e(t) fall over the first T steps on each task, by class.

    Attributes:
        errors: e (N, T, C'); NaN for a class without validation rows.
        variation: coefficient of variation of √t·e(t) over t, (N, C'): 0 if the scaled reward is stationary.
        exponent: p (N, C') of the least-squares fit e(t) ∝ t^−p; the paper assumes ½.
    """

    errors: NDArray[np.float64]
    variation: NDArray[np.float64]
    exponent: NDArray[np.float64]


def stationarity(
    loss: Loss, hits: Hits, weights: Weights, rate: float, tasks: TaskSet, steps: int = 120, batch_size: int = 1
) -> Stationarity:
    """Train on each task alone from ``weights``, batch after batch, and follow the validation error by class.

    The paper's Figure 2 shows √t·e(t) nearly constant over the first 120 steps, and defines the reward
    r = 1 − √t·e(t) from that.
    """

    def follow(weights: Weights, batch: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[Weights, jax.Array]:
        gradient = jax.grad(loss)(weights, *batch)
        weights = jax.tree.map(lambda w, g: w - rate * g, weights, gradient)
        return weights, hits(weights)

    run = jax.jit(lambda batches: lax.scan(follow, weights, batches)[1])
    errors = []
    for number, task in enumerate(tasks.tasks):
        rows = (np.arange(steps)[:, None] * batch_size + np.arange(batch_size)) % len(task)
        batches = jnp.asarray(task.inputs[rows]), jnp.asarray(task.labels[rows]), jnp.full(steps, number, jnp.int32)
        errors.append(1 - right_by_class(np.asarray(run(batches)), tasks, np.nan))
    return summarise_errors(np.stack(errors))


def summarise_errors(errors: NDArray[np.float64]) -> Stationarity:
    """Variation of √t·e(t) and fitted exponent, for errors e (…, T, C')."""
    time = np.arange(1, errors.shape[-2] + 1)[:, None]
    scaled = np.sqrt(time) * errors
    mean = scaled.mean(axis=-2)
    variation = np.divide(scaled.std(axis=-2), mean, out=np.zeros_like(mean), where=mean != 0)
    # Errors of zero have no logarithm: fit on the times at which something is still wrong.
    weight = (errors > 0).astype(np.float64)
    x, y = np.log(time) * weight, np.log(np.where(errors > 0, errors, 1.0))
    count = np.maximum(weight.sum(axis=-2, keepdims=True), 1)
    centred = (np.log(time) - x.sum(axis=-2, keepdims=True) / count) * weight
    square = (centred**2).sum(axis=-2)
    exponent = -np.divide((centred * y).sum(axis=-2), square, out=np.full_like(square, np.nan), where=square > 0)
    absent = np.isnan(errors).any(axis=-2)
    return Stationarity(errors, np.where(absent, np.nan, variation), np.where(absent, np.nan, exponent))
