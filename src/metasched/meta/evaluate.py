"""Measuring a model on the target's test rows: a fixed subset inside the compiled loop, all of them at the end."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metasched.meta.inner import Data, descend, host_rows, to_device
from metasched.meta.networks import Weights
from metasched.meta.objective import Learner, Rows, marks
from metasched.meta.outer import MetaParameters, tuned
from metasched.tasks import TaskSet

ROWS_AT_ONCE = 1000


class Measured(NamedTuple):
    """Sum of marks (C,) by class, of the rows measured; their numbers are the caller's to know."""

    adapted: jax.Array
    initial: jax.Array


def measured_order(tasks: TaskSet) -> NDArray[np.int64]:
    """Test rows in the order in which subsets are cut from them, the same for every run."""
    return np.random.default_rng(0).permutation(len(tasks.test.labels))


def measured_subset(tasks: TaskSet, count: int) -> Rows:
    """The first ``count`` test rows of that order, on the device."""
    chosen = measured_order(tasks)[:count]
    return to_device(host_rows(tasks.test).take(chosen))


def marks_by_class(learner: Learner, weights: Weights, rows: Rows, real: jax.Array | bool = True) -> jax.Array:
    """Sum of marks (width,) of the rows of each label, of those that are ``real`` (n,)."""
    return jnp.zeros(learner.heads.width).at[rows.labels].add(jnp.where(real, marks(learner, weights, rows), 0))


def measure(learner: Learner, adapted: Weights, initial: Weights, rows: Rows) -> Measured:
    """Both models on the same rows."""
    return Measured(marks_by_class(learner, adapted, rows), marks_by_class(learner, initial, rows))


def adapt_further(learner: Learner, data: Data, parameters: MetaParameters, weights: Weights) -> Weights:
    """``adapt_on_target`` more SGD steps, on the target's validation rows in turn, at the meta-learned rate.

    The usual few-shot test: what the model becomes once it may also train on the labelled rows of the target.
    """
    config, rows = learner.config, len(data.validation.labels)
    size = min(config.batch_size, rows)
    on_target = learner._replace(losses=learner.losses._replace(task=learner.losses.target))

    def step(number: int, weights: Weights) -> Weights:
        batch = data.validation.take((number * size + jnp.arange(size)) % rows)
        rates = tuned(data, parameters).rates
        return descend(on_target, weights, rates, None, batch, jnp.int32(learner.heads.target))

    return jax.lax.fori_loop(0, config.adapt_on_target, step, weights)


Scorer: TypeAlias = Callable[[Weights, TaskSet], NDArray[np.float64]]
"""Sums of marks by class (lanes, width) of stacked weights, over all test rows of a task set."""


def full_scorer(learner: Learner) -> Scorer:
    """Passes all test rows through models stacked along a first axis, some rows at a time."""

    @jax.jit
    def part(weights: Weights, rows: Rows, count: jax.Array) -> jax.Array:
        real = jnp.arange(len(rows.labels)) < count
        return jax.vmap(lambda weights: marks_by_class(learner, weights, rows, real))(weights)

    def score(weights: Weights, tasks: TaskSet) -> NDArray[np.float64]:
        rows = host_rows(tasks.test)
        number = len(rows.labels)
        at_once = min(ROWS_AT_ONCE, number)
        total: NDArray[np.float64] | float = 0.0
        for begin in range(0, number, at_once):
            chunk = rows.take(slice(begin, begin + at_once))
            count = len(chunk.labels)
            padded = jax.tree.map(partial(_pad, at_once), chunk)
            total = total + np.asarray(part(weights, padded, jnp.int32(count)), np.float64)
        return np.asarray(total)

    return score


def _pad(size: int, part: NDArray[np.generic]) -> NDArray[np.generic]:
    """Grow a last, short piece to the common size, so that one compiled function serves all."""
    missing = size - len(part)
    return np.pad(part, [(0, missing)] + [(0, 0)] * (part.ndim - 1)) if missing else part


class Score(NamedTuple):
    """What sums of marks say: accuracy as the settings define it, balanced accuracy, and accuracy by class.

    A class without rows has None.
    """

    accuracy: float
    balanced: float
    by_class: Sequence[float | None]


def read_score(learner: Learner, sums: NDArray[np.float64], counts: NDArray[np.int64]) -> Score:
    """Sums of marks and numbers of rows by class (width,), read."""
    present = counts > 0
    shares = sums[present] / counts[present]
    balanced, plain = float(shares.mean()), float(sums.sum() / counts.sum())
    by_class = [float(s / n) if n else None for s, n in zip(sums, counts, strict=True)]
    return Score(balanced if learner.config.balanced_accuracy else plain, balanced, by_class)
