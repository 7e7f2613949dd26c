"""How good methods are and how they differ, with intervals that account for the seeds and for the rows that judge.

A method is fitted several times, each time with other labelled rows. Each fit is a *unit*, and has a score m_u on the
rows that judge it. The estimate is the mean over units. Its variance has two parts, v = s²/U + b². Here s² is the
variance of m_u over the U units (other labelled rows, other initial weights). b² is the variance of the mean over units
when the judging rows are drawn again with replacement, the same rows for all units. Differences of two methods are
treated in the same way, paired by unit and by row. The interval is Student's t with the degrees of freedom of Welch and
Satterthwaite, v² / ((s²/U)²/(U−1) + b⁴/(N−1)), for N judging rows. ``benchmarks/verdicts.py`` measures how often this
claims a difference that does not exist.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from metasched.dependence import holm
from metasched.learners.metrics import Metric
from metasched.report.compare import ALPHA, Contrast, Kind
from metasched.report.statistics import TAIL, Interval

Floats = NDArray[np.float64]
RESAMPLES = 500
"""How often the judging rows are drawn again."""
FEWEST_UNITS = 4
"""With fewer units no difference is claimed, because their variance is hardly known."""


class Part(NamedTuple):
    """The predictions of a method in one unit: ``outputs`` (n, k) for ``answers``, and the numbers of the rows."""

    outputs: NDArray[np.float32]
    answers: NDArray[np.generic]
    rows: NDArray[np.int64]


def together(parts: Sequence[Part]) -> Part:
    """Join parts with different rows."""
    return Part(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class Scores(NamedTuple):
    """The scores of a method by unit: on its rows, and (RESAMPLES,) on each resample of them. Higher is better."""

    own: float
    resampled: Floats


@dataclass(frozen=True)
class Judge:
    """Scores methods on the same resamples of the same rows.

    Attributes:
        metric: the metric of the scores.
        rows: how many different rows there are. They are numbered from 0.
        unit: what R² divides squared errors by.
    """

    metric: Metric
    rows: int
    unit: float | None = None

    def scores(self, units: Mapping[int, Part]) -> dict[int, Scores]:
        """The scores of one method, by unit."""
        counts = resamples(self.rows)
        found = {}
        for unit, part in units.items():
            # A row that a unit does not judge has no part in its score. In a resample, a few rows may all be missing.
            weights = counts[:, part.rows].astype(np.float64)
            weights[~weights.any(axis=1)] = 1.0
            own = self.metric.score(part.outputs, part.answers, unit=self.unit)
            drawn = self.metric.scores(part.outputs, part.answers, weights, unit=self._unit(part))
            found[unit] = Scores(self.metric.oriented(own), drawn if self.metric.higher_is_better else -drawn)
        return found

    def _unit(self, part: Part) -> float | None:
        """The unit of errors in all resamples. Their rows may all be alike."""
        if self.unit is not None or self.metric.name != "r2":
            return self.unit
        return float(np.var(part.answers.astype(np.float64), axis=0).sum())


def resamples(rows: int) -> NDArray[np.int64]:
    """How often each row (n,) is drawn in each resample: (RESAMPLES, n). The result is the same at every call."""
    return np.random.default_rng(rows).multinomial(rows, np.full(rows, 1 / rows), size=RESAMPLES)


class Estimate(NamedTuple):
    """A mean over units with its standard error and degrees of freedom. ``within`` is the part of the rows, b²."""

    value: float
    error: float
    freedom: float
    units: int
    within: float

    @property
    def interval(self) -> Interval:
        """The 95 % interval. With one unit it has no ends."""
        return self.interval_at(2 * TAIL)

    def interval_at(self, level: float) -> Interval:
        """The interval that excludes 0 if the p-value is below ``level``, provided that there are enough units for a
        p-value.
        """
        half = self._half(level)
        return Interval(self.value, self.value - half, self.value + half)

    @property
    def half_width(self) -> float:
        """Half of the width of the 95 % interval; NaN for one unit."""
        return self._half(2 * TAIL)

    def _half(self, level: float) -> float:
        if self.units < 2:
            return math.nan
        return float(stdtrit(self.freedom, 1 - level / 2)) * self.error if self.error > 0 else 0.0

    @property
    def p_value(self) -> float:
        """The two-sided p-value for a mean of 0."""
        if self.units < FEWEST_UNITS:
            return 1.0
        if self.error == 0:
            return 0.0 if self.value else 1.0
        return float(2 * stdtr(self.freedom, -abs(self.value) / self.error))


def estimate(scores: Mapping[int, Scores], rows: int) -> Estimate:
    """Estimate the mean of a score over units."""
    own = np.array([each.own for each in scores.values()])
    resampled = np.mean([each.resampled for each in scores.values()], axis=0)
    units = len(own)
    between = float(own.var(ddof=1)) / units if units > 1 else 0.0
    within = float(resampled.var(ddof=1))
    variance = between + within
    spread = between**2 / max(units - 1, 1) + within**2 / max(rows - 1, 1)
    freedom = variance**2 / spread if spread > 0 else math.inf
    return Estimate(float(own.mean()), math.sqrt(variance), max(1.0, freedom), units, within)


def difference(first: Mapping[int, Scores], second: Mapping[int, Scores], rows: int) -> Estimate | None:
    """Estimate the first minus the second, paired by unit and by row. None if they share no unit."""
    both = [unit for unit in first if unit in second]
    gaps = {
        unit: Scores(first[unit].own - second[unit].own, first[unit].resampled - second[unit].resampled)
        for unit in both
    }
    return estimate(gaps, rows) if gaps else None


def contrasts(gaps: Sequence[Estimate], margin: float) -> list[Contrast]:
    """Differences that are tested together, with p-values corrected over all of them (Holm)."""
    corrected = [float(p) for p in holm([gap.p_value for gap in gaps])]
    kinds = [_kind(gap, p, margin) for gap, p in zip(gaps, corrected, strict=True)]
    left = sum(kind not in ("better", "worse") for kind in kinds)
    return [
        Contrast(
            gap.interval,
            gap.p_value,
            p,
            gap.units,
            kind,
            units_to_tell(gap, left, margin) if kind == "open" else None,
        )
        for gap, p, kind in zip(gaps, corrected, kinds, strict=True)
    ]


def _kind(gap: Estimate, p: float, margin: float) -> Kind:
    if p <= ALPHA:
        return "better" if gap.value > 0 else "worse"
    return "alike" if gap.units >= FEWEST_UNITS and abs(gap.value) + gap.half_width <= margin else "open"


def units_to_tell(gap: Estimate, comparisons: int, margin: float) -> int | None:
    """About how many units would show this difference, or show that it is small. None if only more rows could.

    More units lower s²/U, but not b².
    """
    if gap.units < FEWEST_UNITS:
        return FEWEST_UNITS
    wanted = max(abs(gap.value), margin - abs(gap.value))
    quantile = float(stdtrit(30.0, 1 - TAIL / comparisons))
    room = (wanted / quantile) ** 2 - gap.within
    between = gap.error**2 - gap.within
    return max(gap.units + 1, math.ceil(gap.units * between / room)) if room > 0 and between > 0 else None
