"""A method on a split: the mean over its runs with all rates; and how long to train."""

import math
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.comparison.networks import (
    FACTORS,
    answers_of,
    by_unit,
    fitted,
    jobs_of,
    length,
    mean_rewards,
    outcome_of,
    rates_of,
    updates_to_make,
)
from metasched.comparison.splits import split
from metasched.learners.metrics import METRICS
from metasched.runs import outcome as outcomes
from metasched.runs.outcome import outputs_of
from metasched.runs.sweep import Method, Setup
from tiny_comparison import LEARNER, NETWORK, divided

SEEDS = range(4)
METHODS = [Method(name, name) for name in ("thompson", "uniform", "target-only")]
RATES = [(3e-4,), (1e-3,), (3e-3,)]


@pytest.fixture(scope="module")
def splits():
    return split(divided(), SEEDS).judging


@pytest.fixture(scope="module")
def runs(finished, splits):
    """All judging runs of the finished comparison, in the order of jobs: method, rate, split."""
    stored = outcomes.read(finished.out / ".work" / "judging.jsonl")
    known = {(run.method, run.spec.settings["learning_rate"], run.spec.seed): run for run in stored}
    return [known[method.name, rate, each.seed] for method in METHODS for (rate,) in RATES for each in splits]


def said(outputs, classes=(), deviation=None):
    """As much of an outcome as its predictions take."""
    about = SimpleNamespace(test_rows=len(outputs), classes=classes, deviation=deviation)
    final = outcomes.Final(test_accuracy=0.0, outputs=outputs.tobytes())
    return SimpleNamespace(final=final, about=about)


class TestRates:
    def test_they_are_the_setting_and_its_multiples(self):
        setup = Setup(replace(LEARNER, learning_rate=0.02), NETWORK)
        assert rates_of(setup, averaged=True) == [pytest.approx((0.02 * factor,)) for factor in FACTORS]
        assert rates_of(setup, averaged=False) == [(0.02,)]

    def test_of_algorithm_one_the_inner_rate_is_varied(self):
        setup = Setup(ms.AlgorithmOne(inner_rate=0.1, outer_rate=0.003), NETWORK)
        first, second = setup.learner.rates
        assert rates_of(setup, averaged=True) == [(pytest.approx(first * factor), second) for factor in FACTORS]

    def test_jobs_have_every_method_with_every_rate_on_every_split(self, splits):
        jobs = jobs_of(Setup(LEARNER, NETWORK), METHODS, RATES, splits)
        found = [(job.description.method, job.spec.settings["learning_rate"], job.spec.seed) for job in jobs]
        assert found == [(method.name, rate, seed) for method in METHODS for (rate,) in RATES for seed in SEEDS]


class TestFitted:
    def test_a_method_says_the_mean_of_what_its_runs_say(self, runs, splits):
        found = fitted(METHODS, RATES, splits, runs)
        assert set(found) == {(method.name, place) for method in METHODS for place in range(4)}
        own = [run for run in runs if run.method == "uniform" and run.spec.seed == 2]
        part = found["uniform", 2].part
        assert part.outputs == pytest.approx(np.mean([outputs_of(run) for run in own], axis=0), abs=1e-6)
        assert np.array_equal(part.answers, splits[2].tasks.test.labels)
        assert np.array_equal(part.rows, splits[2].rows)
        assert found["uniform", 2].runs == tuple(own)

    def test_diverged_runs_have_no_say(self, runs, splits):
        one = [msgspec.structs.replace(run, final=None) if place < 4 else run for place, run in enumerate(runs)]
        part = fitted(METHODS, RATES, splits, one)["thompson", 0].part
        assert part.outputs == pytest.approx((outputs_of(runs[4]) + outputs_of(runs[8])) / 2, abs=1e-6)

    def test_where_all_diverged_a_method_knows_nothing(self, runs, splits):
        none = [msgspec.structs.replace(run, final=None) for run in runs]
        part = fitted(METHODS, RATES, splits, none)["thompson", 0].part
        assert part.outputs == pytest.approx(np.full((len(splits[0].rows), 3), 1 / 3))

    def test_in_regression_it_then_says_the_mean_of_the_labelled_rows(self):
        tasks = make_regression()
        (each,) = split(tasks, [0]).judging
        found = fitted(METHODS[:1], RATES[:1], [each], [SimpleNamespace(final=None)])["thompson", 0].part
        assert found.outputs == pytest.approx(np.tile(tasks.validation.targets.mean(axis=0), (30, 1)), abs=1e-6)
        assert np.array_equal(found.answers, tasks.test.targets)
        assert np.array_equal(answers_of(each), tasks.test.targets)

    def test_numbers_to_predict_may_be_more_than_their_bins(self):
        random = np.random.default_rng(0)

        def rows(count):
            return random.normal(size=(count, 4)), np.c_[np.arange(count) % 2, random.normal(size=(count, 2))]

        tasks = ms.TaskSet.regression({"a": rows(20)}, validation=rows(10), test=rows(8))
        assert len(tasks.classes) < tasks.target_size
        (each,) = split(tasks, [0]).judging
        outputs = random.normal(size=(8, 3)).astype("<f4")
        part = fitted(METHODS[:1], RATES[:1], [each], [said(outputs, deviation=1.0)])["thompson", 0].part
        assert np.array_equal(part.outputs, outputs)

    def test_parts_of_one_unit_are_put_together(self, runs, splits):
        halves = [each._replace(unit=number // 2) for number, each in enumerate(splits)]
        found = by_unit(fitted(METHODS, RATES, halves, runs), halves, "uniform")
        assert set(found) == {0, 1}
        assert found[1].rows.tolist() == [*halves[2].rows, *halves[3].rows]


class TestOutcome:
    def test_the_curve_is_the_mean_over_runs_and_the_score_that_of_the_mean(self, runs, splits):
        fit = fitted(METHODS, RATES, splits, runs)["thompson", 1]
        found = outcome_of(fit.runs, 1, fit.part, METRICS["accuracy"], None)
        right = fit.part.outputs.argmax(axis=1) == fit.part.answers
        assert found.final.test_accuracy == pytest.approx(right.mean())
        assert found.test_accuracy == pytest.approx(np.mean([run.test_accuracy for run in fit.runs], axis=0))
        assert found.drawn == pytest.approx(np.mean([run.drawn for run in fit.runs], axis=0), abs=0.5)
        assert found.spec.settings["learning_rate"] == 1e-3
        assert found.spec.seed == 1

    def test_losses_are_stored_such_that_higher_is_better(self, runs, splits):
        fit = fitted(METHODS, RATES, splits, runs)["uniform", 1]
        found = outcome_of(fit.runs, 1, fit.part, METRICS["log-loss"], None)
        chances = fit.part.outputs[np.arange(len(fit.part.answers)), fit.part.answers]
        assert found.final.test_accuracy == pytest.approx(np.log(chances).mean(), abs=1e-5)

    def test_where_all_runs_diverged_so_has_the_unit(self, runs):
        cause = outcomes.Diverged(update=1, cause="the loss")
        gone = [msgspec.structs.replace(run, final=None, diverged=cause) for run in runs[:3]]
        found = outcome_of(gone, 5, None, METRICS["accuracy"], None)
        assert (found.final, found.diverged, found.spec.seed) == (None, cause, 5)

    def test_rewards_are_means_over_the_runs_that_drew_a_source(self):
        tables = [(0.1, None, None), None, (0.3, 0.2, None)]
        found = mean_rewards([SimpleNamespace(rewards=table) for table in tables])
        assert found == (pytest.approx(0.2), 0.2, None)
        assert mean_rewards([SimpleNamespace(rewards=None)]) is None


class TestLength:
    def ended(self, *by_split, updates=(1, 2, 3)):
        """How many updates to make where runs on each split had these curves."""
        fits = {
            ("a", place): SimpleNamespace(
                runs=[SimpleNamespace(test_accuracy=curve, updates=updates, final=curve and object())]
            )
            for place, curve in enumerate(by_split)
        }
        setup = Setup(replace(LEARNER, updates=3), NETWORK)
        return updates_to_make(setup, fits, [None] * len(by_split), [Method("a", "ucb")])

    def test_training_ends_where_held_out_rows_were_clearly_predicted_better(self):
        assert self.ended((0.5, 0.9, 0.6), (0.5, 0.8, 0.5), (0.4, 0.9, 0.5)) == 2

    def test_a_peak_within_its_error_is_chance(self):
        curves = [(0.5, 0.9, 0.5), (0.5, 0.5, 0.7), (0.5, 0.6, 0.6)]
        gaps = [0.4, -0.2, 0.0]
        assert np.mean(gaps) < np.std(gaps, ddof=1) / math.sqrt(3)
        assert self.ended(*curves) == 3

    def test_curves_that_rise_are_left_as_they_are(self):
        assert self.ended((0.1, 0.2, 0.3), (0.2, 0.3, 0.3)) == 3

    @pytest.mark.parametrize("curves", [[(0.9, 0.1, 0.1)], [(0.9, 0.1, 0.1), ()], [(0.9, 0.1, 0.1), (0.9, 0.1)]])
    def test_without_curves_of_all_splits_it_is_the_setting(self, curves):
        assert self.ended(*curves) == 3

    @pytest.mark.parametrize(("rows", "steps"), [(100, 1000), (30_000, 1500), (10**6, 3000)])
    def test_a_run_has_about_one_pass_within_limits(self, rows, steps):
        assert length(SimpleNamespace(sizes=(rows // 2, rows - rows // 2)), 20) == steps


def test_sources_with_more_classes_than_the_target_have_no_say_on_them():
    tasks = make_tasks(classes=2)
    (each,) = split(tasks, [0]).judging
    outputs = np.tile(np.array([0.5, 0.3, 0.2], "<f4"), (30, 1))
    part = fitted(METHODS[:1], RATES[:1], [each], [said(outputs, classes=("c0", "c1"))])["thompson", 0].part
    assert part.outputs.shape == (30, 2)
