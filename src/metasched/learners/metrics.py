"""The metrics by which models are judged, in NumPy, for one set of row weights or many at once.

A *value* is the number that people know: a log-loss of 0.4, an error of 12 euros. A *score* is the same number with a
sign such that higher is better. Runs and outcomes store scores, and tables and sentences show values.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
MetricName: TypeAlias = Literal["accuracy", "balanced-accuracy", "auc", "f1", "log-loss", "r2", "mae"]
NAMES: tuple[MetricName, ...] = get_args(MetricName)
SMALLEST = 1e-7
"""Smaller probabilities count as this in the log-loss, so that a single bold error does not make it infinite."""
MARGIN = 0.02
"""Scores that differ by less than this count as alike."""

Values: TypeAlias = Callable[[Floats, NDArray[np.generic], Floats, float | None], Floats]
"""Outputs (n, k), answers (n,) or (n, d), weights (B, n) and the unit of squared errors to values (B,)."""


@dataclass(frozen=True)
class Metric:
    """How good predictions are, as one number.

    Attributes:
        name: the word for it in settings and on the command line.
        word: its name in sentences and headings.
        kind: whether it judges probabilities of classes or predicted numbers.
        higher_is_better: False for losses and errors.
        margin: differences below this count as alike. With ``relative`` it is a share of the standard deviation of the
            target's labelled numbers; :meth:`margin_of` says how much that is.
        relative: whether its size depends on the unit of the numbers to predict.
        by_row: whether it is a mean of one score for each row, overall or by class.
        by_class: whether every class counts the same, however rare, and only the predicted class matters.
    """

    name: MetricName
    word: str
    kind: Literal["classification", "regression"]
    values: Values = field(repr=False, compare=False)
    higher_is_better: bool = True
    margin: float = MARGIN
    relative: bool = False
    by_row: bool = False
    by_class: bool = False

    @property
    def lowest(self) -> float:
        """The smallest possible value; R² has none."""
        return -math.inf if self.name == "r2" else 0.0

    @property
    def highest(self) -> float:
        """The largest possible value; losses and errors have none."""
        return 1.0 if self.higher_is_better else math.inf

    @property
    def title(self) -> str:
        """Its name on axes and columns, if it was measured on test rows."""
        return f"test {self.word}"

    def score(
        self, outputs: ArrayLike, answers: ArrayLike, weights: ArrayLike | None = None, *, unit: float | None = None
    ) -> float:
        """The value of this metric, as in scikit-learn. :meth:`oriented` turns it into a score.

        ``outputs`` are probabilities (n, C), or predicted numbers (n, d). ``answers`` are labels (n,), or the true
        numbers (n, d). ``weights`` (n,) are at least 0; a row with weight 0 is left out. ``unit`` is the variance that
        R² divides squared errors by; by default that of the answers.

        >>> round(METRICS["log-loss"].score([[0.5, 0.5], [0.2, 0.8]], [0, 1]), 3)
        0.458
        """
        given = None if weights is None else np.asarray(weights, np.float64)[None]
        return float(self.scores(outputs, answers, given, unit=unit)[0])

    def scores(
        self, outputs: ArrayLike, answers: ArrayLike, weights: ArrayLike | None = None, *, unit: float | None = None
    ) -> Floats:
        """The same for many sets of row weights (B, n), such as the counts of bootstrap samples: values (B,)."""
        read, known = np.asarray(outputs, np.float64), np.asarray(answers)
        given = np.ones((1, len(known))) if weights is None else np.asarray(weights, np.float64)
        if self.kind == "regression":
            known = known.reshape(len(known), -1)
            read = read.reshape(known.shape)
        return self.values(read, known, given, unit)

    def oriented(self, value: float) -> float:
        """Turn a value into a score, for which higher is better. Runs store scores."""
        return value if self.higher_is_better else -value

    def shown(self, score: float) -> float:
        """Turn a stored score back into a value."""
        return score if self.higher_is_better else 0.0 - score

    def margin_of(self, deviation: float | None = None) -> float:
        """Scores that differ by less than this count as alike. ``deviation`` is that of the target's labelled numbers.

        Without it a relative margin is 0, so only equal scores count as alike.
        """
        return self.margin * (deviation or 0.0) if self.relative else self.margin

    def guess(self, classes: int, deviation: float | None = None) -> float:
        """The score of a model that knows nothing: it guesses among the classes, or predicts the mean."""
        if self.kind == "regression":
            return 0.0 if not self.relative else -(deviation or 0.0)
        if self.name == "auc":
            return 0.5
        return -math.log(max(classes, 1)) if self.name == "log-loss" else 1 / max(classes, 1)


def _mean(rows: Floats, weights: Floats) -> Floats:
    """The weighted means (B,) of one number for each row (n,)."""
    return np.asarray((weights @ rows) / weights.sum(axis=1))


def _one_hot(labels: NDArray[np.generic], classes: int) -> Floats:
    return np.eye(classes)[labels.astype(np.int64)]


def _accuracy(outputs: Floats, labels: NDArray[np.generic], weights: Floats, _: float | None) -> Floats:
    """The share of rows whose most probable class is the right one."""
    return _mean((outputs.argmax(axis=1) == labels).astype(np.float64), weights)


def _mean_over(known: NDArray[np.bool_], parts: Floats) -> Floats:
    """The mean (B,) over the classes of each set of weights that count (B, C)."""
    return np.asarray(np.where(known, parts, 0).sum(axis=1) / known.sum(axis=1))


def _balanced_accuracy(outputs: Floats, labels: NDArray[np.generic], weights: Floats, _: float | None) -> Floats:
    """The mean, over the classes that occur, of the share of their rows that are predicted correctly."""
    truth = _one_hot(labels, outputs.shape[1])
    right = outputs.argmax(axis=1) == labels
    counts, found = weights @ truth, weights @ (truth * right[:, None])
    return _mean_over(counts > 0, found / np.where(counts > 0, counts, 1))


def _f1(outputs: Floats, labels: NDArray[np.generic], weights: Floats, _: float | None) -> Floats:
    """The mean over classes of 2·hits / (rows of the class + rows predicted as the class): macro-F1, also for two
    classes.

    Classes count if they occur among the answers or the predictions.
    """
    classes = outputs.shape[1]
    truth, said = _one_hot(labels, classes), _one_hot(outputs.argmax(axis=1), classes)
    both = weights @ truth + weights @ said
    return _mean_over(both > 0, 2 * (weights @ (truth * said)) / np.where(both > 0, both, 1))


def _auc(outputs: Floats, labels: NDArray[np.generic], weights: Floats, _: float | None) -> Floats:
    """The probability that a row of a class gets a higher probability of it than a row of another; ties count half.

    With more than two classes it is the mean over the classes that occur, each against all others. If only one class
    occurs, there is nothing to rank, and the value is ½, that of a guess.
    """
    classes = [1] if outputs.shape[1] == 2 else range(outputs.shape[1])
    areas, known = [], []
    for label in classes:
        area, positive, negative = _area(outputs[:, label], labels == label, weights)
        areas.append(area)
        # With two classes, one area is enough. A class that has all rows cannot be ranked against others.
        known.append((positive > 0) & (negative > 0))
    found = np.where(known, areas, 0).sum(axis=0)
    count = np.sum(known, axis=0)
    return np.where(count > 0, found / np.maximum(count, 1), 0.5)


def _area(scores: Floats, positive: NDArray[np.bool_], weights: Floats) -> tuple[Floats, Floats, Floats]:
    """The area under one curve, and the weight of the rows on either side: three arrays (B,)."""
    order = np.argsort(scores, kind="stable")
    sorted_scores, mine = scores[order], positive[order]
    starts = np.flatnonzero(np.append(True, np.diff(sorted_scores) > 0))
    # Rows with equal scores are one group. Half of the others in the group count as lying below.
    above = np.add.reduceat(weights[:, order] * mine, starts, axis=1)
    below = np.add.reduceat(weights[:, order] * ~mine, starts, axis=1)
    pairs = (above * (np.cumsum(below, axis=1) - below / 2)).sum(axis=1)
    one, other = above.sum(axis=1), below.sum(axis=1)
    return pairs / np.where(one * other > 0, one * other, 1), one, other


def _log_loss(outputs: Floats, labels: NDArray[np.generic], weights: Floats, _: float | None) -> Floats:
    """The mean of −log p, where p is the probability of the right class."""
    right = outputs[np.arange(len(labels)), labels.astype(np.int64)]
    return _mean(-np.log(np.maximum(right, SMALLEST)), weights)


def _r2(outputs: Floats, targets: NDArray[np.generic], weights: Floats, unit: float | None) -> Floats:
    """1 − squared error / variance, both summed over the numbers of a row."""
    known = targets.astype(np.float64)
    error = _mean(((outputs - known) ** 2).sum(axis=1), weights)
    if unit is not None:
        return 1 - error / unit
    share = weights / weights.sum(axis=1, keepdims=True)
    # Numbers far from 0 would lose their digits in E[y²] − E[y]².
    near = known - known.mean(axis=0)
    variance = np.asarray(share @ near**2 - (share @ near) ** 2)
    return np.asarray(1 - error / variance.sum(axis=1))


def _mae(outputs: Floats, targets: NDArray[np.generic], weights: Floats, _: float | None) -> Floats:
    """The mean of |prediction − truth| over rows and over the numbers of a row, in their own unit."""
    return _mean(np.abs(outputs - targets.astype(np.float64)).mean(axis=1), weights)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", "classification", _accuracy, by_row=True),
        Metric(
            *("balanced-accuracy", "balanced accuracy", "classification", _balanced_accuracy),
            by_row=True,
            by_class=True,
        ),
        Metric("auc", "AUC", "classification", _auc),
        Metric("f1", "macro-F1", "classification", _f1, by_class=True),
        Metric("log-loss", "log-loss", "classification", _log_loss, higher_is_better=False),
        Metric("r2", "R²", "regression", _r2, by_row=True),
        Metric("mae", "mean absolute error", "regression", _mae, higher_is_better=False, relative=True),
    )
}
"""All metrics by name."""


def metric_of(name: str | None, *, balanced: bool = False, regression: bool = False) -> Metric:
    """The metric of a name. None means accuracy, balanced accuracy if that was asked for, or R²."""
    if name is None:
        name = "r2" if regression else "balanced-accuracy" if balanced else "accuracy"
    return METRICS[name]
