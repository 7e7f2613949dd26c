"""Rows with weights and answers, on which all reference models are fitted."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.tasks import Split, Task, TaskSet


class FitRows(NamedTuple):
    """Rows to fit a model on. The target's labelled rows come last.

    Attributes:
        inputs: (n, d) float32.
        answers: (n, k) float64: one-hot labels, or numbers to predict.
        weights: (n,) above 0.
        known: how many of the rows, at the end, are the target's.
        strata: (known,) the strata of their folds: their labels, or bins of numbers.
        classes: the number of classes; 0 in regression.
    """

    inputs: NDArray[np.float32]
    answers: NDArray[np.float64]
    weights: NDArray[np.float64]
    known: int
    strata: NDArray[np.int32]
    classes: int

    @property
    def labels(self) -> NDArray[np.int64]:
        """The numbers (n,) of the classes of the rows."""
        return np.asarray(self.answers.argmax(axis=1))


def fit_rows(tasks: TaskSet, source_weights: Sequence[float], target_weight: float) -> FitRows:
    """The rows of every source and the target's labelled rows, with a weight for one row of each source.

    Weights are scaled to a mean of 1. Rows with weight 0 are left out.
    """
    used = [(task, weight) for task, weight in zip(tasks.tasks, source_weights, strict=True) if weight > 0]
    parts: list[Task | Split] = [*(task for task, _ in used), tasks.validation]
    heavy = [*(weight for _, weight in used), target_weight]
    weights = np.repeat(np.asarray(heavy, np.float64), [len(part.labels) for part in parts])
    return FitRows(
        np.concatenate([flat(part.inputs) for part in parts]),
        np.concatenate([answers_of(part, len(tasks.classes)) for part in parts]),
        weights / weights.mean(),
        len(tasks.validation.labels),
        tasks.validation.labels,
        len(tasks.classes) if tasks.target_size is None else 0,
    )


def class_balanced(rows: FitRows) -> FitRows:
    """The rows with weights that give every class the same total weight. Unchanged in regression.

    Within a class the ratios stay, so a target row still has a larger weight than a source row.
    """
    if not rows.classes:
        return rows
    totals = rows.weights @ rows.answers
    weights = rows.weights / totals[rows.labels]
    return rows._replace(weights=weights / weights.mean())


def flat(inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Inputs (n, *shape) as (n, d)."""
    return inputs.reshape(len(inputs), -1)


def answers_of(part: Task | Split, classes: int) -> NDArray[np.float64]:
    """Labels (n,) one-hot, or targets: (n, k) float64."""
    return np.eye(classes)[part.labels] if part.targets is None else part.targets.astype(np.float64)
