"""Fit an estimator on rows with weights: what comes out is plain arrays."""

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
BOOSTING: dict[str, Any] = {
    "max_iter": 40,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 5,
    "max_features": 0.3,
    "early_stopping": False,
    "max_bins": 64,  # a third of the time of 255, and as good on every problem that we tried
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
        """What is wrong with an array that anybody may have made, or None; ``classes`` is 0 in regression."""
        count = len(self.answer)
        return f"it has {count} outputs" if not count or count != (classes or count) else None


Parameters: TypeAlias = Constant | Linear | Trees


def fit(estimator: Estimator, rows: FitRows, seed: int) -> Parameters:
    """The parameters of a fitted estimator.

    They depend on the rows and on ``seed``, and not on the number of threads. Where all rows are of one class, every
    estimator answers with that class.
    """
    if estimator == "majority" or (rows.classes and len(np.unique(rows.labels)) == 1):
        return Constant(np.average(rows.answers, axis=0, weights=rows.weights))
    if estimator == "linear":
        return fit_linear(rows, seed)[0]
    fit_trees = _forest if estimator == "forest" else _boosting
    ensemble = require("sklearn.ensemble", EXTRA)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of many classes among few rows, which is what we have
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
    if rows.classes:
        classifier = ensemble.HistGradientBoostingClassifier(**BOOSTING, random_state=seed)
        classifier.fit(rows.inputs, rows.labels, rows.weights)
        return of_boosting([classifier], classifier.classes_)
    made = [ensemble.HistGradientBoostingRegressor(**BOOSTING, random_state=seed) for _ in rows.answers.T]
    fitted = [each.fit(rows.inputs, column, rows.weights) for each, column in zip(made, rows.answers.T, strict=True)]
    return of_boosting(fitted, np.arange(len(fitted)))
