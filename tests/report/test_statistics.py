import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from metasched.dependence import holm
from metasched.report.statistics import (
    Arrivals,
    bootstrap_rows,
    gain,
    interquartile_mean,
    mean_of_means,
    median_band,
    median_samples,
    percentiles,
    sign_flip_test,
    smallest_p,
)

INF = np.inf
finite = st.floats(-5, 5, allow_nan=False).map(lambda value: round(value, 3))


def arrivals(*samples, horizon=1000.0):
    return Arrivals(np.array(samples, float), np.full(len(samples), float(horizon)))


class TestMedianSamples:
    @given(st.lists(st.integers(0, 999), min_size=1, max_size=15))
    def test_is_the_median_when_every_run_arrives(self, samples):
        assert median_samples(arrivals(*samples)).value == np.median(samples)

    @given(st.lists(st.one_of(st.integers(0, 999), st.just(INF)), min_size=1, max_size=15))
    def test_a_run_that_never_arrives_is_beyond_the_largest_and_never_dropped(self, samples):
        """Oracle: put any number larger than all others in its place; the median is the same or itself beyond."""
        replaced = np.median([min(sample, 10**9) for sample in samples])
        found = median_samples(arrivals(*samples)).value
        assert found == replaced if replaced < 10**5 else found == INF

    def test_a_censored_median_is_known_to_be_more_than_what_was_drawn(self):
        found = median_samples(arrivals(100, INF, INF, horizon=700))
        assert found.value == INF
        assert found.bound == 700

    def test_five_of_ten_that_arrive_are_not_a_median(self):
        assert median_samples(arrivals(*[100] * 5, *[INF] * 5)).value == INF
        assert median_samples(arrivals(*[100] * 6, *[INF] * 4)).value == 100

    def test_the_interval_may_end_at_infinity(self):
        found = median_samples(arrivals(100, 110, 120, 130, 140, 150, INF, INF, INF, INF))
        assert found.low >= 100
        assert found.high == INF

    def test_one_seed_has_no_interval(self):
        assert np.isnan(median_samples(arrivals(100)).low)

    def test_the_interval_agrees_with_another_bootstrap(self):
        samples = np.random.default_rng(1).normal(500, 100, 25)
        found = median_samples(arrivals(*samples))
        other = scipy.stats.bootstrap((samples,), np.median, method="percentile", n_resamples=4000, rng=2)
        assert found.low == pytest.approx(other.confidence_interval.low, abs=15)
        assert found.high == pytest.approx(other.confidence_interval.high, abs=15)


class TestGain:
    def test_is_the_plain_ratio_of_medians(self):
        found = gain(arrivals(1300, 1300, 1300, horizon=5000), arrivals(40, 40, 40))
        assert found[:3] == (32.5, 32.5, 32.5)

    def test_pairs_are_resampled_together(self):
        """Twice as slow with every seed: whatever is drawn, the ratio is 2."""
        static = np.array([100.0, 300.0, 200.0, 500.0, 700.0])
        found = gain(arrivals(*static), arrivals(*static / 2))
        assert found[:3] == (2, 2, 2)

    def test_a_baseline_that_never_arrives_is_a_lower_bound(self):
        found = gain(arrivals(INF, INF, INF, horizon=900), arrivals(100, 100, 100, horizon=900))
        assert (found.value, found.low, found.high, found.bound) == (INF, INF, INF, 9)

    def test_a_scheduler_that_never_arrives_is_an_upper_bound(self):
        found = gain(arrivals(100, 100, 100, horizon=900), arrivals(INF, INF, INF, horizon=900))
        assert (found.value, found.bound) == (0, pytest.approx(1 / 9))

    def test_neither_arrives_says_nothing(self):
        found = gain(arrivals(INF, INF), arrivals(INF, INF))
        assert np.isnan(found.value)
        assert (found.low, found.high) == (0, INF)

    def test_the_interval_holds_what_enumeration_finds(self):
        """All 4⁴ resamples of four pairs, weighted equally, against the drawn ones."""
        static, active = np.array([400.0, 600, 800, INF]), np.array([100.0, 300, 200, 400])
        every = [
            np.median(static[list(rows)]) / np.median(active[list(rows)])
            for rows in itertools.product(range(4), repeat=4)
        ]
        low, high = percentiles(np.array(every, float))
        found = gain(arrivals(*static), arrivals(*active))
        assert found.low == pytest.approx(low, rel=0.1)
        assert found.high == high


class TestInterquartileMean:
    @given(st.lists(finite, min_size=1, max_size=30))
    def test_leaves_out_a_quarter_at_either_end(self, values):
        ordered, cut = sorted(values), len(values) // 4
        assert interquartile_mean([values]).value == pytest.approx(np.mean(ordered[cut : len(values) - cut]), abs=1e-12)

    def test_one_wild_seed_does_not_move_it(self):
        assert interquartile_mean([[0.6, 0.6, 0.6, 0.0]]).value == pytest.approx(0.6)

    def test_strata_are_resampled_within_themselves(self):
        """Two cells of constant runs: mixing them would move the mean, resampling within them cannot."""
        found = interquartile_mean([[0.2] * 6, [0.8] * 6])
        assert found.value == found.low == found.high == pytest.approx(0.5)

    def test_covers_the_truth_about_as_often_as_it_says(self):
        random = np.random.default_rng(5)
        trials = [interquartile_mean([random.normal(size=20)]) for _ in range(200)]
        assert 0.87 <= np.mean([low <= 0 <= high for _, low, high in trials]) <= 0.99


class TestSignFlips:
    @given(st.lists(finite, min_size=2, max_size=8))
    def test_agrees_with_enumeration(self, differences):
        every = [abs(np.dot(signs, differences)) for signs in itertools.product((1, -1), repeat=len(differences))]
        brute = np.mean(np.array(every) >= abs(sum(differences)) - 1e-9)
        assert sign_flip_test(differences) == pytest.approx(brute)

    def test_ten_equal_signs_give_the_smallest_p(self):
        assert sign_flip_test([0.1] * 10) == smallest_p(10) == 2 / 1024

    def test_no_difference_is_no_evidence(self):
        assert sign_flip_test([0.0] * 10) == 1
        assert sign_flip_test([]) == 1

    def test_many_pairs_are_drawn_and_near_the_t_test(self):
        differences = np.random.default_rng(0).normal(0.3, 1, 40)
        found = sign_flip_test(differences)
        assert found == pytest.approx(scipy.stats.ttest_1samp(differences, 0).pvalue, abs=0.02)
        assert sign_flip_test([1.0] * 30) == smallest_p(30) > 0

    def test_holds_its_level_under_the_null(self):
        random = np.random.default_rng(3)
        p = [sign_flip_test(random.normal(size=10)) for _ in range(400)]
        assert np.mean(np.array(p) <= 0.05) <= 0.075


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_holm_agrees_with_closed_testing(p_values):
    """Holm is the closed test by Bonferroni: the largest of min(p)·|set| over all sets that hold the hypothesis."""
    count = len(p_values)
    sets = [group for size in range(1, count + 1) for group in itertools.combinations(range(count), size)]
    closed = [
        max(min(1, len(group) * min(p_values[k] for k in group)) for group in sets if number in group)
        for number in range(count)
    ]
    np.testing.assert_allclose(holm(p_values), closed)


def test_cells_count_alike_whatever_their_seeds():
    assert mean_of_means([[0.0] * 100, [1.0] * 2]).value == 0.5


def test_bands_hold_the_median_and_put_diverged_seeds_below():
    curves = np.random.default_rng(0).normal(size=(9, 4)).cumsum(axis=1)
    middle, low, high = median_band(curves)
    np.testing.assert_allclose(middle, np.median(curves, axis=0))
    assert np.all((low <= middle) & (middle <= high))
    curves[:3] = np.nan
    assert np.all(median_band(curves)[0] <= middle)


def test_the_same_results_give_the_same_intervals():
    np.testing.assert_array_equal(bootstrap_rows(7), bootstrap_rows(7))
