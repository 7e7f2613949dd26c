"""A time in words, and how many steps fit into it."""

import pytest

import metasched as ms
from metasched.comparison.budget import FEWEST_STEPS, FOR_NETWORKS, Pace, seconds_of, within
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


def test_networks_get_their_share_of_the_time():
    runs, seconds = 40, 60
    assert PACE.seconds(runs, LEARNER.updates) == pytest.approx(200)
    found = within(LEARNER, PACE, runs, seconds)
    steps = found.updates * found.batches_per_update
    assert found.updates == 100
    assert steps <= FOR_NETWORKS * seconds / 200 * 1000 < steps + found.updates


def test_enough_time_changes_nothing():
    assert within(LEARNER, PACE, 40, 200 / FOR_NETWORKS + 1) is LEARNER


def test_with_fewer_steps_than_updates_there_are_fewer_updates():
    found = within(LEARNER, PACE, 40, 200 / FOR_NETWORKS * 0.06)
    assert (found.updates, found.batches_per_update) == (60, 1)


def test_a_budget_that_is_too_short_is_refused_with_one_that_will_do():
    least = 200 / FOR_NETWORKS * FEWEST_STEPS / 1000
    with pytest.raises(
        ConfigError,
        match=r"40 runs; give about 20 seconds, or fewer seeds \(--seeds\) or methods",
    ):
        within(LEARNER, PACE, 40, least * 0.9)
    within(LEARNER, PACE, 40, least * 1.1)
    within(LEARNER, PACE, 40, 20)


def test_compiling_takes_its_time_from_training():
    slow = PACE._replace(compiling=10.0)
    assert slow.seconds(40, LEARNER.updates) == PACE.seconds(40, LEARNER.updates) + 10
    assert within(LEARNER, slow, 40, 60 + 10 / FOR_NETWORKS) == within(LEARNER, PACE, 40, 60)
    with pytest.raises(ConfigError, match="too short for 40 runs; give about 40 seconds"):
        within(LEARNER, slow, 40, 21)


def test_a_budget_of_no_step_at_all_is_told_the_same_time():
    with pytest.raises(ConfigError, match=r"a budget of 0 s is too short for 400000 runs; give about 55\.6 hours"):
        within(LEARNER, PACE, 400_000, 0.01)
