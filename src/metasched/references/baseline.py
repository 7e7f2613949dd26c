"""What any method must beat: a linear model on the target's labelled rows alone.

Logistic regression with an L2 penalty where rows have labels, ridge regression where they have numbers to predict.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from metasched.learners.folds import equal_splits
from metasched.tasks import TaskSet

Floats: TypeAlias = NDArray[np.float64]
Fit: TypeAlias = Callable[[Floats, Floats, float], Floats]
"""Inputs (n, d + 1), answers (n, k) and a penalty to weights (d + 1, k)."""

PENALTIES = tuple(float(penalty) for penalty in np.logspace(-3, 3, 7))
"""λ of λ/2·‖w‖² beside the sum of losses over rows."""
FOLDS = 5
FOLD_ROWS = 500
"""Labelled rows that the penalty is chosen on, at most."""
ITERATIONS = 200


class Baseline(NamedTuple):
    """A linear model on the target's labelled rows: what it is called, and its score on the test rows."""

    name: str
    score: float
    penalty: float


def baseline(tasks: TaskSet, balanced: bool = False) -> Baseline:
    """Fit on the target's labelled rows, standardised by themselves, and score on the test rows as runs are scored.

    The penalty is the one with the least loss on held-out folds of the labelled rows.
    """
    known = tasks.validation
    scale = scaler(known.inputs)
    inputs, new = scale(known.inputs), scale(tasks.test.inputs)
    answers = np.eye(len(tasks.classes))[known.labels] if known.targets is None else known.targets.astype(np.float64)
    fit, loss = (logistic, _log_loss) if known.targets is None else (ridge, _squared_loss)
    some = np.sort(np.random.default_rng(0).permutation(len(inputs))[:FOLD_ROWS])
    parts = [(some[rest], some[part]) for rest, part in equal_splits(known.labels[some], FOLDS)]
    held_out = [
        sum(loss(fit(inputs[rest], answers[rest], penalty), inputs[part], answers[part]) for rest, part in parts)
        for penalty in PENALTIES
    ]
    penalty = PENALTIES[int(np.argmin(held_out))] if parts else 1.0
    outputs = new @ fit(inputs, answers, penalty)
    if known.targets is not None and tasks.test.targets is not None:
        unit = float(np.var(known.targets, axis=0).sum())
        errors = ((outputs - tasks.test.targets) ** 2).sum(axis=1)
        return Baseline("ridge regression", float(1 - errors.mean() / unit), penalty)
    right = outputs.argmax(axis=1) == tasks.test.labels
    by_class = [right[tasks.test.labels == label].mean() for label in np.unique(tasks.test.labels)]
    return Baseline("logistic regression", float(np.mean(by_class) if balanced else right.mean()), penalty)


def scaler(inputs: NDArray[np.float32]) -> Callable[[NDArray[np.float32]], Floats]:
    """A function that flattens rows, standardises them by these ``inputs`` and adds a column of ones for the bias.

    With more values than rows it also turns them into the span of these rows, which changes no fit with a penalty.
    """
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    mean, deviation = flat.mean(axis=0), flat.std(axis=0)
    unit = np.where(deviation > 0, deviation, 1.0)
    turn = np.linalg.svd((flat - mean) / unit, full_matrices=False)[2].T if flat.shape[1] > len(flat) else None

    def scale(rows: NDArray[np.float32]) -> Floats:
        values = (rows.reshape(len(rows), -1) - mean) / unit
        values = values if turn is None else values @ turn
        return np.column_stack([values, np.ones(len(values))])

    return scale


def logistic(inputs: Floats, answers: Floats, penalty: float, iterations: int = ITERATIONS) -> Floats:
    """Weights (d + 1, C) that minimise Σ cross-entropy + λ/2·‖w‖²; the last row of weights, the bias, is free.

    ``answers`` (n, C) are one-hot.
    """
    from scipy.optimize import minimize  # here, because importing it is slow and few need it

    shape = inputs.shape[1], answers.shape[1]
    shrunk = _shrunk(shape[0], penalty)

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        outputs = inputs @ weights
        total = -np.sum(answers * log_softmax(outputs, axis=1)) + 0.5 * np.sum(shrunk * weights**2)
        return float(total), (inputs.T @ (softmax(outputs, axis=1) - answers) + shrunk * weights).ravel()

    found = minimize(loss, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    return np.asarray(found.x, np.float64).reshape(shape)


def ridge(inputs: Floats, answers: Floats, penalty: float) -> Floats:
    """Weights (d + 1, k) that minimise ½·Σ squared error + λ/2·‖w‖²; the bias is free."""
    shrunk = np.diag(_shrunk(inputs.shape[1], penalty).ravel())
    return np.asarray(np.linalg.lstsq(inputs.T @ inputs + shrunk, inputs.T @ answers, rcond=None)[0])


def _shrunk(width: int, penalty: float) -> Floats:
    """λ for every weight (d + 1, 1), next to nothing for the bias: a class that never occurs keeps a finite one."""
    return np.append(np.full(width - 1, penalty), 1e-6)[:, None]


def _log_loss(weights: Floats, inputs: Floats, answers: Floats) -> float:
    return -float(np.sum(answers * log_softmax(inputs @ weights, axis=1)))


def _squared_loss(weights: Floats, inputs: Floats, answers: Floats) -> float:
    return 0.5 * float(np.sum((inputs @ weights - answers) ** 2))
