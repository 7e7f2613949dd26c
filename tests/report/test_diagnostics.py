"""Each doubt where there is cause for it, and none where there is not."""

import re
import time

import msgspec
import numpy as np
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.references.baseline import Baseline
from metasched.report import diagnostics
from metasched.runs.outcome import Final

LINEAR = Baseline("logistic regression", 0.67, 1.0)


def sources(count=3, rows=200, features=10, scale=1.0, noise=1.0, rare=0.5, seed=0):
    """Sources that share a linear rule."""
    random = np.random.default_rng(seed)
    rule = random.normal(size=features)

    def some(number):
        inputs = random.normal(size=(number, features))
        values = inputs @ rule + noise * random.normal(size=number)
        return scale * inputs, (values > np.quantile(values, 1 - rare)).astype(int)

    tasks = {f"source-{place}": some(rows) for place in range(count)}
    return ms.TaskSet.from_arrays(tasks, validation=some(20), test=some(30), classes=["no", "yes"])


class TestInputs:
    def test_standardised_inputs_raise_no_doubt(self):
        assert diagnostics.unscaled(sources()) == []

    def test_pixels_of_which_many_are_always_dark_raise_no_doubt(self):
        pixels = np.zeros((30, 4, 4, 1), np.uint8)
        pixels[:, 1:3, 1:3] = 255
        pixels[0, 0, 0] = 3
        tasks = ms.TaskSet.from_arrays(
            {"a": (pixels, np.arange(30) % 2)},
            validation=(pixels[:5] // 2, [0, 1, 0, 1, 0]),
            test=(pixels[:5] // 3, [0, 1, 0, 1, 0]),
        )
        assert diagnostics.unscaled(tasks) == []

    def test_features_of_other_units_are_named_counting_from_one(self):
        (line,) = diagnostics.unscaled(sources(scale=np.array([1, 1, 5000, *[1] * 7])))
        assert "feature 3 goes up to" in line
        assert "standardise the inputs" in line

    def test_inputs_that_are_large_altogether_are_told(self):
        (line,) = diagnostics.unscaled(sources(scale=200.0))
        assert "inputs are large (typically 199," in line


def test_a_single_source_is_named_and_several_are_not():
    assert diagnostics.of_tasks(sources(1)) == ["'source-0' is the only source, so there is nothing to choose"]
    assert diagnostics.of_tasks(sources(2)) == []


class TestShuffledLabels:
    def test_the_source_with_shuffled_labels_is_the_one_named(self):
        tasks = sources().variant(noise={"source-1": 1.0})
        (line,) = diagnostics.shuffled(tasks)
        assert line.startswith("labels of 'source-1' look shuffled")

    def test_several_of_them_are_one_line(self):
        noise = {f"source-{place}": 1.0 for place in (1, 2, 4, 6, 7)}
        (line,) = diagnostics.shuffled(sources(count=12).variant(noise=noise))
        assert re.match(
            r"labels of 'source-1', 'source-2' and 3 more look shuffled: a model learns them from their inputs hardly "
            r"better than it learns labels in random order \(z-score at most −?\d\.\d, sound sources have 4 or more\);",
            line,
        )
        assert line.endswith("check how they were labelled, or leave them out")

    def test_rare_labels_are_not_mistaken_for_shuffled_ones(self):
        assert diagnostics.shuffled(sources(rare=0.07, rows=400)) == []

    def test_a_weak_rule_is_still_seen(self):
        assert diagnostics.shuffled(sources(noise=4.0, rows=500)) == []

    def test_a_few_rows_tell_nothing(self):
        assert diagnostics.shuffled(sources(rows=30).variant(noise={"source-1": 1.0})) == []

    def test_shuffled_labels_reach_the_bound_only_by_rare_chance(self):
        strengths = [
            diagnostics.label_strength(sources(count=1, seed=seed).variant(noise={"source-0": 1.0}).tasks[0])
            for seed in range(30)
        ]
        assert max(strengths) < diagnostics.SHUFFLED_BELOW
        assert abs(np.mean(strengths)) < 0.8

    def test_numbers_to_predict_are_looked_at_too(self):
        tasks = make_regression(sizes=(400, 400), bins=4)
        assert diagnostics.shuffled(tasks) == []
        (line,) = diagnostics.shuffled(tasks.variant(noise={"task-1": 1.0}))
        assert "'task-1'" in line

    def test_twenty_sources_of_500_rows_take_a_few_seconds(self):
        tasks = sources(count=20, rows=500, features=40)
        began = time.process_time()
        diagnostics.shuffled(tasks)
        assert time.process_time() - began < 10


class TestRareClass:
    def labelled(self, *counts):
        """A set whose target has so many labelled rows of each class."""
        random = np.random.default_rng(0)
        names = ["fine", "fraud", *(f"kind {number}" for number in range(2, len(counts)))]
        labels = np.repeat(np.arange(len(counts)), counts)
        inputs = random.normal(size=(3, len(labels), 3))
        source, validation, test = ((each, labels) for each in inputs)
        return ms.TaskSet.from_arrays({"source": source}, validation=validation, test=test, classes=names)

    def test_is_named_with_its_share_and_the_flag(self):
        line = (
            "'fraud' is 2 % of the target's labels, so accuracy says little about it; "
            "give --metric balanced-accuracy or auc"
        )
        assert diagnostics.rare_class(self.labelled(49, 1)) == [line]
        assert line in diagnostics.of_tasks(self.labelled(49, 1))

    @pytest.mark.parametrize(
        "counts",
        [(47, 3), (18, 1), (50, 0), (5,) * 25, (4,) * 24 + (3,)],
        ids=["6 %", "few rows", "one class alone", "many classes", "many classes, not quite equal"],
    )
    def test_is_not_suspected_without_cause(self, counts):
        assert diagnostics.rare_class(self.labelled(*counts)) == []

    def test_is_found_at_the_limit_and_among_many(self):
        assert "is 5 % of" in diagnostics.rare_class(self.labelled(19, 1))[0]
        assert "'kind 24' is 1 % of" in diagnostics.rare_class(self.labelled(*(4,) * 24, 1))[0]

    def test_numbers_have_no_classes(self):
        assert diagnostics.rare_class(make_regression(validation=60, bins=30)) == []


def test_a_source_smaller_than_a_batch_is_named():
    (line,) = diagnostics.small_source(make_tasks(), 20)
    assert line.startswith("source 'task-2' has 9 rows, fewer than a batch of 20")
    assert diagnostics.small_source(make_tasks(), 9) == []


@pytest.fixture(scope="module")
def like():
    config = ms.Joint(batch_size=4, batches_per_update=2, updates=2)
    return ms.train(make_tasks(), learner=config).outcomes[0]


def runs(like, *curves, updates=30):
    """Finished runs with these curves, measured at equal steps."""
    config = {**like.spec.settings, "updates": updates}
    return [
        msgspec.structs.replace(
            like,
            spec=msgspec.structs.replace(like.spec, seed=seed, settings=config),
            test_accuracy=tuple(curve),
            updates=tuple(range(len(curve))),
            samples=tuple(range(len(curve))),
            final=Final(test_accuracy=curve[-1]),
        )
        for seed, curve in enumerate(curves)
    ]


class TestRuns:
    def test_runs_below_the_linear_model_are_told_with_both_numbers(self, like):
        (line,) = diagnostics.of_runs(runs(like, [0.5, 0.6], [0.5, 0.6]), LINEAR)
        assert "(0.600) ends below logistic regression on the 10 target rows alone (0.670)" in line

    def test_runs_above_it_raise_no_doubt(self, like):
        assert diagnostics.of_runs(runs(like, [0.9]), LINEAR) == []

    def test_a_curve_that_rises_to_the_end_wants_more_updates(self, like):
        curve = np.linspace(0.5, 0.8, 15)
        (line,) = diagnostics.still_improving(runs(like, curve, curve + 0.001, curve - 0.002))
        assert "still improving at the end (+0.107 in the last third)" in line
        assert "give --updates " in line

    def test_how_many_more_follows_from_how_the_gain_shrinks(self, like):
        curve = 0.8 - 0.3 * 0.5 ** (np.arange(30) / 10)  # every third gains half of what the one before did
        (line,) = diagnostics.still_improving(runs(like, curve, curve + 0.001))
        gain = curve[20:].mean() - curve[10:20].mean()
        thirds = int(np.ceil(np.log(diagnostics.NOTEWORTHY / gain) / np.log(0.5)))
        assert f"about {10 * thirds} more updates: give --updates {30 + 10 * thirds}" in line

    def test_a_flat_curve_a_noisy_one_and_a_short_one_do_not(self, like):
        random = np.random.default_rng(0)
        assert diagnostics.still_improving(runs(like, np.full(15, 0.7), np.full(15, 0.8))) == []
        assert diagnostics.still_improving(runs(like, *(0.7 + 0.1 * random.normal(size=(3, 15))))) == []
        assert diagnostics.still_improving(runs(like, [0.1, 0.5, 0.9])) == []
