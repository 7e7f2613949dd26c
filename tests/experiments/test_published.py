"""The numbers agree with each other the way they do in the paper, so that a slip of the pen shows."""

import numpy as np
import pytest

from metasched.experiments import published


@pytest.mark.parametrize("experiment", ["digits", "cifar"])
@pytest.mark.parametrize("scheduler", ["ucb", "gittins"])
def test_gains_are_ratios_of_the_printed_samples(experiment, scheduler):
    samples = published.SAMPLES[experiment]
    assert samples["cyclic"] / samples[scheduler] == pytest.approx(published.GAIN[experiment][scheduler], abs=0.05)


def test_rows_of_the_transition_matrix_sum_to_one():
    np.testing.assert_allclose(np.sum(published.TRANSITIONS, axis=1), 1, atol=1e-9)


def test_rows_used_add_up_as_printed():
    totals = {name: np.sum(rows) for name, rows in published.ROWS_USED.items()}
    assert totals == {"mdp": 5000, "gittins": 5010, "ucb": 5000}
    for rows in published.ROWS_USED.values():
        assert np.shape(rows) == (published.SUBSETS, len(published.WEATHER_EVENTS))


def test_every_scheduler_has_every_feature_and_event():
    assert set(published.WEATHER_ACCURACY) == set(published.ORDER)
    for row in published.WEATHER_ACCURACY.values():
        assert tuple(row) == published.WEATHER_FEATURES
    for scheduler in published.EVENT_ACCURACY.values():
        assert len(scheduler) == len(published.WEATHER_EVENTS)


def test_the_printed_table_contradicts_the_claimed_order_in_places():
    """Gittins beats MDP on two features and cyclic beats UCB on one: the page must not repeat "in all experiments"."""
    table = published.WEATHER_ACCURACY
    assert [f for f in published.WEATHER_FEATURES if table["gittins"][f] > table["mdp"][f]] == ["UBOT", "Z100"]
    assert [f for f in published.WEATHER_FEATURES if table["cyclic"][f] > table["ucb"][f]] == ["V850"]
