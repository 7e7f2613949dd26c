"""Fits an estimator on rows with weights. The result is plain arrays."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from metasched.optional import require
from metasched.references.linear import Linear, fit_linear
from metasched.references.rows import FitRows
from metasched.references.threads import one_thread
from metasched.references.trees import DEEPEST, Trees, of_boosting, of_forest

Estimator: TypeAlias = Literal["majority", "linear", "forest", "boosting"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
EXTRA = "references"
FOREST_TREES = 100
BINS = 64
BOOSTING: dict[str, Any] = {
    "max_iter": 40,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 5,
    "max_features": 0.3,
    "early_stopping": False,
    "max_bins": BINS,  # a third of the time of 255, and as good on every problem that we tried
}


@dataclass(frozen=True, eq=False)
class Constant:
    """The same answer for every row.

    Attributes:
        answer: (k,) probabilities, or numbers.
    """

    answer: NDArray[np.float64]

    def outputs(self, rows: NDArray[np.float32], _: int) -> NDArray[np.float64]:
        """The answer (n, k) for rows (n, d)."""
        return np.tile(self.answer, (len(rows), 1))

    def fault(self, _: int, classes: int) -> str | None:
        """What is wrong with an array from an untrusted file, or None. ``classes`` is 0 in regression."""
        count = len(self.answer)
        return f"it has {count} outputs" if not count or count != (classes or count) else None


Parameters: TypeAlias = Constant | Linear | Trees


def fit(estimator: Estimator, rows: FitRows, seed: int) -> Parameters:
    """The parameters of a fitted estimator.

    They depend on the rows and on ``seed``, and not on the number of threads. If all rows have the same class, every
    estimator predicts this class.
    """
    if estimator == "majority" or (rows.classes and len(np.unique(rows.labels)) == 1):
        return Constant(np.average(rows.answers, axis=0, weights=rows.weights))
    if estimator == "linear":
        return fit_linear(rows, seed)[0]
    fit_trees = _forest if estimator == "forest" else _boosting
    ensemble = require("sklearn.ensemble", EXTRA)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for many classes with few rows, the usual case here
        return fit_trees(ensemble, rows, seed)


def _forest(ensemble: Any, rows: FitRows, seed: int) -> Trees:
    kind = ensemble.RandomForestClassifier if rows.classes else ensemble.RandomForestRegressor
    forest = kind(FOREST_TREES, max_depth=DEEPEST, n_jobs=1, random_state=seed)
    if rows.classes:
        forest.fit(rows.inputs, rows.labels, rows.weights)
        return of_forest(forest, forest.classes_)
    single = rows.answers.shape[1] == 1
    forest.fit(rows.inputs, rows.answers[:, 0] if single else rows.answers, rows.weights)
    return of_forest(forest, np.arange(rows.answers.shape[1]))


def _boosting(ensemble: Any, rows: FitRows, seed: int) -> Trees:
    # scikit-learn would find the same bins. But if rows have weights, it sorts all rows again for every edge of every
    # feature, which takes two thirds of the time of a fit. If there are as many values as bins, it makes each value a
    # bin.
    edges = bin_edges(rows.inputs, rows.weights, BINS)
    inputs = np.column_stack([np.searchsorted(own, column) for own, column in zip(edges, rows.inputs.T, strict=True)])
    if rows.classes:
        classifier = ensemble.HistGradientBoostingClassifier(**BOOSTING, random_state=seed)
        classifier.fit(inputs, rows.labels, rows.weights)
        return of_boosting([classifier], classifier.classes_, edges)
    made = [ensemble.HistGradientBoostingRegressor(**BOOSTING, random_state=seed) for _ in rows.answers.T]
    fitted = [each.fit(inputs, column, rows.weights) for each, column in zip(made, rows.answers.T, strict=True)]
    return of_boosting(fitted, np.arange(len(fitted)), edges)


def bin_edges(inputs: NDArray[Any], weights: NDArray[np.float64], bins: int) -> list[NDArray[np.float64]]:
    """For each feature, rising numbers that divide the rows (n, d) into at most this many bins of about equal weight.

    A value is in the first bin whose edge is not below it. Edges are quantiles of the rows with a weight above 0, or
    the mean of two neighbours if a quantile lies between them (Hyndman and Fan 1996, their second definition). If there
    are few distinct values, edges are their midpoints.
    """
    some = weights > 0
    columns, weights = inputs[some].T.astype(np.float64), weights[some]
    found = []
    for column, order in zip(columns, np.argsort(columns, axis=1), strict=True):
        values = column[order]
        distinct = values[np.append(True, values[1:] > values[:-1])]
        if len(distinct) <= bins:
            found.append((distinct[1:] + distinct[:-1]) / 2)
            continue
        below = np.cumsum(weights[order])
        ranks = np.linspace(0, 100, bins + 1)[1:-1] / 100 * below[-1]
        at = np.minimum(np.searchsorted(below, ranks), len(values) - 1)
        next_ = np.minimum(at + 1, len(values) - 1)
        between = below[at] - ranks <= np.finfo(np.float64).eps
        found.append(np.unique(np.where(between, (values[at] + values[next_]) / 2, values[at])))
    return found
