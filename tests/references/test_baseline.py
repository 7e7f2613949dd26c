"""The linear model that every method is held against."""

import numpy as np
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.references.baseline import baseline
from metasched.references.linear import logistic, ridge, scaler


def rows(count=60, features=5, classes=3, seed=0):
    random = np.random.default_rng(seed)
    inputs = np.column_stack([random.normal(size=(count, features)), np.ones(count)])
    labels = (inputs[:, :classes] + random.gumbel(size=(count, classes))).argmax(axis=1)
    return inputs, np.eye(classes)[labels]


def test_at_the_weights_of_logistic_regression_the_gradient_is_zero():
    inputs, answers = rows()
    weights = logistic(inputs, answers, penalty=2.0)
    raised = np.exp(inputs @ weights)
    gradient = inputs.T @ (raised / raised.sum(axis=1, keepdims=True) - answers)
    gradient[:-1] += 2.0 * weights[:-1]
    assert np.abs(gradient).max() < 1e-3


def test_logistic_regression_is_that_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    inputs, answers = rows()
    theirs = linear_model.LogisticRegression(C=1 / 2.0, tol=1e-8, max_iter=10_000)
    theirs.fit(inputs[:, :-1], answers.argmax(axis=1))
    outputs = inputs @ logistic(inputs, answers, penalty=2.0)
    raised = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        raised / raised.sum(axis=1, keepdims=True), theirs.predict_proba(inputs[:, :-1]), atol=1e-4
    )


def test_ridge_regression_is_the_closed_form_on_centred_rows():
    random = np.random.default_rng(1)
    inputs, answers = random.normal(size=(40, 3)), random.normal(size=(40, 2))
    weights = ridge(np.column_stack([inputs, np.ones(40)]), answers, penalty=3.0)
    centred = inputs - inputs.mean(axis=0)
    slopes = np.linalg.solve(centred.T @ centred + 3.0 * np.eye(3), centred.T @ (answers - answers.mean(axis=0)))
    np.testing.assert_allclose(weights[:-1], slopes, atol=1e-6)
    np.testing.assert_allclose(weights[-1], answers.mean(axis=0) - inputs.mean(axis=0) @ slopes, atol=1e-6)


def test_more_features_than_rows_give_the_same_predictions_as_all_features():
    random = np.random.default_rng(2)
    inputs = random.normal(size=(20, 50)).astype("float32")
    answers = np.eye(2)[random.integers(0, 2, 20)]
    scale = scaler(inputs)
    assert scale(inputs).shape == (20, 21)
    wide = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    wide = np.column_stack([wide, np.ones(20)])
    np.testing.assert_allclose(
        scale(inputs) @ logistic(scale(inputs), answers, 1.0), wide @ logistic(wide, answers, 1.0), atol=1e-2
    )


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
