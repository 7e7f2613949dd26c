"""Which models make up the final model: all that may be the best, weighted by how likely that is.

A model is judged by the log-likelihood of held-out labelled rows. With few rows it is uncertain which model has the
largest, because the rows might have been others. So the rows are weighted at random again and again (the Bayesian
bootstrap). Each time a model gets a weight ∝ exp(τ·log-likelihood), and its final weight is the mean of these. This is
the pseudo-BMA+ of Yao, Vehtari, Simpson & Gelman (2018), with a temperature τ below 1: fits on folds share most of
their rows, and a mean of several good models is better than one of them. Probabilities are mixed with a tenth of a
guess first, so that no single row decides. With clear evidence few models are left; with little evidence the mean is
over many.

A high likelihood usually means a high accuracy, too. This does not hold for metrics by class: if a class is rare, a
model that ignores it has the highest likelihood. For such metrics, every class has the same weight in the likelihood.
If the best single model is then still better than the mean by the metric itself, in nearly all resamples of the rows,
it is taken alone.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from metasched.comparison.estimate import Part
from metasched.learners.metrics import METRICS, Metric

ACCURACY = METRICS["accuracy"]
TEMPERATURE = 0.25
RESAMPLES = 1000
GUESS = 0.1
"""The share of a guess among all classes that is mixed into probabilities."""
LEAST_WEIGHT = 0.02
"""Models with a smaller weight are left out."""
MOST_MODELS = 10
SURE = 0.95
"""The share of the resamples in which a single model must be better than the mean."""


def weights(parts: Mapping[str, Part], metric: Metric = ACCURACY) -> dict[str, float]:
    """The weights of models by name, largest first, from their predictions for the same held-out rows. They sum to 1.

    >>> rows = np.arange(40)
    >>> good, bad = np.tile([[0.9, 0.1]], (40, 1)), np.tile([[0.5, 0.5]], (40, 1))
    >>> weights({"good": Part(good, np.zeros(40, int), rows), "bad": Part(bad, np.zeros(40, int), rows)})
    {'good': 1.0}
    """
    names = list(parts)
    rows = np.array([likelihoods(part) for part in parts.values()])
    count = rows.shape[1]
    if metric.by_class:
        rows *= class_weights(parts[names[0]].answers)
    drawn = np.random.default_rng(0).dirichlet(np.ones(count), RESAMPLES)
    evidence = TEMPERATURE * count * (drawn @ rows.T)
    chances = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    shares = (chances / chances.sum(axis=1, keepdims=True)).mean(axis=0)
    best = [place for place in np.argsort(-shares, kind="stable")[:MOST_MODELS] if shares[place] >= LEAST_WEIGHT]
    total = float(shares[best].sum())
    found = {names[place]: float(shares[place]) / total for place in best}
    alone = _better_alone(parts, found, metric, drawn) if metric.by_class else None
    return found if alone is None else {alone: 1.0}


def _better_alone(
    parts: Mapping[str, Part], shares: Mapping[str, float], metric: Metric, drawn: NDArray[np.float64]
) -> str | None:
    """The model with the best score on the rows, if it beats the mean for nearly all row weights (B, n)."""

    def scores(part: Part, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        return metric.scores(part.outputs, part.answers, weights) * (1 if metric.higher_is_better else -1)

    best = max(parts, key=lambda name: float(scores(parts[name])[0]))
    ahead = scores(parts[best], drawn) > scores(mean_part(parts, shares), drawn)
    return best if ahead.mean() >= SURE else None


def class_weights(labels: NDArray[np.generic]) -> NDArray[np.float64]:
    """Weights (n,) with mean 1 that give every class the same total weight."""
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(len(labels) / (len(counts) * counts[classes]))


def likelihoods(part: Part) -> NDArray[np.float64]:
    """The log-likelihood (n,) of each row: of its label or, for numbers, of normal errors with the found variance."""
    outputs = np.asarray(part.outputs, np.float64)
    if part.answers.ndim == 1:
        right = outputs[np.arange(len(outputs)), part.answers.astype(np.int64)]
        return np.asarray(np.log((1 - GUESS) * right + GUESS / outputs.shape[1]))
    errors = ((outputs - part.answers.astype(np.float64)) ** 2).sum(axis=1)
    variance = max(float(errors.mean()), np.finfo(np.float64).tiny)
    return np.asarray(-0.5 * errors / variance - 0.5 * np.log(variance))


def mean_part(parts: Mapping[str, Part], shares: Mapping[str, float]) -> Part:
    """The predictions of the weighted mean of models."""
    first = parts[next(iter(shares))]
    outputs = sum(share * parts[name].outputs.astype(np.float64) for name, share in shares.items())
    return first._replace(outputs=np.asarray(outputs, np.float32))
