"""The baseline that any method must beat: a linear model on the target's labelled rows alone.

This is logistic regression with an L2 penalty for labels, and ridge regression for numbers to predict.
"""

from typing import NamedTuple

import numpy as np

from metasched.learners.metrics import metric_of
from metasched.references.linear import fit_linear
from metasched.references.rows import fit_rows, flat
from metasched.tasks import TaskSet


class Baseline(NamedTuple):
    """A linear model on the target's labelled rows: its name, and its score on the test rows."""

    name: str
    score: float
    penalty: float


def baseline(tasks: TaskSet, balanced: bool = False) -> Baseline:
    """Fit the model on the target's labelled rows, standardised by themselves, and score it on the test rows as runs
    are scored.
    """
    rows = fit_rows(tasks, [0.0] * len(tasks.tasks), 1.0)
    fitted, penalty = fit_linear(rows, 0)
    outputs = fitted.outputs(flat(tasks.test.inputs), rows.classes)
    if tasks.test.targets is not None:
        unit = float(np.var(rows.answers, axis=0).sum())
        return Baseline("ridge regression", metric_of("r2").score(outputs, tasks.test.targets, unit=unit), penalty)
    metric = metric_of(None, balanced=balanced)
    return Baseline("logistic regression", metric.score(outputs, tasks.test.labels), penalty)
