"""What each source is worth: the words, and the numbers behind them."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from half_sources import make_sources
from helpers import make_tasks
from metasched.comparison import sources
from metasched.comparison.estimate import Estimate, Judge
from metasched.comparison.sources import (
    BETTER_WITHOUT,
    ROWS_HARM,
    between,
    judged,
    lines,
    over_units,
    shares_of,
    shown,
    weights_of,
)
from metasched.comparison.splits import split
from metasched.learners.metrics import METRICS
from metasched.references.grams import Grams
from metasched.references.leave_out import left_out_scores

UP, DOWN = (Estimate(value, 0.01, 20.0, 10, 0.0) for value in (0.2, -0.2))
LITTLE = Estimate(0.005, 0.0003, 20.0, 10, 0.0)
SMALL, WIDE = (Estimate(0.001, error, 20.0, 10, 0.0) for error in (0.001, 0.5))


@pytest.mark.parametrize(
    ("transfer", "lost", "shuffled", "word", "why"),
    [
        (UP, UP, True, "harmful", "its labels look shuffled"),
        (DOWN, DOWN, False, "harmful", "learning its rows lowers the score, and leaving it out raises it"),
        (DOWN, UP, False, "cannot tell", "the two measures disagree"),
        (UP, DOWN, False, "cannot tell", "the two measures disagree"),
        (DOWN, WIDE, False, "cannot tell", ROWS_HARM),
        (DOWN, None, False, "cannot tell", ROWS_HARM),
        (DOWN, SMALL, False, "cannot tell", ROWS_HARM),
        (None, DOWN, False, "cannot tell", BETTER_WITHOUT),
        (WIDE, DOWN, False, "cannot tell", BETTER_WITHOUT),
        (UP, None, False, "keep", "learning its rows raises the score"),
        (UP, WIDE, False, "keep", "learning its rows raises the score"),
        (WIDE, UP, False, "keep", "leaving it out lowers the score"),
        (UP, UP, False, "keep", "learning its rows raises the score and leaving it out lowers the score"),
        (WIDE, SMALL, False, "no difference", "the score changes by less than 0.02 without it"),
        (None, SMALL, False, "no difference", "the score changes by less than 0.02 without it"),
        (WIDE, LITTLE, False, "no difference", "the score changes by less than 0.02 without it"),
        (UP, LITTLE, False, "keep", "learning its rows raises the score"),
        (LITTLE, SMALL, False, "no difference", "the score changes by less than 0.02 without it"),
        (LITTLE, WIDE, False, "keep", "learning its rows raises the score"),
        (WIDE, WIDE, False, "cannot tell", "neither measure is clear"),
        (None, None, False, "cannot tell", "neither measure is clear"),
    ],
)
def test_the_word_for_a_source(transfer, lost, shuffled, word, why):
    assert judged(transfer, lost, shuffled, margin=0.02, slight=0.01) == (word, why)


def test_a_small_transfer_is_one_that_is_small_beside_the_largest(splits, monkeypatch):
    monkeypatch.setattr(sources, "_losses", lambda splits, judge, grams: dict.fromkeys(range(4), SMALL))
    monkeypatch.setattr(sources, "look_shuffled", lambda tasks, strengths: [])
    ours = [SimpleNamespace(drawn=(1, 1, 1, 1), rewards=(-0.2, 0.019, 0.021, None)) for _ in range(5)]
    found = lines(splits, Judge(METRICS["accuracy"], splits.judges), Grams.of(splits.official), ours, margin=0.02)
    words = {line.name: line.word for line in found}
    assert [words[task.name] for task in splits.official.tasks] == [
        "cannot tell",
        "no difference",
        "keep",
        "no difference",
    ]


def test_too_few_seeds_are_the_reason_where_they_are():
    found = Estimate(3.8, 0.1, 2.0, 3, 0.0)
    assert judged(None, found, False, margin=0.02) == ("cannot tell", "too few seeds: give at least 4")


def test_no_difference_is_said_of_the_interval_that_is_shown():
    half = 0.019 / stats.t.ppf(0.975, 20)
    found = Estimate(0.0, half, 20.0, 10, 0.0)
    assert found.half_width < 0.02 < between(found).high
    assert judged(None, found, False, margin=0.02)[0] == "cannot tell"


def test_a_word_needs_one_percent():
    found = Estimate(0.2, 0.2 / stats.t.ppf(0.98, 20), 20.0, 10, 0.0)
    assert found.p_value == pytest.approx(0.04)
    assert not shown(found, 1)
    assert shown(UP, 1)
    assert not shown(UP, -1)
    assert not shown(None, 1)


def test_the_interval_of_a_source_excludes_0_just_where_its_word_says_so():
    for level in (0.98, 0.994, 0.996, 0.9999):
        found = Estimate(0.2, 0.2 / stats.t.ppf(level, 20), 20.0, 10, 0.0)
        assert (between(found).low > 0) == shown(found, 1)


def test_the_mean_over_units_is_students():
    values = [0.1, 0.3, 0.25, 0.02, 0.4]
    found, known = over_units(values), stats.ttest_1samp(values, 0)
    assert (found.value, found.p_value) == (pytest.approx(known.statistic * found.error), pytest.approx(known.pvalue))
    assert found.interval[1:] == pytest.approx(tuple(known.confidence_interval()))


def runs(*drawn, rewards=None):
    return [SimpleNamespace(drawn=each, rewards=rewards) for each in drawn]


class TestShares:
    def test_they_are_of_all_rows_drawn(self):
        assert shares_of(make_tasks(), runs((1, 2, 3), (3, 0, 1))) == [0.4, 0.2, 0.4]

    @pytest.mark.parametrize("drawn", [[], [None], [(0, 0, 0)]])
    def test_where_nothing_was_drawn_there_are_none_and_all_rows_weigh_alike(self, drawn):
        assert shares_of(make_tasks(), runs(*drawn)) == [None, None, None]
        assert set(weights_of(make_tasks(), runs(*drawn)).values()) == {1.0}

    def test_a_row_weighs_what_its_source_was_drawn_over_its_size(self):
        tasks = make_tasks(sizes=(10, 20, 30))
        found = weights_of(tasks, runs((30, 30, 0)))
        assert found == pytest.approx({"task-0": 3.0, "task-1": 1.5, "task-2": 0.0})
        assert np.average(list(found.values()), weights=tasks.sizes) == pytest.approx(1)

    def test_a_row_of_a_tiny_source_weighs_no_more_than_four_of_a_mean_source(self):
        tasks = make_tasks(sizes=(9, 491, 400))
        found = weights_of(tasks, runs((300, 300, 300)))
        assert found["task-0"] / found["task-2"] == pytest.approx(400 / 75)  # 75: a quarter of the mean source
        assert found["task-1"] / found["task-2"] == pytest.approx(400 / 491)
        assert np.average(list(found.values()), weights=tasks.sizes) == pytest.approx(1)


@pytest.fixture(scope="module")
def splits():
    return split(make_sources(validation=40), range(5))


class TestLines:
    def found(self, splits, drawn=(1, 4, 2, 3), grams=True, transfers=()):
        tables = transfers or [None] * 5
        ours = [SimpleNamespace(drawn=drawn, rewards=table) for table in tables]
        grams = Grams.of(splits.official) if grams else None
        return lines(splits, Judge(METRICS["accuracy"], splits.judges), grams, ours, 0.02)

    def test_the_most_drawn_source_comes_first(self, splits):
        assert [line.name for line in self.found(splits)] == ["half", "other half", "reversed", "noise"]

    def test_what_is_lost_without_a_source_is_the_fall_of_a_linear_model(self, splits):
        found = {line.name: line.lost for line in self.found(splits)}
        own = make_sources(validation=40)
        grams = Grams.of(own)
        outputs = left_out_scores(grams, own.validation, own.test.inputs)
        right = np.mean(outputs.all.argmax(axis=1) == own.test.labels)
        for place, task in enumerate(own.tasks):
            without = np.mean(outputs.without[place].argmax(axis=1) == own.test.labels)
            assert found[task.name].value == pytest.approx(right - without)
        assert found["reversed"].value < found["half"].value

    def test_a_source_without_rewards_has_no_transfer(self, splits):
        transfers = [(None, 0.1 + 0.01 * unit, None, 0.2) for unit in range(5)]
        found = {line.name: line.transfer for line in self.found(splits, transfers=transfers)}
        assert found["noise"] is found["reversed"] is None
        assert found["half"].value == pytest.approx(0.12)
        assert (found["other half"].low, found["other half"].high) == pytest.approx((0.2, 0.2))

    def test_sources_that_cannot_be_pooled_are_not_left_out(self, splits):
        assert {line.lost for line in self.found(splits, grams=False)} == {None}

    def test_shuffled_labels_are_harmful_whatever_the_measures(self, splits, monkeypatch):
        monkeypatch.setattr(sources, "look_shuffled", lambda tasks, strengths: ["half"])
        found = {line.name: (line.word, line.why) for line in self.found(splits)}
        assert found["half"] == ("harmful", "its labels look shuffled")
