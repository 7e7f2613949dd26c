"""What repeated runs show: medians with runs that never arrive, gains, interquartile means, paired tests, orderings.

Everything is paired or resampled by seed. A run that never reaches a threshold counts as beyond the largest value and
is never left out. Intervals are percentile bootstrap intervals at 95 %, cut at order statistics so that infinities are
allowed; they are computed from a fixed stream of random numbers, so that the same results give the same page.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Verdict = Literal["true", "false", "not shown"]

RESAMPLES = 2000
LEVEL = 0.95
MOST_EXACT = 12
"""Sign flips are enumerated up to this many pairs (4,096 patterns); beyond, they are drawn."""
DRAWN_FLIPS = 20_000


class Interval(NamedTuple):
    """An estimate and its 95 % interval; ``low`` and ``high`` are NaN where one seed allows none."""

    value: float
    low: float
    high: float


class Arrivals(NamedTuple):
    """Source rows drawn until a threshold was reached, by seed (S,), ∞ if never; and rows drawn in all (S,)."""

    samples: Floats
    horizon: Floats


class Median(NamedTuple):
    """Median samples to a threshold; ∞ when the median run never arrived: it needs more than ``bound``."""

    value: float
    low: float
    high: float
    bound: float


class Gain(NamedTuple):
    """Ratio of median samples, baseline over scheduler; NaN when neither arrives.

    ``bound`` is what the runs show when one of the two medians is censored: the gain is above it (``value`` ∞) or below
    it (``value`` 0).
    """

    value: float
    low: float
    high: float
    bound: float


def bootstrap_rows(seeds: int, resamples: int = RESAMPLES, stream: int = 0) -> NDArray[np.intp]:
    """Seeds drawn with replacement (resamples, S): the row numbers of each resample."""
    return np.random.default_rng([seeds, stream]).integers(0, seeds, (resamples, seeds))


def medians(values: Floats, axis: int = -1) -> Floats:
    """Medians along an axis where ∞ is a value like any other: the mean of the two middle ones."""
    ordered = np.sort(values, axis=axis)
    count = values.shape[axis]
    below, above = (np.take(ordered, middle, axis=axis) for middle in ((count - 1) // 2, count // 2))
    return np.asarray((below + above) / 2, np.float64)


def percentiles(values: Floats, axis: int = 0, level: float = LEVEL) -> tuple[Floats, Floats]:
    """The interval that holds the middle ``level`` of the values, ends included; NaN may stand for anything."""
    tail = (1 - level) / 2
    last = values.shape[axis] - 1
    lowest = np.sort(np.where(np.isnan(values), -np.inf, values), axis=axis)
    highest = np.sort(np.where(np.isnan(values), np.inf, values), axis=axis)
    low = np.take(lowest, int(np.floor(tail * last)), axis=axis)
    high = np.take(highest, int(np.ceil((1 - tail) * last)), axis=axis)
    return low, high


def median_samples(arrivals: Arrivals) -> Median:
    """Median over seeds of samples to the threshold, with its interval.

    The bound counts a run that never arrived at the rows it had drawn in all, the least it would have needed.
    """
    samples = arrivals.samples
    bound = float(medians(np.minimum(samples, arrivals.horizon)))
    value = float(medians(samples))
    if len(samples) < 2:
        return Median(value, np.nan, np.nan, bound)
    low, high = percentiles(medians(samples[bootstrap_rows(len(samples))]))
    return Median(value, float(low), float(high), bound)


def gain(baseline: Arrivals, scheduler: Arrivals) -> Gain:
    """Median samples of the baseline over those of the scheduler; both hold the same seeds in the same order.

    A resample in which neither median run arrives says nothing and widens the interval on both sides.
    """
    value = float(_ratio(medians(baseline.samples), medians(scheduler.samples)))
    bounds = (median_samples(arrivals).bound for arrivals in (baseline, scheduler))
    bound = float(_ratio(*map(np.asarray, bounds)))
    if len(baseline.samples) < 2:
        return Gain(value, np.nan, np.nan, bound)
    rows = bootstrap_rows(len(baseline.samples))
    ratios = _ratio(medians(baseline.samples[rows]), medians(scheduler.samples[rows]))
    low, high = percentiles(ratios)
    return Gain(value, max(float(low), 0.0), float(high), bound)


def _ratio(above: Floats, below: Floats) -> Floats:
    """First over second, with x/0 = ∞, x/∞ = 0, and NaN for 0/0 and ∞/∞."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.true_divide(above, below), np.float64)


def interquartile_mean(values: ArrayLike, axis: int = -1) -> Floats:
    """Mean of the middle half: a quarter of the values, rounded down, is left out at either end."""
    ordered = np.sort(np.asarray(values, np.float64), axis=axis)
    count = ordered.shape[axis]
    cut = count // 4
    middle = np.take(ordered, np.arange(cut, count - cut), axis=axis)
    return np.asarray(middle.mean(axis=axis), np.float64)


def interquartile_interval(strata: Sequence[ArrayLike]) -> Interval:
    """Interquartile mean over all runs of all strata (cells), each resampled within itself.

    R. Agarwal et al., Deep reinforcement learning at the edge of the statistical precipice, NeurIPS 2021.
    """
    arrays = [np.asarray(stratum, np.float64) for stratum in strata]
    value = float(interquartile_mean(np.concatenate(arrays)))
    if all(len(array) < 2 for array in arrays):
        return Interval(value, np.nan, np.nan)
    low, high = percentiles(interquartile_mean(np.concatenate(_resampled(arrays), axis=1)))
    return Interval(value, float(low), float(high))


def mean_interval(strata: Sequence[ArrayLike]) -> Interval:
    """Mean over strata of the means within them (of paired differences, say), each resampled within itself."""
    arrays = [np.asarray(stratum, np.float64) for stratum in strata]
    value = float(np.mean([array.mean() for array in arrays]))
    if all(len(array) < 2 for array in arrays):
        return Interval(value, np.nan, np.nan)
    draws = [draw.mean(axis=1) for draw in _resampled(arrays)]
    low, high = percentiles(np.mean(draws, axis=0))
    return Interval(value, float(low), float(high))


def _resampled(strata: Sequence[Floats]) -> list[Floats]:
    """Each stratum (S,) resampled within itself (resamples, S), independently of the others."""
    return [values[bootstrap_rows(len(values), stream=number)] for number, values in enumerate(strata)]


def sign_flip_test(differences: ArrayLike) -> float:
    """Two-sided p-value of paired differences (S,) under the hypothesis that each sign is a fair coin.

    The share of sign patterns whose |mean| is at least the observed one: of all 2^S up to S = 12, else of 20,000 drawn
    ones and the observed one.
    """
    values = np.asarray(differences, np.float64)
    count = len(values)
    if count == 0:
        return 1.0
    if count <= MOST_EXACT:
        signs = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    else:
        signs = np.random.default_rng(count).choice([-1.0, 1.0], (DRAWN_FLIPS, count))
    observed = abs(values.sum())
    extreme = np.abs(signs @ values) >= observed - 1e-12 * np.abs(values).sum()
    if count <= MOST_EXACT:
        return float(extreme.mean())
    return float((extreme.sum() + 1) / (DRAWN_FLIPS + 1))


def smallest_p(pairs: int) -> float:
    """The smallest p-value that :func:`sign_flip_test` can give: both patterns with all signs equal."""
    return min(1.0, 2.0 ** (1 - pairs)) if pairs <= MOST_EXACT else 1 / (DRAWN_FLIPS + 1)


def at_least(strata: Sequence[ArrayLike]) -> tuple[Interval, Verdict]:
    """Is the first of a pair at least as good, from paired differences (first − second) by stratum?

    True when the 95 % interval of the mean difference lies at or above 0, false when it lies below 0.
    """
    interval = mean_interval(strata)
    if interval.low >= 0:
        return interval, "true"
    return interval, "false" if interval.high < 0 else "not shown"


def chain(verdicts: Sequence[Verdict]) -> Verdict:
    """A chain of claims is true when every link is, false when one is false, and else not shown."""
    if "false" in verdicts:
        return "false"
    return "true" if verdicts and "not shown" not in verdicts else "not shown"


def links(order: Sequence[str], present: Sequence[str]) -> list[tuple[str, str]]:
    """Neighbouring pairs of those in ``order`` that are present.

    >>> links(["mdp", "gittins", "ucb"], ["ucb", "mdp"])
    [('mdp', 'ucb')]
    """
    return list(pairwise(name for name in order if name in present))


def median_band(curves: Floats, resamples: int = RESAMPLES // 2) -> tuple[Floats, Floats, Floats]:
    """Median over seeds of curves (S, P) and the ends of its interval, point by point: three arrays (P,).

    NaN counts as below everything (a seed that diverged); one seed has no interval.
    """
    known = np.where(np.isnan(curves), -np.inf, curves)
    middle = medians(known, axis=0)
    if len(known) < 2:
        return middle, middle, middle
    low, high = percentiles(medians(known[bootstrap_rows(len(known), resamples)], axis=1))
    return middle, low, high
