"""Evaluates models on the target's test rows: a fixed subset inside the compiled loop, all rows at the end."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from metasched.learners.losses import Objective, Rows, Unit, measured, outputs, row_scores
from metasched.learners.metrics import Metric, metric_of
from metasched.learners.networks import Weights
from metasched.learners.stream import host_rows, to_device
from metasched.tasks import RowNumbers, TaskSet

ROWS_AT_ONCE = 1000
MOST_JUDGED = 5000
"""The outcome of a run has predictions for at most this many test rows."""


class ScoreSums(NamedTuple):
    """Sums of row scores by class (width,) for two models. The caller knows the number of rows."""

    adapted: jax.Array
    initial: jax.Array


class Outputs(NamedTuple):
    """The outputs of the target's head for every row (n, width), for two models."""

    adapted: jax.Array
    initial: jax.Array


def judge(objective: Objective) -> Metric:
    """The metric of the settings."""
    settings, regression = objective.settings, objective.variance is not None
    return metric_of(settings.metric, balanced=settings.balanced_accuracy, regression=regression)


def evaluation_order(tasks: TaskSet) -> NDArray[np.int64]:
    """The test rows in the order from which subsets are taken, the same for every run."""
    return np.random.default_rng(0).permutation(len(tasks.test.labels))


def evaluation_subset(tasks: TaskSet, count: int) -> Rows:
    """The first ``count`` test rows in this order, on the device."""
    return to_device(host_rows(tasks.test).take(evaluation_order(tasks)[:count]))


def judged_rows(tasks: TaskSet) -> RowNumbers:
    """The numbers of the test rows that have predictions in outcomes, in order: all rows, or a fixed random subset."""
    return np.sort(evaluation_order(tasks)[:MOST_JUDGED])


def score_sums(objective: Objective, weights: Weights, rows: Rows, real: jax.Array | bool = True) -> jax.Array:
    """The sums of row scores (width,) by label, over the rows that are ``real`` (n,)."""
    scores = jnp.where(real, row_scores(objective, weights, rows), 0)
    return jnp.zeros(objective.heads.width).at[rows.labels].add(scores)


def target_outputs(objective: Objective, weights: Weights, rows: Rows) -> jax.Array:
    """The outputs of the target's head for every row (n, width)."""
    return outputs(objective, weights, rows.inputs, objective.heads.target)


Scorer: TypeAlias = Callable[[Weights, Rows, Unit | None], NDArray[np.float64]]
"""Sums of row scores by class (replicas, width) for stacked weights, over rows in host memory, in this unit."""


def full_scorer(objective: Objective) -> Scorer:
    """Pass rows through models stacked along a first axis, some rows at a time."""

    @jax.jit
    def part(weights: Weights, rows: Rows, count: int, unit: Unit | None) -> jax.Array:
        real, own = jnp.arange(len(rows.labels)) < count, measured(objective, unit)
        return jax.vmap(lambda weights: score_sums(own, weights, rows, real))(weights)

    def score(weights: Weights, rows: Rows, unit: Unit | None) -> NDArray[np.float64]:
        sums = [np.asarray(part(weights, piece, count, unit), np.float64) for piece, count in pieces(rows)]
        return np.asarray(sum(sums))

    return score


Reader: TypeAlias = Callable[[Weights, Rows, Unit | None], NDArray[np.float32]]
"""Outputs of the target's head (replicas, n, width) for stacked weights and rows in host memory, in this unit."""


def full_reader(objective: Objective) -> Reader:
    """Pass rows through models stacked along a first axis, and return the outputs of the target's head for each row."""

    @jax.jit
    def part(weights: Weights, rows: Rows, unit: Unit | None) -> jax.Array:
        own = measured(objective, unit)
        return jax.vmap(lambda weights: target_outputs(own, weights, rows))(weights)

    def read(weights: Weights, rows: Rows, unit: Unit | None) -> NDArray[np.float32]:
        parts = [np.asarray(part(weights, piece, unit))[:, :count] for piece, count in pieces(rows)]
        return np.concatenate(parts, axis=1)

    return read


def predictions(objective: Objective, read: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn outputs (…, width) of the target's head into probabilities (…, C) of classes or, in regression, numbers."""
    if objective.variance is not None:
        return read
    return np.asarray(softmax(read[..., : objective.heads.classes[objective.heads.target]], axis=-1))


def pieces(rows: Rows) -> Iterator[tuple[Rows, int]]:
    """Yield rows in host memory in pieces, and how many rows of each piece are real.

    A short last piece is filled up to the common size, so that one compiled function serves all.
    """
    number = len(rows.labels)
    at_once = min(ROWS_AT_ONCE, number)
    for begin in range(0, number, at_once):
        piece = rows.take(slice(begin, begin + at_once))
        yield jax.tree.map(partial(_pad, at_once), piece), len(piece.labels)


def _pad(size: int, part: NDArray[np.generic]) -> NDArray[np.generic]:
    missing = size - len(part)
    return np.pad(part, [(0, missing)] + [(0, 0)] * (part.ndim - 1)) if missing else part


class Score(NamedTuple):
    """The score by the settings' metric, balanced accuracy, and accuracy by class (None for a class without rows)."""

    main: float
    balanced: float
    by_class: Sequence[float | None]


def read_score(
    objective: Objective,
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
    read: NDArray[np.float32] | None = None,
    rows: Rows | None = None,
) -> Score:
    """Compute the score from sums of row scores and numbers of rows by class (width,).

    A metric that is not a mean over rows also needs the outputs of the target's head, ``read``, for the ``rows``.
    """
    metric, present = judge(objective), counts > 0
    shares = sums[present] / counts[present]
    balanced, plain = float(shares.mean()), float(sums.sum() / counts.sum())
    by_class = [float(s / n) if n else None for s, n in zip(sums, counts, strict=True)]
    main = balanced if metric.name == "balanced-accuracy" else plain
    if not metric.by_row:
        if read is None or rows is None:
            raise ValueError(f"{metric.name} is not a mean over rows, so it needs the outputs")
        main = metric.oriented(metric.score(predictions(objective, read), np.asarray(rows.answers)))
    return Score(main, balanced, by_class)
