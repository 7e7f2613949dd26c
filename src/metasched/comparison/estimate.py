"""How good methods are and how they differ, with intervals that count both the seeds and the rows that judge.

A method is fitted several times, with other labelled rows each time; each time is a *unit*, and has a score m_u on the
rows that judge it. The estimate is the mean over units. Its variance has two parts,

    v = s²/U + b²,

with s² the variance of m_u over the U units (other labelled rows, other initial weights) and b² the variance of the
mean over units when the judging rows are drawn again with replacement, the same rows for all units. Differences of two
methods are treated alike, paired in both. The interval is Student's t with the degrees of freedom of Welch and
Satterthwaite, v² / ((s²/U)²/(U−1) + b⁴/(N−1)), for N judging rows. ``benchmarks/verdicts.py`` measures how often
this claims a difference where there is none.
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
"""Times that judging rows are drawn again."""
FEWEST_UNITS = 4
"""With fewer units no difference is claimed: their variance is hardly known."""


class Part(NamedTuple):
    """What a method says in one unit: ``outputs`` (n, k) for rows with ``answers``, whose numbers are ``rows`` (n,)."""

    outputs: NDArray[np.float32]
    answers: NDArray[np.generic]
    rows: NDArray[np.int64]


def together(parts: Sequence[Part]) -> Part:
    """Parts with different rows as one."""
    return Part(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class Scores(NamedTuple):
    """Scores of a method by unit: on its rows, and (RESAMPLES,) on each resample of them. Higher is better."""

    own: float
    resampled: Floats


@dataclass(frozen=True)
class Judge:
    """Scores methods on the same resamples of the same rows.

    Attributes:
        metric: what is scored.
        rows: how many different rows there are, numbered from 0.
        unit: what R² divides squared errors by.
    """

    metric: Metric
    rows: int
    unit: float | None = None

    def scores(self, units: Mapping[int, Part]) -> dict[int, Scores]:
        """Of one method, by unit."""
        counts = resamples(self.rows)
        found = {}
        for unit, part in units.items():
            # A row that a unit does not judge has no part in its score. Few rows may all be missing from a resample.
            weights = counts[:, part.rows].astype(np.float64)
            weights[~weights.any(axis=1)] = 1.0
            own = self.metric.score(part.outputs, part.answers, unit=self.unit)
            drawn = self.metric.scores(part.outputs, part.answers, weights, unit=self._unit(part))
            found[unit] = Scores(self.metric.oriented(own), drawn if self.metric.higher_is_better else -drawn)
        return found

    def _unit(self, part: Part) -> float | None:
        """The unit of errors in all resamples, which may be rows that are all alike."""
        if self.unit is not None or self.metric.name != "r2":
            return self.unit
        return float(np.var(part.answers.astype(np.float64), axis=0).sum())


def resamples(rows: int) -> NDArray[np.int64]:
    """How often each row (n,) is drawn in each resample: (RESAMPLES, n), the same at every call."""
    return np.random.default_rng(rows).multinomial(rows, np.full(rows, 1 / rows), size=RESAMPLES)


class Estimate(NamedTuple):
    """A mean over units with its standard error and degrees of freedom; ``within`` is the part of the rows, b²."""

    value: float
    error: float
    freedom: float
    units: int
    within: float

    @property
    def interval(self) -> Interval:
        """At 95 %; without ends where one unit allows none."""
        return self.interval_at(2 * TAIL)

    def interval_at(self, level: float) -> Interval:
        """Which excludes 0 where the p-value is below ``level``, if there are enough units for a p-value."""
        half = self._half(level)
        return Interval(self.value, self.value - half, self.value + half)

    @property
    def half_width(self) -> float:
        """Of the 95 % interval; NaN for one unit."""
        return self._half(2 * TAIL)

    def _half(self, level: float) -> float:
        if self.units < 2:
            return math.nan
        return float(stdtrit(self.freedom, 1 - level / 2)) * self.error if self.error > 0 else 0.0

    @property
    def p_value(self) -> float:
        """Two-sided, for a mean of 0."""
        if self.units < FEWEST_UNITS:
            return 1.0
        if self.error == 0:
            return 0.0 if self.value else 1.0
        return float(2 * stdtr(self.freedom, -abs(self.value) / self.error))


def estimate(scores: Mapping[int, Scores], rows: int) -> Estimate:
    """The mean of a score over units."""
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
    """The first less the second, paired by unit and by row; None where they share no unit."""
    both = [unit for unit in first if unit in second]
    gaps = {
        unit: Scores(first[unit].own - second[unit].own, first[unit].resampled - second[unit].resampled)
        for unit in both
    }
    return estimate(gaps, rows) if gaps else None


def contrasts(gaps: Sequence[Estimate], margin: float) -> list[Contrast]:
    """Differences that are decided together: p-values corrected over all of them (Holm)."""
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
    """About how many units would show this difference, or that it is small; None where only more rows would.

    More units lower s²/U and leave b² as it is.
    """
    if gap.units < FEWEST_UNITS:
        return FEWEST_UNITS
    wanted = max(abs(gap.value), margin - abs(gap.value))
    quantile = float(stdtrit(30.0, 1 - TAIL / comparisons))
    room = (wanted / quantile) ** 2 - gap.within
    between = gap.error**2 - gap.within
    return max(gap.units + 1, math.ceil(gap.units * between / room)) if room > 0 and between > 0 else None
