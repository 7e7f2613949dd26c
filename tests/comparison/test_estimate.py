"""Intervals that count seeds and rows: against closed forms, SciPy's tests and made-up comparisons."""

import math

import numpy as np
import pytest
from scipy import stats

from metasched.comparison.estimate import (
    FEWEST_UNITS,
    RESAMPLES,
    Estimate,
    Judge,
    Part,
    Scores,
    contrasts,
    difference,
    estimate,
    resamples,
    together,
    units_to_tell,
)
from metasched.learners.metrics import METRICS

ACCURACY = METRICS["accuracy"]


def right_or_wrong(right):
    """Parts of a method by unit from a table (units, rows) of hits: label 1 everywhere, predicted where it hits."""
    rows = np.arange(right.shape[1])
    return {
        unit: Part(np.stack([1.0 - hits, hits], axis=1), np.ones(len(rows), int), rows)
        for unit, hits in enumerate(right.astype(float))
    }


def made_up(units=6, rows=50, seed=0, level=0.7):
    return np.random.default_rng(seed).random((units, rows)) < level


def without_rows(*own):
    """Scores of units in which the rows add nothing."""
    return {unit: Scores(score, np.full(RESAMPLES, np.mean(own))) for unit, score in enumerate(own)}


class TestOneMethod:
    def test_the_variance_is_that_of_units_plus_that_of_rows(self):
        right = made_up()
        units, rows = right.shape
        found = estimate(Judge(ACCURACY, rows).scores(right_or_wrong(right)), rows)
        between = right.mean(axis=1).var(ddof=1) / units
        within = right.mean(axis=0).var() / rows  # of the mean of rows drawn with replacement
        assert found.value == pytest.approx(right.mean())
        assert found.error**2 - found.within == pytest.approx(between)
        assert found.within == pytest.approx(within, rel=0.25)  # from 500 resamples

    def test_degrees_of_freedom_are_those_of_welch(self):
        right = made_up()
        units, rows = right.shape
        found = estimate(Judge(ACCURACY, rows).scores(right_or_wrong(right)), rows)
        between = found.error**2 - found.within
        shifted = found._replace(value=0.03)
        parts = {"mean1": 0.03, "std1": math.sqrt(between * units), "nobs1": units}
        parts |= {"mean2": 0.0, "std2": math.sqrt(found.within * rows), "nobs2": rows}
        assert shifted.p_value == pytest.approx(stats.ttest_ind_from_stats(**parts, equal_var=False).pvalue)

    def test_where_rows_add_nothing_it_is_students_t(self):
        own = [0.1, -0.2, 0.3, 0.25, 0.2]
        found = estimate(without_rows(*own), rows=40)
        known = stats.ttest_1samp(own, 0)
        assert found.p_value == pytest.approx(known.pvalue)
        assert found.interval[1:] == pytest.approx(tuple(known.confidence_interval()))

    def test_one_unit_has_no_interval(self):
        found = estimate(without_rows(0.5), rows=40)
        assert math.isnan(found.interval.low)
        assert math.isnan(found.interval.high)

    def test_the_interval_covers_the_truth_about_as_often_as_it_says(self):
        random, covered = np.random.default_rng(0), 0
        for _ in range(300):
            chances = random.beta(7, 3, size=30) + random.normal(scale=0.05, size=(6, 1))
            right = random.random((6, 30)) < chances
            interval = estimate(Judge(ACCURACY, 30).scores(right_or_wrong(right)), 30).interval
            covered += interval.low <= 0.7 <= interval.high
        assert 0.91 <= covered / 300 <= 0.99


class TestDifference:
    def test_it_is_paired_by_unit(self):
        first, second = [0.5, 0.7, 0.6, 0.9], [0.4, 0.65, 0.45, 0.8]
        found = difference(without_rows(*first), without_rows(*second), rows=40)
        known = stats.ttest_rel(first, second)
        assert (found.p_value, found.units) == (pytest.approx(known.pvalue), 4)

    def test_it_is_paired_by_row(self):
        right = made_up()
        shifted = right.copy()
        shifted[:, 0] = ~right[:, 0]
        judge = Judge(ACCURACY, right.shape[1])
        first, second = (judge.scores(right_or_wrong(each)) for each in (right, shifted))
        found = difference(first, second, judge.rows)
        gaps = (right.astype(float) - shifted).mean(axis=0)
        assert found.within == pytest.approx(gaps.var() / judge.rows, rel=0.25)
        assert found.within < estimate(first, judge.rows).within / 2

    def test_units_that_only_one_has_do_not_count(self):
        first, second = without_rows(0.5, 0.7, 0.6), without_rows(0.4, 0.6)
        assert difference(first, second, 40).units == 2
        assert difference({0: first[0]}, {1: second[1]}, 40) is None

    def test_equal_methods_do_not_differ(self):
        found = difference(without_rows(0.5, 0.7, 0.6, 0.4), without_rows(0.5, 0.7, 0.6, 0.4), 40)
        assert (found.value, found.error, found.p_value) == (0, 0, 1)


class TestJudge:
    def test_resamples_draw_as_many_rows_as_there_are_and_the_same_each_time(self):
        counts = resamples(7)
        assert counts.shape == (RESAMPLES, 7)
        assert set(counts.sum(axis=1)) == {7}
        assert np.array_equal(counts, resamples(7))

    @pytest.mark.parametrize("name", ["log-loss", "auc", "f1"])
    def test_scores_are_those_of_the_resampled_rows_with_higher_is_better(self, name):
        random = np.random.default_rng(1)
        outputs, answers = random.dirichlet([1, 1], size=9), np.arange(9) % 2
        found = Judge(METRICS[name], 9).scores({3: Part(outputs, answers, np.arange(9))})[3]
        rows = np.repeat(np.arange(9), resamples(9)[4])
        sign = -1 if name == "log-loss" else 1
        assert found.own == pytest.approx(sign * METRICS[name].score(outputs, answers))
        assert found.resampled[4] == pytest.approx(sign * METRICS[name].score(outputs[rows], answers[rows]))

    def test_a_row_has_the_same_count_in_every_unit(self):
        label = np.ones(3, int)
        parts = {
            0: Part(np.array([[0, 1], [0, 1], [1, 0]]), label, np.array([0, 1, 2])),
            1: Part(np.array([[1, 0], [0, 1], [0, 1]]), label, np.array([2, 1, 0])),
        }
        found = Judge(ACCURACY, 3).scores(parts)
        assert np.array_equal(found[0].resampled, found[1].resampled)
        assert found[0].resampled.std() > 0

    def test_a_resample_without_any_row_of_a_unit_is_no_resample_of_it(self):
        part = Part(np.array([[0.0, 1.0]]), np.array([1]), np.array([5]))
        assert set(Judge(ACCURACY, 60).scores({0: part})[0].resampled) == {1.0}

    def test_r2_keeps_its_unit_where_all_resampled_rows_are_alike(self):
        answers = np.array([[0.0], [2.0]])
        found = Judge(METRICS["r2"], 2).scores({0: Part(answers + 0.5, answers, np.arange(2))})[0]
        assert found.resampled == pytest.approx(np.full(RESAMPLES, 1 - 0.25 / 1))
        other = Judge(METRICS["r2"], 2, unit=4.0).scores({0: Part(answers + 0.5, answers, np.arange(2))})[0]
        assert other.own == pytest.approx(1 - 0.25 / 4)

    def test_parts_with_different_rows_become_one(self):
        parts = list(right_or_wrong(made_up(units=2, rows=3)).values())
        both = together(parts)
        assert [len(column) for column in both] == [6, 6, 6]
        assert np.array_equal(both.outputs[3:], parts[1].outputs)


def gap(value, error, units=10, within=0.0, freedom=20.0):
    return Estimate(value, error, freedom, units, within)


class TestContrasts:
    def test_words_follow_from_corrected_p_values_and_the_margin(self):
        gaps = [gap(0.3, 0.01), gap(-0.3, 0.01), gap(0.0, 0.004), gap(0.05, 0.05)]
        found = contrasts(gaps, margin=0.02)
        assert [each.kind for each in found] == ["better", "worse", "alike", "open"]
        assert [each.needed is None for each in found] == [True, True, True, False]

    def test_p_values_are_corrected_over_all_of_them(self):
        gaps = [gap(0.1, 0.04), gap(0.1, 0.045), gap(0.0, 0.1)]
        raw = [2 * stats.t.sf(abs(each.value) / each.error, each.freedom) for each in gaps]
        found = contrasts(gaps, 0.02)
        assert [each.p_value for each in found] == pytest.approx(raw)
        assert [each.p_holm for each in found] == pytest.approx([3 * raw[0], max(3 * raw[0], 2 * raw[1]), raw[2]])
        assert raw[0] < 0.05 < 3 * raw[0]
        assert found[0].kind == "open"

    def test_few_units_claim_nothing(self):
        (found,) = contrasts([gap(0.3, 0.001, units=FEWEST_UNITS - 1)], 0.02)
        assert (found.kind, found.needed, found.p_value) == ("open", FEWEST_UNITS, 1)


class TestUnitsToTell:
    @pytest.mark.parametrize(("value", "within"), [(0.05, 0.0), (0.05, 0.0003), (0.001, 0.00001)])
    def test_so_many_units_narrow_the_interval_enough_and_one_less_does_not(self, value, within):
        found = gap(value, math.sqrt(0.001 + within), units=10, within=within)
        needed = units_to_tell(found, comparisons=1, margin=0.02)
        wanted = max(value, 0.02 - value)

        def half(units):
            return stats.t.ppf(0.975, 30) * math.sqrt(0.001 * 10 / units + within)

        assert half(needed) <= wanted < half(needed - 1)
        assert needed > 10

    def test_more_comparisons_take_more_units(self):
        found = gap(0.05, 0.04)
        assert units_to_tell(found, 3, 0.02) > units_to_tell(found, 1, 0.02)

    def test_no_number_of_units_makes_up_for_too_few_rows(self):
        assert units_to_tell(gap(0.05, 0.05, within=0.0025 - 1e-6), 1, 0.02) is None
