"""Statistics of repeated runs: medians with runs that never reach a threshold, gains, interquartile means, paired
tests, orderings.

Everything is paired or resampled by seed. A run that never reaches a threshold counts as larger than all values, and is
never left out. Intervals are percentile bootstrap intervals at 95 %. Their ends are order statistics, so that
infinities are allowed. They are computed from fixed random numbers, so that the same results give the same page.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

RESAMPLES = 2000
TAIL = 0.025
"""The probability on either side of a 95 % interval."""
FLIPS = 20_000
"""Sign patterns are enumerated if there are at most this many (14 pairs). Otherwise this many are drawn."""


class Interval(NamedTuple):
    """An estimate and its 95 % interval. ``low`` and ``high`` are NaN if there is only one seed."""

    value: float
    low: float
    high: float


class Arrivals(NamedTuple):
    """Source rows drawn until a threshold was reached, by seed (S,), ∞ if never; and all rows drawn (S,)."""

    samples: Floats
    horizon: Floats


class Bounded(NamedTuple):
    """An estimate with its interval that may be censored, and the ``bound`` that the runs show in that case.

    The median samples to a threshold are ∞ if the median run never reached it. Then they are more than the bound. A
    gain is ∞ or 0 if one of its two medians is censored. Then it is above or below the bound. If both are censored it
    is NaN.
    """

    value: float
    low: float
    high: float
    bound: float


def stays_from(values: Sequence[float], threshold: float) -> int | None:
    """The first index from which all values are at or above ``threshold``, or None.

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
    """The ends of the middle 95 % along the first axis. Both are values of the sample. NaN may stand for anything."""
    low = np.quantile(np.where(np.isnan(values), -np.inf, values), TAIL, axis=0, method="lower")
    high = np.quantile(np.where(np.isnan(values), np.inf, values), 1 - TAIL, axis=0, method="higher")
    return low, high


def median_samples(arrivals: Arrivals) -> Bounded:
    """The median over seeds of the samples to the threshold, with its interval.

    In the bound, a run that never reached the threshold counts with all rows that it drew, the least that it would have
    needed.
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

    A resample in which neither median run reaches the threshold says nothing, and widens the interval on both sides.
    """
    theirs, ours = median_samples(baseline), median_samples(scheduler)
    value, bound = (float(_ratio(*pair)) for pair in ((theirs.value, ours.value), (theirs.bound, ours.bound)))
    if len(baseline.samples) < 2:
        return Bounded(value, np.nan, np.nan, bound)
    rows = bootstrap_rows(len(baseline.samples))
    low, high = percentiles(_ratio(*(np.median(side.samples[rows], axis=1) for side in (baseline, scheduler))))
    return Bounded(value, max(float(low), 0.0), float(high), bound)


def _ratio(above: ArrayLike, below: ArrayLike) -> Floats:
    """The first divided by the second, with x/0 = ∞, x/∞ = 0, and NaN for 0/0 and ∞/∞."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.true_divide(above, below), np.float64)


def interquartile_mean(strata: Sequence[ArrayLike]) -> Interval:
    """The mean of the middle half (a quarter, rounded down, is cut at either end) of all runs of all strata (cells).

    R. Agarwal et al., Deep reinforcement learning at the edge of the statistical precipice, NeurIPS 2021.
    """
    from scipy.stats import trim_mean  # imported here, because it takes half of the import time of the package

    return _over_strata(strata, lambda parts: trim_mean(np.sort(np.concatenate(parts, axis=-1)), 0.25, axis=-1))


def mean_of_means(strata: Sequence[ArrayLike]) -> Interval:
    """The mean over strata (cells) of the means within them, for example of paired differences."""
    return _over_strata(strata, lambda parts: np.mean([part.mean(axis=-1) for part in parts], axis=0))


def _over_strata(strata: Sequence[ArrayLike], estimate: Callable[[Sequence[Floats]], Floats]) -> Interval:
    """An estimate from strata (S,), and its interval if each is resampled (resamples, S) separately."""
    arrays = [np.asarray(stratum, np.float64) for stratum in strata]
    value = float(estimate(arrays))
    if all(len(array) < 2 for array in arrays):
        return Interval(value, np.nan, np.nan)
    drawn = [values[bootstrap_rows(len(values), stream=number)] for number, values in enumerate(arrays)]
    low, high = percentiles(estimate(drawn))
    return Interval(value, float(low), float(high))


def sign_flip_test(differences: ArrayLike) -> float:
    """Two-sided p-value of paired differences (S,) under the hypothesis that each sign is a fair coin.

    Exact for up to 14 pairs. For more, it uses 20,000 random patterns and the observed one, the same at every call.
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
    """The smallest p-value that :func:`sign_flip_test` can return: only the two patterns with equal signs are as
    extreme.
    """
    return 1.0 if pairs < 2 else max(2.0 ** (1 - pairs), 2 / (FLIPS + 1))


def median_band(curves: Floats) -> tuple[Floats, Floats, Floats]:
    """The median over seeds of curves (S, P) and the ends of its interval, point by point: three arrays (P,).

    NaN, from a seed that diverged, counts as smaller than everything. A single seed has no interval.
    """
    values = np.where(np.isnan(curves), -np.inf, curves)
    middle = np.median(values, axis=0)
    if len(values) < 2:
        return middle, middle, middle
    low, high = percentiles(np.median(values[bootstrap_rows(len(values), RESAMPLES // 2)], axis=1))
    return middle, low, high
