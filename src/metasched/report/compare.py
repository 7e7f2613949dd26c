"""Compares the methods of a cell: the best of each kind, samples to a threshold, gains, paired tests.

Functions that take a method also take None, for a method that the cell does not have. They then return None.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from metasched.dependence import holm
from metasched.learners.metrics import MARGIN as MARGIN
from metasched.report import statistics
from metasched.report.cells import TARGET_ONLY, CellRuns, MethodRuns
from metasched.report.statistics import Arrivals, Bounded, Floats, Interval
from metasched.runs.outcome import OURS
from metasched.schedulers.resolve import BASELINE

ALPHA = 0.05
Kind = Literal["better", "worse", "alike", "open"]


class Contrast(NamedTuple):
    """The final accuracy of a method minus that of another on the seeds that both have, as one of several comparisons.

    *Better* or *worse*: the corrected p-value is at most 5 %. *Alike*: there are enough seeds to show a difference, and
    the whole interval lies within the margin of the metric. Everything else is *open*: about ``needed`` seeds might do.
    """

    difference: Interval
    p_value: float
    p_holm: float
    pairs: int
    kind: Kind
    needed: int | None

    @property
    def words(self) -> str:
        """The result in words, for a table."""
        return too_few(self.needed) if self.kind == "open" else self.kind


def too_few(needed: int | None) -> str:
    """That there are too few seeds, and how many might do; or too few rows, if no number of seeds would be enough."""
    return f"{what_lacks(needed)} to tell{might_do(needed)}"


def what_lacks(needed: int | None) -> str:
    """What is missing for a clear answer."""
    return "too few seeds" if needed else "too few labelled rows"


def might_do(needed: int | None) -> str:
    """The number of seeds that might do, a guess from the seeds so far. Empty if no number would be enough."""
    return f": about {needed:,} seeds might do" if needed else ""


def best(methods: Iterable[MethodRuns]) -> MethodRuns | None:
    """The method with the largest median final accuracy; of equal ones the first. None if there are none."""
    return max(methods, key=lambda method: method.median_final, default=None)


def best_static(cell: CellRuns) -> MethodRuns | None:
    """The best schedule that neither learns nor plans."""
    return best(method for method in cell.methods.values() if method.family == "static")


def best_active(cell: CellRuns) -> MethodRuns | None:
    """The best scheduler that learns or plans, picked after the runs."""
    return best(method for method in cell.methods.values() if method.family == "active")


def best_single(cell: CellRuns) -> MethodRuns | None:
    """The best single task in hindsight."""
    schedulers = {method: method.runs[0].spec.scheduler for method in cell.methods.values()}
    return best(method for method, scheduler in schedulers.items() if scheduler.partition(":")[0] == "single")


def ceiling(cell: CellRuns) -> MethodRuns | None:
    """The network trained on all rows at once."""
    return best(method for method in cell.methods.values() if method.family == "ceiling")


def thresholds(cell: CellRuns) -> dict[float, str]:
    """The accuracies to reach, and their origin: fixed before the run, or the final accuracy of the best static
    baseline.
    """
    marks = {} if cell.threshold is None else {cell.threshold: "fixed before the run"}
    static = best_static(cell)
    if static is not None and (cell.threshold is None or cell.regime == "few-label"):
        marks.setdefault(static.median_final, f"final accuracy of {static.name}")
    return marks


@lru_cache(maxsize=8192)
def arrivals(method: MethodRuns, threshold: float) -> dict[int, tuple[float, float]]:
    """For each seed: source rows drawn until the threshold was reached for good (∞: never), and all rows drawn."""
    longest = max((max(run.samples) for run in method.runs if run.samples), default=0)
    by_seed: dict[int, tuple[float, float]] = {}
    for run in method.runs:
        if run.diverged:
            by_seed[run.spec.seed] = (np.inf, longest)
        elif run.samples:
            index = statistics.stays_from(run.test_accuracy, threshold)
            by_seed[run.spec.seed] = (np.inf if index is None else run.samples[index], max(run.samples))
    return by_seed if method.updates else {}


def _collected(by_seed: dict[int, tuple[float, float]], seeds: Iterable[int]) -> Arrivals:
    """Arrivals of these seeds, in increasing order."""
    rows = np.array([by_seed[seed] for seed in sorted(seeds)], np.float64).reshape(-1, 2)
    return Arrivals(rows[:, 0], rows[:, 1])


def median_samples(method: MethodRuns, threshold: float | None) -> Bounded | None:
    """The median samples to the threshold, or None without measurements."""
    by_seed = {} if threshold is None else arrivals(method, threshold)
    return statistics.median_samples(_collected(by_seed, by_seed)) if by_seed else None


def gain_over(baseline: MethodRuns | None, method: MethodRuns | None, threshold: float | None) -> Bounded | None:
    """The samples of the baseline divided by those of the method, on the seeds that both have."""
    if baseline is None or method is None or threshold is None or baseline is method:
        return None
    theirs, ours = arrivals(baseline, threshold), arrivals(method, threshold)
    both = theirs.keys() & ours.keys()
    return statistics.gain(_collected(theirs, both), _collected(ours, both)) if both else None


def gain_to_final(baseline: MethodRuns | None, method: MethodRuns | None) -> Bounded | None:
    """The gain in samples until the test accuracy stays at the median final accuracy of the baseline."""
    return gain_over(baseline, method, baseline.median_final if baseline else None)


@lru_cache(maxsize=8192)
def score(method: MethodRuns | None) -> Interval | None:
    """Interquartile mean of final accuracy with its interval."""
    return statistics.interquartile_mean([list(method.finals().values())]) if method else None


def typical(cell: CellRuns, method: MethodRuns | None) -> Interval | None:
    """The final accuracy of a method over seeds as in tables: for own runs the mean, as on the terminal."""
    return mean(method) if cell.own else score(method)


def statistic(cells: Iterable[CellRuns]) -> str:
    """The name of that statistic."""
    kinds = dict.fromkeys("mean" if cell.own else "interquartile mean" for cell in cells)
    return " or, for own runs, ".join(sorted(kinds))


@lru_cache(maxsize=8192)
def mean(method: MethodRuns | None) -> Interval | None:
    """The mean of the final accuracy with its interval. None if no seed has one."""
    finals = list(method.finals().values()) if method else []
    return statistics.mean_of_means([finals]) if finals else None


def differences(first: MethodRuns, second: MethodRuns) -> Floats:
    """The final accuracy of the first minus that of the second, on the seeds that both have."""
    ours, theirs = first.finals(), second.finals()
    return np.array([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())], np.float64)


def difference(first: MethodRuns | None, second: MethodRuns | None) -> Interval | None:
    """The mean of these differences with its interval."""
    if first is None or second is None or first is second:
        return None
    gaps = differences(first, second)
    return statistics.mean_of_means([gaps]) if gaps.size else None


def contrasts(pairs: Iterable[tuple[MethodRuns, MethodRuns]]) -> dict[MethodRuns, Contrast]:
    """The first of each pair minus the second: sign-flip tests, corrected over all pairs (Holm)."""
    gaps = {first: differences(first, second) for first, second in pairs}
    gaps = {method: values for method, values in gaps.items() if values.size}
    return dict(zip(gaps, tested(list(gaps.values()), [method.margin for method in gaps]), strict=True))


def tested(gaps: Sequence[Floats], margins: Sequence[float]) -> list[Contrast]:
    """Test the differences by seed (S,) of several comparisons, corrected over all of them (Holm).

    An open comparison needs enough seeds for all differences that are not shown yet. ``margins`` are those of the
    metrics.
    """
    p_values = [statistics.sign_flip_test(values) for values in gaps]
    enough = [len(values) >= (seeds_needed(len(gaps)) or math.inf) for values in gaps]
    intervals = [statistics.mean_of_means([values]) for values in gaps]
    corrected = [float(p) for p in holm(p_values)]
    kinds = list(map(_kind, intervals, corrected, enough, margins))
    left = sum(kind not in ("better", "worse") for kind in kinds)
    needed = [
        seeds_to_tell(values, left, margin) if kind == "open" else None
        for values, kind, margin in zip(gaps, kinds, margins, strict=True)
    ]
    return list(map(Contrast, intervals, p_values, corrected, map(len, gaps), kinds, needed))


def _kind(interval: Interval, p: float, enough: bool, margin: float) -> Kind:
    if p <= ALPHA:
        return "better" if interval.value > 0 else "worse"
    return "alike" if enough and max(-interval.low, interval.high) <= margin else "open"


def seeds_needed(comparisons: int) -> int | None:
    """The fewest seeds that could show a difference in one of this many comparisons. None if no number could.

    >>> [seeds_needed(comparisons) for comparisons in (1, 5, 18)]
    [6, 8, 10]
    """
    reach = (seeds for seeds in range(2, 20) if comparisons * statistics.smallest_p(seeds) <= ALPHA)
    return next(reach, None)


def seeds_to_tell(gaps: Floats, comparisons: int, margin: float = MARGIN) -> int | None:
    """About how many seeds would show a difference like this one, or show that there is none, in this many comparisons.

    The half-width z·s/√S of the interval, at 5 % over the comparisons, must fall below the size |d| of the difference,
    or below margin − |d|.

    >>> seeds_to_tell(np.array([0.41, 0.42, 0.43]), 1)
    6
    """
    fewest = seeds_needed(comparisons)
    if fewest is None or len(gaps) < 2:
        return fewest
    size = abs(float(gaps.mean()))
    if max(size, margin - size) <= 0:  # there is no difference, and no margin that shows it to be small
        return None
    width = NormalDist().inv_cdf(1 - ALPHA / (2 * comparisons)) * float(gaps.std(ddof=1))
    return max(fewest, len(gaps) + 1, math.ceil((width / max(size, margin - size)) ** 2))


@lru_cache(maxsize=512)
def against(cell: CellRuns, baseline: MethodRuns | None) -> dict[MethodRuns, Contrast]:
    """Exploratory: every method but the ceiling minus a baseline, corrected over all of them."""
    others = [method for method in cell.methods.values() if method is not baseline and method.family != "ceiling"]
    return contrasts([(method, baseline) for method in others]) if baseline else {}


def against_best_static(cell: CellRuns) -> dict[MethodRuns, Contrast]:
    """The same with the best static schedule as the baseline, which was also picked after the runs."""
    return against(cell, best_static(cell))


def named(cell: CellRuns) -> tuple[MethodRuns, MethodRuns] | None:
    """The method that was named before the runs, and the baseline. None unless exactly one method was named."""
    ours = [method for method in cell.methods.values() if method.runs[0].role == OURS]
    baseline = cell.methods.get(BASELINE)
    return (ours[0], baseline) if len(ours) == 1 and baseline else None


def planned(cell: CellRuns) -> tuple[MethodRuns, MethodRuns] | None:
    """The same if it was planned. None for exploratory cells."""
    return None if cell.exploratory else named(cell)


def chosen(cell: CellRuns) -> tuple[MethodRuns, MethodRuns] | None:
    """The contrast of a cell: the planned pair, or the best active scheduler minus uniform or the best static one."""
    ours, baseline = best_active(cell), cell.methods.get(BASELINE) or best_static(cell)
    return planned(cell) or ((ours, baseline) if ours and baseline else None)


def planned_contrasts(cells: Iterable[CellRuns]) -> dict[MethodRuns, Contrast]:
    """The planned contrast of every cell that has one, corrected over these cells. For a single cell, as in its
    verdict.
    """
    pairs = {cell: pair for cell in cells if (pair := planned(cell))}
    if len(pairs) == 1:
        ((cell, (ours, baseline)),) = pairs.items()
        control = cell.methods.get(TARGET_ONLY)
        if control and (seeds := in_common(ours, baseline, control)):
            return {ours: tested(gaps_of(*seeds), [ours.margin] * 3)[0]}
    return contrasts(pairs.values())


def in_common(*methods: MethodRuns) -> list[Floats]:
    """The final accuracies of methods on the seeds that all of them have (S,)."""
    finals = [method.finals() for method in methods]
    seeds = sorted(set.intersection(*map(set, finals)))
    return [np.array([each[seed] for seed in seeds], np.float64) for each in finals] if seeds else []


def gaps_of(ours: Floats, uniform: Floats, target_only: Floats | None = None) -> list[Floats]:
    """The contrasts of a verdict: ours minus uniform, and both minus target-only if that is known."""
    return [ours - uniform, *([] if target_only is None else [ours - target_only, uniform - target_only])]
