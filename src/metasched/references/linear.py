"""Logistic and ridge regression with row weights and an L2 penalty that is chosen on folds of the target's rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from metasched.learners.folds import equal_splits
from metasched.references.rows import FitRows
from metasched.references.threads import one_thread

Floats: TypeAlias = NDArray[np.float64]
Path: TypeAlias = Callable[[Floats, Floats, Floats, Sequence[float]], Iterator[Floats]]
"""Inputs (n, d + 1), answers (n, k), row weights (n,) and penalties to weights (d + 1, k), one array for each penalty.
"""

PENALTIES = tuple(float(penalty) for penalty in np.logspace(-3, 3, 7))
"""λ in λ/2·‖w‖², which is added to the sum of losses over rows."""
FOLDS = 5
FOLD_ROWS = 500
"""The most labelled rows of the target with which the penalty is chosen."""
OTHER_ROWS = 1000
"""The most source rows on which models are fitted while the penalty is chosen."""
ITERATIONS = 200
EXACT, ROUGH = 2.2e-9, 1e-6
"""A fit ends at this relative change of the loss. Fits that only choose the penalty are rough."""
FEATURES, DIRECTIONS = 300, 150
"""Inputs with more features are projected onto the directions in which they vary most. A fit then takes a fifth of the
time.
"""
SAMPLE = 4000
"""The most rows from which the directions are computed."""


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear model of the inputs as they are.

    Attributes:
        weights: (d, k).
        bias: (k,).
    """

    weights: Floats
    bias: Floats

    def outputs(self, rows: NDArray[np.float32], classes: int) -> Floats:
        """Probabilities (n, k) of rows (n, d); in regression, where ``classes`` is 0, numbers (n, k)."""
        raw = rows @ self.weights + self.bias
        return np.asarray(softmax(raw, axis=1) if classes else raw)

    def fault(self, features: int, classes: int) -> str | None:
        """What is wrong with arrays from an untrusted file, or None. ``classes`` is 0 in regression."""
        outputs = self.bias.shape[0]
        if self.weights.shape != (features, outputs) or outputs != (classes or outputs) or not outputs:
            return f"its weights have shape {self.weights.shape}, but inputs have {features} features"
        return None


class Scale(NamedTuple):
    """Flattens rows, standardises them and adds a column of ones for the bias.

    ``turn`` (d, r), if there is one, projects them onto the span of the rows from which it was made.
    """

    mean: Floats
    unit: Floats
    turn: Floats | None

    def __call__(self, rows: NDArray[np.float32]) -> Floats:
        """Rows (n, *shape) as (n, d + 1), or (n, r + 1)."""
        values = (rows.reshape(len(rows), -1) - self.mean) / self.unit
        values = values if self.turn is None else values @ self.turn
        return np.column_stack([values, np.ones(len(values))])

    def undone(self, weights: Floats) -> Linear:
        """The same model for the inputs as they are."""
        slopes = weights[:-1] if self.turn is None else self.turn @ weights[:-1]
        slopes = slopes / self.unit[:, None]
        return Linear(slopes, weights[-1] - self.mean @ slopes)


def scaler(inputs: NDArray[np.float32], weights: Floats | None = None) -> Scale:
    """The scale of these ``inputs``, whose rows may have weights.

    If there are more values than rows, it projects rows onto the span of these rows, which does not change a fit with a
    penalty.
    """
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    mean = np.average(flat, axis=0, weights=weights)
    deviation = np.sqrt(np.average((flat - mean) ** 2, axis=0, weights=weights))
    # Because of rounding, a column of equal numbers can have a tiny deviation, which would blow up other rows.
    unit = np.where(np.ptp(flat, axis=0) > 0, deviation, 1.0)
    turn = np.linalg.svd((flat - mean) / unit, full_matrices=False)[2].T if flat.shape[1] > len(flat) else None
    return Scale(mean, unit, turn)


def leading(scale: Scale, rows: NDArray[np.float32], directions: int) -> Scale:
    """The scale with a projection onto the leading directions of the rows, those in which they vary most.

    The directions come from a randomised singular value decomposition of at most ``SAMPLE`` rows (Halko, Martinsson &
    Tropp 2011).
    """
    random = np.random.default_rng(0)
    values = scale(rows[np.sort(random.permutation(len(rows))[:SAMPLE])])[:, :-1]
    turn = random.normal(size=(values.shape[1], min(directions, len(values))))
    for _ in range(3):
        turn = np.linalg.qr(values.T @ (values @ turn))[0]
    return scale._replace(turn=turn)


def fit_linear(rows: FitRows, seed: int) -> tuple[Linear, float]:
    """Fit the model, and its penalty: the one with the smallest loss on held-out folds of the target's labelled rows.

    Rows are standardised. If there are many source rows, ``seed`` draws those with which the penalty is chosen.
    """
    path, loss = (logistic_path, _log_loss) if rows.classes else (ridge_path, _squared_loss)
    exactly = logistic if rows.classes else ridge
    folds = _folds(rows, seed)
    with one_thread():
        scale = scaler(rows.inputs, rows.weights)
        if scale.turn is None and rows.inputs.shape[1] > FEATURES:
            scale = leading(scale, rows.inputs, DIRECTIONS)
        inputs = scale(rows.inputs)
        penalty = _least(_losses(path, loss, inputs, rows, folds)) if folds else 1.0
        return scale.undone(exactly(inputs, rows.answers, penalty, weights=rows.weights)), penalty


def _losses(
    path: Path,
    loss: Callable[[Floats, Floats, Floats, Floats], float],
    inputs: Floats,
    rows: FitRows,
    folds: Sequence["Fold"],
) -> Iterator[tuple[float, float]]:
    """The penalties, largest first, each with the loss on the held-out rows of all folds."""
    falling, answers, weights = PENALTIES[::-1], rows.answers, rows.weights
    paths = [path(inputs[kept], answers[kept], weights[kept] * more, falling) for kept, more, _ in folds]
    for penalty, *fits in zip(falling, *paths, strict=True):
        held = zip(fits, folds, strict=True)
        losses = (loss(fitted, *(part[fold.held] for part in (inputs, answers, weights))) for fitted, fold in held)
        yield penalty, sum(losses)


def _least(losses: Iterator[tuple[float, float]]) -> float:
    """The penalty with the smallest loss. Fits with smaller penalties take longest, so no penalty is tried after a
    rise.
    """
    best, least = next(losses)
    for penalty, loss in losses:
        if loss > least:
            break
        best, least = penalty, loss
    return best


class Fold(NamedTuple):
    """The rows to fit, with how much more they weigh than before, and the rows that judge the fit."""

    kept: NDArray[np.int64]
    more: Floats
    held: NDArray[np.int64]


def _folds(rows: FitRows, seed: int) -> list[Fold]:
    """Folds of the target's labelled rows, each with the same rows of sources. Empty if there are fewer rows than
    folds.
    """
    others, known = len(rows.inputs) - rows.known, rows.known
    some = others + np.sort(np.random.default_rng(0).permutation(known)[:FOLD_ROWS])
    drawn = np.sort(np.random.default_rng(seed).permutation(others)[:OTHER_ROWS])
    more = np.full(len(drawn), others / max(len(drawn), 1))
    return [
        Fold(np.concatenate([drawn, some[rest]]), np.concatenate([more, np.ones(len(rest))]), some[part])
        for rest, part in equal_splits(rows.strata[some - others], FOLDS)
    ]


def logistic_path(inputs: Floats, answers: Floats, weights: Floats, penalties: Sequence[float]) -> Iterator[Floats]:
    """:func:`logistic` for each penalty, with rough fits. Every fit starts where the last one ended."""
    fitted = None
    for penalty in penalties:
        fitted = logistic(inputs, answers, penalty, weights=weights, start=fitted, tolerance=ROUGH)
        yield fitted


def ridge_path(inputs: Floats, answers: Floats, weights: Floats, penalties: Sequence[float]) -> Iterator[Floats]:
    """:func:`ridge` for each penalty. The sums over rows are computed once."""
    heavy = inputs * weights[:, None]
    gram, cross = heavy.T @ inputs, heavy.T @ answers
    for penalty in penalties:
        yield solve_ridge(gram, cross, penalty)


def logistic(
    inputs: Floats,
    answers: Floats,
    penalty: float,
    iterations: int = ITERATIONS,
    *,
    weights: Floats | None = None,
    start: Floats | None = None,
    tolerance: float = EXACT,
) -> Floats:
    """Coefficients (d + 1, C) that minimise Σ weight·cross-entropy + λ/2·‖w‖². The last row, the bias, has no penalty.

    ``answers`` (n, C) are one-hot. Rows have weight 1 unless ``weights`` (n,) says otherwise.
    """
    from scipy.optimize import minimize  # imported here, because it is slow to import and few need it

    shape = inputs.shape[1], answers.shape[1]
    shrunk = _shrunk(shape[0], penalty)
    heavy = np.ones((len(inputs), 1)) if weights is None else weights[:, None]
    # With correlated inputs the loss is a long valley. In coordinates in which an upper bound of its curvature (Böhning
    # 1992) is the identity, the same minimum is a few steps away.
    curvature = 0.5 * inputs.T @ (heavy * inputs) + np.diag(shrunk.ravel())
    factor = np.linalg.cholesky(curvature).T
    turn = np.linalg.inv(factor)
    turned = inputs @ turn

    def loss(flat: Floats) -> tuple[float, Floats]:
        moved = flat.reshape(shape)
        fitted = turn @ moved
        chances = log_softmax(turned @ moved)
        total = -np.sum(heavy * answers * chances) + 0.5 * np.sum(shrunk * fitted**2)
        slope = turned.T @ (heavy * (np.exp(chances) - answers)) + turn.T @ (shrunk * fitted)
        return float(total), slope.ravel()

    first = np.zeros(np.prod(shape)) if start is None else (factor @ start).ravel()
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": iterations, "ftol": tolerance})
    return turn @ np.asarray(found.x, np.float64).reshape(shape)


def ridge(inputs: Floats, answers: Floats, penalty: float, weights: Floats | None = None) -> Floats:
    """Coefficients (d + 1, k) that minimise ½·Σ weight·squared error + λ/2·‖w‖². The bias has no penalty."""
    (fitted,) = ridge_path(inputs, answers, np.ones(len(inputs)) if weights is None else weights, [penalty])
    return fitted


def solve_ridge(gram: Floats, cross: Floats, penalty: float) -> Floats:
    """The same from the sums Σ weight·x xᵀ (d + 1, d + 1) and Σ weight·x yᵀ (d + 1, k)."""
    return np.asarray(np.linalg.lstsq(gram + np.diag(_shrunk(len(gram), penalty).ravel()), cross, rcond=None)[0])


def _shrunk(width: int, penalty: float) -> Floats:
    """λ for every coefficient (d + 1, 1). It is almost 0 for the bias, so that a class that never occurs has a bias,
    too.
    """
    return np.append(np.full(width - 1, penalty), 1e-6)[:, None]


def log_softmax(raw: Floats) -> Floats:
    """The logarithm of the softmax of each row (n, C). SciPy's takes twice as long for rows as small as these."""
    shifted = raw - raw.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def _log_loss(fitted: Floats, inputs: Floats, answers: Floats, weights: Floats) -> float:
    return -float(np.sum(weights[:, None] * answers * log_softmax(inputs @ fitted)))


def _squared_loss(fitted: Floats, inputs: Floats, answers: Floats, weights: Floats) -> float:
    return 0.5 * float(np.sum(weights[:, None] * (inputs @ fitted - answers) ** 2))
