"""What each label of each task is worth: probing the initial model, and whether the reward stays put over time.

The paper's reward of label c of task i is the validation accuracy after fitting the first row of that label from the
initial model. Nothing here knows what a network is: callers hand in two functions of the weights.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from metasched.tasks import RowNumbers, TaskSet

Weights = Any
Loss = Callable[[Weights, jax.Array, jax.Array, jax.Array], jax.Array]
"""``loss(weights, inputs (n, *shape), labels (n,), task) -> scalar``, differentiable in the weights."""
Hits = Callable[[Weights], jax.Array]
"""``hits(weights) -> bool (v,)``: which validation rows the model gets right."""

PROBES_AT_ONCE = 16


class Probe(NamedTuple):
    """Rewards before anything was learned.

    Attributes:
        accuracy: r (N, C), validation accuracy after fitting label c of task i; 0 for a label that never occurs.
        by_class: A (N, C, C'), the same on validation class c' alone. A class without validation rows has the
            accuracy over all rows, the best guess there is.
        present: (N, C), whether label c occurs in task i.
    """

    accuracy: NDArray[np.float64]
    by_class: NDArray[np.float64]
    present: NDArray[np.bool_]


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


def first_rows(tasks: TaskSet) -> RowNumbers:
    """Row number (N, C) of the first row of each label in each task; −1 where it never occurs."""
    rows = np.full((len(tasks.tasks), max(len(task.classes) for task in tasks.tasks)), -1, np.int64)
    for number, task in enumerate(tasks.tasks):
        present, first = np.unique(task.labels, return_index=True)
        rows[number, present] = first
    return rows


def prober(loss: Loss, hits: Hits, rate: float, steps: int, tasks: TaskSet) -> Callable[[Weights], Probe]:
    """A function that fits the first row of every label of every task, each from the weights given.

    ``steps`` SGD steps (R) at ``rate`` on that one row; C is the most labels that a task has, C' those of the target.
    All fits are one compiled call, and it is compiled once for any number of weights.
    """
    rows = first_rows(tasks)
    numbers, classes = (found.tolist() for found in np.nonzero(rows >= 0))
    chosen = [tasks.tasks[task].inputs[rows[task, label]] for task, label in zip(numbers, classes, strict=True)]
    cases = (jnp.asarray(np.stack(chosen)), jnp.asarray(classes, jnp.int32), jnp.asarray(numbers, jnp.int32))

    @jax.jit
    def right_after(weights: Weights, cases: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        def fit(case: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
            row, label, task = case

            def step(weights: Weights, _: None) -> tuple[Weights, None]:
                gradient = jax.grad(loss)(weights, row[None], label[None], task)
                return jax.tree.map(lambda w, g: w - rate * g, weights, gradient), None

            return hits(lax.scan(step, weights, None, length=steps)[0])

        found: jax.Array = lax.map(fit, cases, batch_size=PROBES_AT_ONCE)
        return found

    def measure(weights: Weights) -> Probe:
        right = np.asarray(right_after(weights, cases))
        accuracy = np.zeros(rows.shape)
        accuracy[numbers, classes] = right.mean(axis=1)
        by_class = np.zeros((*rows.shape, len(tasks.classes)))
        by_class[numbers, classes] = _by_class(right, tasks, right.mean(axis=1)[:, None])
        return Probe(accuracy, by_class, rows >= 0)

    return measure


def probe(loss: Loss, hits: Hits, weights: Weights, rate: float, steps: int, tasks: TaskSet) -> Probe:
    """The same for one set of weights."""
    return prober(loss, hits, rate, steps, tasks)(weights)


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
        errors.append(1 - _by_class(np.asarray(run(batches)), tasks, np.nan))
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


def _by_class(right: NDArray[np.bool_], tasks: TaskSet, fallback: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Share of right validation rows (m, C') in each class, from (m, v); ``fallback`` for a class without rows."""
    member = tasks.validation.labels[:, None] == np.arange(len(tasks.classes))
    counts = member.sum(axis=0)
    return np.where(counts > 0, right.astype(np.float64) @ member / np.maximum(counts, 1), fallback)
