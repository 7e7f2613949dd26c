"""The linear model that every method is held against."""

import numpy as np

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.references.baseline import baseline


def test_classes_that_lie_apart_are_told_apart():
    found = baseline(make_tasks(validation=60, test=200))
    assert found.name == "logistic regression"
    assert found.score > 0.9


def test_labels_that_mean_nothing_score_at_chance():
    random = np.random.default_rng(3)
    noise = lambda count: (random.normal(size=(count, 30)), random.integers(0, 2, count))  # noqa: E731
    tasks = ms.TaskSet.from_arrays({"a": noise(20)}, validation=noise(40), test=noise(2000))
    assert abs(baseline(tasks).score - 0.5) < 0.05


def test_balanced_accuracy_is_the_mean_over_classes():
    random = np.random.default_rng(4)
    rare = lambda count: (random.normal(size=(count, 3)), (np.arange(count) % 10 == 0).astype(int))  # noqa: E731
    tasks = ms.TaskSet.from_arrays({"a": rare(20)}, validation=rare(40), test=rare(1000))
    assert baseline(tasks).score > 0.85
    assert abs(baseline(tasks, balanced=True).score - 0.5) < 0.1


def test_numbers_to_predict_are_scored_as_runs_are():
    tasks = make_regression(validation=30, test=200)
    found = baseline(tasks)
    assert found.name == "ridge regression"
    assert found.score > 0.99  # targets are linear in the inputs
