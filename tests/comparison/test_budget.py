"""A time in words, and how many steps fit into it."""

import re

import pytest

import metasched as ms
from metasched.comparison.budget import FEWEST_STEPS, FOR_NETWORKS, WITHOUT_TREES, Pace, seconds_of, within
from metasched.errors import ConfigError

LEARNER = ms.Joint(updates=100, batches_per_update=10)
PACE = Pace(update=0.1, workers=2)


@pytest.mark.parametrize(
    ("budget", "seconds"), [("90s", 90), ("90", 90), (" 2M ", 120), ("1h30m10s", 5410), (2.5, 2.5), (None, None)]
)
def test_a_budget_is_read(budget, seconds):
    assert seconds_of(budget) == seconds


@pytest.mark.parametrize("budget", ["", "soon", "2 minutes", "-2m", "0s", 0, -1, float("nan"), "1m2h"])
def test_what_is_no_time_is_refused_in_one_line(budget):
    with pytest.raises(ConfigError, match="budget is") as refused:
        seconds_of(budget)
    assert "\n" not in str(refused.value)


RUNS = {4: 16, 10: 40}
TRAINING = 200
"""Seconds of all runs."""


def test_networks_get_their_share_of_the_time():
    assert PACE.seconds(40, LEARNER.updates) == pytest.approx(TRAINING)
    found = within(LEARNER, PACE, RUNS, 60)
    steps = found.learner.updates * found.learner.batches_per_update
    assert (found.seeds, found.trees, found.learner.updates) == (10, True, 100)
    assert steps <= FOR_NETWORKS * 60 / TRAINING * 1000 < steps + found.learner.updates


def test_enough_time_changes_nothing():
    found = within(LEARNER, PACE, RUNS, TRAINING / FOR_NETWORKS + 1)
    assert found.learner is LEARNER
    assert found == (LEARNER, 10, True)


def test_with_fewer_steps_than_updates_there_are_fewer_updates():
    found = within(LEARNER, PACE, RUNS, TRAINING / FOR_NETWORKS * 0.06).learner
    assert (found.updates, found.batches_per_update) == (60, 1)


def test_where_fewer_steps_are_not_enough_trees_and_then_seeds_are_left_out():
    least = TRAINING * FEWEST_STEPS / 1000
    kept = [
        within(LEARNER, PACE, RUNS, seconds)
        for seconds in (1.01 * least / FOR_NETWORKS, 0.99 * least / FOR_NETWORKS, 0.99 * least / WITHOUT_TREES)
    ]
    assert [(found.seeds, found.trees) for found in kept] == [(10, True), (10, False), (4, False)]
    assert all(found.learner.updates * found.learner.batches_per_update >= FEWEST_STEPS for found in kept)


@pytest.mark.parametrize("compiling", [0.0, 1.0, 10.0, 47.9, 61.0, 3000.0, 50_000.0])
def test_the_budget_that_a_refusal_proposes_does(compiling):
    slow = PACE._replace(compiling=compiling)
    with pytest.raises(ConfigError, match=r"of 0 s is too short even for 16 runs \(4 seeds\) of 50 steps") as refused:
        within(LEARNER, slow, RUNS, 0.01)
    named = re.search(r"; give (\w+) or more, or fewer methods \(--methods\)$", str(refused.value))[1]
    assert within(LEARNER, slow, RUNS, seconds_of(named)).seeds in RUNS


def test_compiling_takes_its_time_from_training():
    slow = PACE._replace(compiling=10.0)
    assert slow.seconds(40, LEARNER.updates) == PACE.seconds(40, LEARNER.updates) + 10
    assert within(LEARNER, slow, RUNS, 60 + 10 / FOR_NETWORKS) == within(LEARNER, PACE, RUNS, 60)
