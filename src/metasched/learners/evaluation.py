"""Evaluating a model on the target's test rows: a fixed subset inside the compiled loop, all of them at the end."""

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
"""Test rows of which a run's outcome has the predictions, at most."""


class ScoreSums(NamedTuple):
    """For two models, the sum of row scores by class (width,); how many rows there are, the caller knows."""

    adapted: jax.Array
    initial: jax.Array


class Outputs(NamedTuple):
    """For two models, what the target's head says of every row (n, width)."""

    adapted: jax.Array
    initial: jax.Array


def judge(objective: Objective) -> Metric:
    """The metric of the settings."""
    settings, regression = objective.settings, objective.variance is not None
    return metric_of(settings.metric, balanced=settings.balanced_accuracy, regression=regression)


def evaluation_order(tasks: TaskSet) -> NDArray[np.int64]:
    """Test rows in the order in which subsets are cut from them, the same for every run."""
    return np.random.default_rng(0).permutation(len(tasks.test.labels))


def evaluation_subset(tasks: TaskSet, count: int) -> Rows:
    """The first ``count`` test rows of that order, on the device."""
    return to_device(host_rows(tasks.test).take(evaluation_order(tasks)[:count]))


def judged_rows(tasks: TaskSet) -> RowNumbers:
    """Numbers of the test rows of which outcomes have predictions, in order: all, or a fixed random subset."""
    return np.sort(evaluation_order(tasks)[:MOST_JUDGED])


def score_sums(objective: Objective, weights: Weights, rows: Rows, real: jax.Array | bool = True) -> jax.Array:
    """Sum of row scores (width,) by label, over the rows that are ``real`` (n,)."""
    scores = jnp.where(real, row_scores(objective, weights, rows), 0)
    return jnp.zeros(objective.heads.width).at[rows.labels].add(scores)


def target_outputs(objective: Objective, weights: Weights, rows: Rows) -> jax.Array:
    """What the target's head says of every row (n, width)."""
    return outputs(objective, weights, rows.inputs, objective.heads.target)


Scorer: TypeAlias = Callable[[Weights, Rows, Unit | None], NDArray[np.float64]]
"""Sums of row scores by class (replicas, width) of stacked weights, over rows in host memory, in that unit."""


def full_scorer(objective: Objective) -> Scorer:
    """Passes rows through models stacked along a first axis, some rows at a time."""

    @jax.jit
    def part(weights: Weights, rows: Rows, count: int, unit: Unit | None) -> jax.Array:
        real, own = jnp.arange(len(rows.labels)) < count, measured(objective, unit)
        return jax.vmap(lambda weights: score_sums(own, weights, rows, real))(weights)

    def score(weights: Weights, rows: Rows, unit: Unit | None) -> NDArray[np.float64]:
        sums = [np.asarray(part(weights, piece, count, unit), np.float64) for piece, count in pieces(rows)]
        return np.asarray(sum(sums))

    return score


Reader: TypeAlias = Callable[[Weights, Rows, Unit | None], NDArray[np.float32]]
"""Outputs of the target's head (replicas, n, width) of stacked weights, for rows in host memory, in that unit."""


def full_reader(objective: Objective) -> Reader:
    """Passes rows through models stacked along a first axis, and hands out what the target's head says of each."""

    @jax.jit
    def part(weights: Weights, rows: Rows, unit: Unit | None) -> jax.Array:
        own = measured(objective, unit)
        return jax.vmap(lambda weights: target_outputs(own, weights, rows))(weights)

    def read(weights: Weights, rows: Rows, unit: Unit | None) -> NDArray[np.float32]:
        parts = [np.asarray(part(weights, piece, unit))[:, :count] for piece, count in pieces(rows)]
        return np.concatenate(parts, axis=1)

    return read


def predictions(objective: Objective, read: NDArray[np.float32]) -> NDArray[np.float32]:
    """What outputs (…, width) of the target's head say: probabilities (…, C) of its classes; in regression numbers."""
    if objective.variance is not None:
        return read
    return np.asarray(softmax(read[..., : objective.heads.classes[objective.heads.target]], axis=-1))


def pieces(rows: Rows) -> Iterator[tuple[Rows, int]]:
    """Rows in host memory, some at a time, and how many of each piece are real.

    A last, short piece is grown to the common size, so that one compiled function serves all.
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
    """The score of the settings' metric, balanced accuracy, and accuracy by class (None for one without rows)."""

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
    """The score that follows from sums of row scores and numbers of rows by class (width,).

    A metric that is no mean over rows needs what the target's head ``read`` of the ``rows``, too.
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
