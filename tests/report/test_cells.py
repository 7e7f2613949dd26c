"""Methods over their runs."""

import numpy as np
import pytest

import made_up_results as made
from metasched.report.cells import MethodRuns


def method(*runs, chance=0.1):
    return MethodRuns("ucb", runs, chance)


def test_a_seed_that_diverged_counts_as_chance_whatever_it_had_measured():
    half = made.changed(made.diverged(seed=1), updates=(1,), samples=(100,), test_accuracy=(0.6,))
    found = method(made.run(seed=2), half)
    assert found.finals() == {1: 0.1, 2: 0.5}
    assert found.median_final == pytest.approx(0.3)
    np.testing.assert_array_equal(found.curves("test_accuracy"), [[0.1, 0.3, 0.5], [0.6, np.nan, np.nan]])


def test_a_measure_that_no_run_has_is_not_chance_either():
    found = method(made.run(seed=0), made.diverged(seed=1))
    assert found.finals("balanced_test_accuracy") == {}
    balanced = made.Final(test_accuracy=0.5, balanced_test_accuracy=0.4)
    assert method(made.run(final=balanced), made.diverged(seed=1)).finals("balanced_test_accuracy") == {0: 0.4, 1: 0.1}


def test_where_all_diverged_all_is_chance():
    assert method(made.diverged(seed=0), made.diverged(seed=1)).finals() == {0: 0.1, 1: 0.1}


def test_rows_by_label_are_means_over_the_seeds_that_have_them():
    finals = [made.Final(test_accuracy=0.5, drawn_by_label=((seed, 2.0), (3.0, 4.0))) for seed in (0, 1)]
    runs = [made.run(seed=seed, final=final) for seed, final in enumerate(finals)]
    np.testing.assert_array_equal(method(*runs, made.run(seed=2)).drawn_by_label, [[0.5, 2], [3, 4]])
    assert method(made.run()).drawn_by_label is None


def test_the_schedule_is_that_of_the_first_seed_that_has_one():
    assert method(made.run(seed=0), made.run(seed=1, schedule=((1, 0),))).schedule.tolist() == [[1, 0]]
