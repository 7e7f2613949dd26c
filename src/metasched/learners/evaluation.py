"""Measuring a model on the target's test rows: a fixed subset inside the compiled loop, all of them at the end."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metasched.learners.losses import Objective, Rows, marks
from metasched.learners.networks import Weights
from metasched.learners.stream import host_rows, to_device
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


def marks_by_class(objective: Objective, weights: Weights, rows: Rows, real: jax.Array | bool = True) -> jax.Array:
    """Sum of marks (width,) of the rows of each label, of those that are ``real`` (n,)."""
    return jnp.zeros(objective.heads.width).at[rows.labels].add(jnp.where(real, marks(objective, weights, rows), 0))


def measure(objective: Objective, adapted: Weights, initial: Weights, rows: Rows) -> Measured:
    """Both models on the same rows."""
    return Measured(marks_by_class(objective, adapted, rows), marks_by_class(objective, initial, rows))


Scorer: TypeAlias = Callable[[Weights, Rows], NDArray[np.float64]]
"""Sums of marks by class (lanes, width) of stacked weights, over rows in host memory."""


def full_scorer(objective: Objective) -> Scorer:
    """Passes rows through models stacked along a first axis, some rows at a time."""

    @jax.jit
    def part(weights: Weights, rows: Rows, count: int) -> jax.Array:
        real = jnp.arange(len(rows.labels)) < count
        return jax.vmap(lambda weights: marks_by_class(objective, weights, rows, real))(weights)

    def score(weights: Weights, rows: Rows) -> NDArray[np.float64]:
        sums = [np.asarray(part(weights, piece, count), np.float64) for piece, count in pieces(rows)]
        return np.asarray(sum(sums))

    return score


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
    """What sums of marks say: accuracy as the settings define it, balanced accuracy, and accuracy by class.

    A class without rows has None.
    """

    accuracy: float
    balanced: float
    by_class: Sequence[float | None]


def read_score(objective: Objective, sums: NDArray[np.float64], counts: NDArray[np.int64]) -> Score:
    """Sums of marks and numbers of rows by class (width,), read."""
    present = counts > 0
    shares = sums[present] / counts[present]
    balanced, plain = float(shares.mean()), float(sums.sum() / counts.sum())
    by_class = [float(s / n) if n else None for s, n in zip(sums, counts, strict=True)]
    return Score(balanced if objective.config.balanced_accuracy else plain, balanced, by_class)
