"""What repeated runs show: medians with runs that never arrive, gains, interquartile means, paired tests, orderings.

Everything is paired or resampled by seed. A run that never reaches a threshold counts as beyond the largest value and
is never left out. Intervals are percentile bootstrap intervals at 95 %, cut at order statistics so that infinities are
allowed; they are computed from a fixed stream of random numbers, so that the same results give the same page.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

RESAMPLES = 2000
TAIL = 0.025
"""On either side of a 95 % interval."""
FLIPS = 20_000
"""Sign patterns are enumerated as long as there are no more (14 pairs); beyond, so many are drawn."""


class Interval(NamedTuple):
    """An estimate and its 95 % interval; ``low`` and ``high`` are NaN where one seed allows none."""

    value: float
    low: float
    high: float


class Arrivals(NamedTuple):
    """Source rows drawn until a threshold was reached, by seed (S,), ∞ if never; and rows drawn in all (S,)."""

    samples: Floats
    horizon: Floats


class Bounded(NamedTuple):
    """An estimate with its interval that may be censored, and the ``bound`` that the runs show in that case.

    Median samples to a threshold are ∞ when the median run never arrived: they are more than the bound. A gain is ∞ or
    0 when one of its two medians is censored: it is above or below the bound; it is NaN when both are.
    """

    value: float
    low: float
    high: float
    bound: float


def stays_from(values: Sequence[float], threshold: float) -> int | None:
    """The first index from which all values are at or above ``threshold``; None if there is none.

    >>> stays_from([0.2, 0.7, 0.5, 0.6, 0.8], 0.6)
    3
    """
    below = np.flatnonzero(np.asarray(values) < threshold)
    first = int(below[-1]) + 1 if below.size else 0
    return first if first < len(values) else None


def bootstrap_rows(seeds: int, resamples: int = RESAMPLES, stream: int = 0) -> NDArray[np.intp]:
    """Seeds drawn with replacement (resamples, S): the row numbers of each resample."""
    return np.random.default_rng([seeds, stream]).integers(0, seeds, (resamples, seeds))


def percentiles(values: Floats) -> tuple[Floats, Floats]:
    """The ends of the middle 95 % along the first axis, both of them values; NaN may stand for anything."""
    low = np.quantile(np.where(np.isnan(values), -np.inf, values), TAIL, axis=0, method="lower")
    high = np.quantile(np.where(np.isnan(values), np.inf, values), 1 - TAIL, axis=0, method="higher")
    return low, high


def median_samples(arrivals: Arrivals) -> Bounded:
    """Median over seeds of samples to the threshold, with its interval.

    The bound counts a run that never arrived at the rows it had drawn in all, the least it would have needed.
    """
    samples = arrivals.samples
    bound = float(np.median(np.minimum(samples, arrivals.horizon)))
    value = float(np.median(samples))
    if len(samples) < 2:
        return Bounded(value, np.nan, np.nan, bound)
    low, high = percentiles(np.median(samples[bootstrap_rows(len(samples))], axis=1))
    return Bounded(value, float(low), float(high), bound)


def gain(baseline: Arrivals, scheduler: Arrivals) -> Bounded:
    """Median samples of the baseline over those of the scheduler; both hold the same seeds in the same order.

    A resample in which neither median run arrives says nothing and widens the interval on both sides.
    """
    theirs, ours = median_samples(baseline), median_samples(scheduler)
    value, bound = (float(_ratio(*pair)) for pair in ((theirs.value, ours.value), (theirs.bound, ours.bound)))
    if len(baseline.samples) < 2:
        return Bounded(value, np.nan, np.nan, bound)
    rows = bootstrap_rows(len(baseline.samples))
    low, high = percentiles(_ratio(*(np.median(side.samples[rows], axis=1) for side in (baseline, scheduler))))
    return Bounded(value, max(float(low), 0.0), float(high), bound)


def _ratio(above: ArrayLike, below: ArrayLike) -> Floats:
    """First over second, with x/0 = ∞, x/∞ = 0, and NaN for 0/0 and ∞/∞."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.true_divide(above, below), np.float64)


def interquartile_mean(strata: Sequence[ArrayLike]) -> Interval:
    """Mean of the middle half (a quarter, rounded down, is cut at either end) of all runs of all strata (cells).

    R. Agarwal et al., Deep reinforcement learning at the edge of the statistical precipice, NeurIPS 2021.
    """
    from scipy.stats import trim_mean  # here, because importing it takes half of the package's time

    return _over_strata(strata, lambda parts: trim_mean(np.sort(np.concatenate(parts, axis=-1)), 0.25, axis=-1))


def mean_of_means(strata: Sequence[ArrayLike]) -> Interval:
    """Mean over strata (cells) of the means within them, of paired differences, say."""
    return _over_strata(strata, lambda parts: np.mean([part.mean(axis=-1) for part in parts], axis=0))


def _over_strata(strata: Sequence[ArrayLike], estimate: Callable[[Sequence[Floats]], Floats]) -> Interval:
    """An estimate from strata (S,), and its interval when each is resampled (resamples, S) within itself."""
    arrays = [np.asarray(stratum, np.float64) for stratum in strata]
    value = float(estimate(arrays))
    if all(len(array) < 2 for array in arrays):
        return Interval(value, np.nan, np.nan)
    drawn = [values[bootstrap_rows(len(values), stream=number)] for number, values in enumerate(arrays)]
    low, high = percentiles(estimate(drawn))
    return Interval(value, float(low), float(high))


def sign_flip_test(differences: ArrayLike) -> float:
    """Two-sided p-value of paired differences (S,) under the hypothesis that each sign is a fair coin.

    Exact up to 14 pairs; beyond, from 20,000 drawn patterns and the observed one, the same ones at every call.
    """
    from scipy.stats import permutation_test

    values = np.asarray(differences, np.float64)
    if len(values) < 2:
        return 1.0
    scale = float(np.abs(values).max()) or 1.0

    def total(flipped: Floats, axis: int) -> Floats:
        return np.asarray(np.round(flipped.sum(axis=axis) / scale, 10))  # equal sums are equal in every order

    test = permutation_test(
        (values,),
        total,
        permutation_type="samples",
        vectorized=True,
        n_resamples=FLIPS,
        rng=np.random.default_rng(len(values)),
    )
    return float(test.pvalue)


def smallest_p(pairs: int) -> float:
    """The smallest p-value that :func:`sign_flip_test` can give: both patterns with all signs equal."""
    return 1.0 if pairs < 2 else max(2.0 ** (1 - pairs), 2 / (FLIPS + 1))


def median_band(curves: Floats) -> tuple[Floats, Floats, Floats]:
    """Median over seeds of curves (S, P) and the ends of its interval, point by point: three arrays (P,).

    NaN counts as below everything (a seed that diverged); one seed has no interval.
    """
    values = np.where(np.isnan(curves), -np.inf, curves)
    middle = np.median(values, axis=0)
    if len(values) < 2:
        return middle, middle, middle
    low, high = percentiles(np.median(values[bootstrap_rows(len(values), RESAMPLES // 2)], axis=1))
    return middle, low, high
