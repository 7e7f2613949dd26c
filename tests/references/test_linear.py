"""Linear models with row weights, and the choice of their penalty."""

import numpy as np
import pytest

from metasched.references import linear
from metasched.references.linear import PENALTIES, fit_linear, logistic, logistic_path, ridge, scaler
from metasched.references.rows import FitRows


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


def test_a_weight_of_two_is_the_same_row_twice():
    inputs, answers = rows()
    weights = np.where(np.arange(60) < 20, 2.0, 1.0)
    twice = np.r_[np.arange(60), np.arange(20)]
    for fit in (logistic, ridge):
        np.testing.assert_allclose(
            fit(inputs, answers, 2.0, weights=weights), fit(inputs[twice], answers[twice], 2.0), atol=1e-3
        )


def test_weighted_logistic_regression_is_that_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    inputs, answers = rows()
    weights = np.random.default_rng(5).uniform(0.1, 10, 60)
    theirs = linear_model.LogisticRegression(C=1 / 2.0, tol=1e-8, max_iter=10_000)
    theirs.fit(inputs[:, :-1], answers.argmax(axis=1), weights)
    raised = np.exp(inputs @ logistic(inputs, answers, 2.0, weights=weights))
    np.testing.assert_allclose(
        raised / raised.sum(axis=1, keepdims=True), theirs.predict_proba(inputs[:, :-1]), atol=1e-4
    )


def test_inputs_that_are_nearly_the_same_are_fitted_to_the_end():
    """Sensors that measure one thing: the loss is a long valley, in which a plain descent stops half-way."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    random = np.random.default_rng(0)
    hidden = random.normal(size=(400, 3))
    sensors = hidden @ random.normal(size=(3, 40)) + 0.02 * random.normal(size=(400, 40))
    answers = np.eye(3)[(hidden + 0.5 * random.normal(size=(400, 3))).argmax(axis=1)]
    theirs = linear_model.LogisticRegression(C=1 / 0.01, tol=1e-8, max_iter=10_000, solver="newton-cg")
    theirs.fit(sensors, answers.argmax(axis=1))
    raised = np.exp(np.column_stack([sensors, np.ones(400)]) @ logistic(np.c_[sensors, np.ones(400)], answers, 0.01))
    ours = raised / raised.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ours, theirs.predict_proba(sensors), atol=2e-3)


def test_fits_along_a_path_are_those_made_alone():
    inputs, answers = rows()
    path = list(logistic_path(inputs, answers, np.ones(60), PENALTIES[:1:-1]))
    for penalty, fitted in zip(PENALTIES[:1:-1], path, strict=True):
        np.testing.assert_allclose(fitted, logistic(inputs, answers, penalty), atol=2e-3)


def make_fit_rows(sources=200, known=30, features=4, classes=3, shift=3.0, seed=0):
    """Source rows whose labels mean nothing, and target rows whose labels follow from the inputs."""
    random = np.random.default_rng(seed)
    inputs = (random.normal(size=(sources + known, features)) * 20 + 100).astype(np.float32)
    labels = np.digitize(inputs[:, 0], [95, 105])
    labels[:sources] = random.integers(0, classes, sources)
    return FitRows(
        inputs, np.eye(classes)[labels], np.ones(sources + known), known, labels[sources:].astype(np.int32), classes
    )


def test_a_model_reads_inputs_as_they_are():
    given = make_fit_rows()
    scale = scaler(given.inputs)
    fitted = logistic(scale(given.inputs), given.answers, 1.0)
    raised = np.exp(scale(given.inputs) @ fitted)
    np.testing.assert_allclose(
        scale.undone(fitted).outputs(given.inputs, 3), raised / raised.sum(axis=1, keepdims=True), atol=1e-9
    )


def test_with_more_features_than_rows_a_model_still_reads_inputs_as_they_are():
    given = make_fit_rows(sources=0, known=20, features=50)
    scale = scaler(given.inputs)
    fitted = ridge(scale(given.inputs), given.answers, 1.0)
    np.testing.assert_allclose(scale.undone(fitted).outputs(given.inputs, 0), scale(given.inputs) @ fitted, atol=1e-9)


def test_a_constant_column_does_not_blow_up_rows_in_which_it_differs():
    inputs = np.column_stack([np.arange(7), np.full(7, 0.1)]).astype(np.float32)
    assert np.abs(scaler(inputs)(np.float32([[3, 0.2]]))).max() < 10


@pytest.mark.parametrize("weighted", [False, True])
def test_the_penalty_is_the_one_with_the_least_loss_on_held_out_target_rows(weighted):
    given = make_fit_rows(sources=0, known=45)
    if weighted:
        given = given._replace(weights=np.random.default_rng(1).uniform(0.1, 4, 45))
    model, penalty = fit_linear(given, 0)
    inputs = scaler(given.inputs, given.weights)(given.inputs)
    losses = []
    for candidate in PENALTIES:
        total = 0.0
        for fold in linear._folds(given, 0):
            weights = given.weights[fold.kept]
            fitted = logistic(inputs[fold.kept], given.answers[fold.kept], candidate, weights=weights)
            raised = np.exp(inputs[fold.held] @ fitted)
            right = (raised / raised.sum(axis=1, keepdims=True))[given.answers[fold.held] > 0]
            total -= (given.weights[fold.held] * np.log(right)).sum()
        losses.append(total)
    assert penalty == PENALTIES[int(np.argmin(losses))]
    assert model.outputs(given.inputs, 3).shape == (45, 3)


def test_source_rows_that_mean_nothing_raise_the_penalty():
    alone = fit_linear(make_fit_rows(sources=0), 0)[1]
    assert fit_linear(make_fit_rows(sources=2000), 0)[1] > alone


def test_many_source_rows_are_sampled_by_the_seed_and_keep_their_weight(monkeypatch):
    monkeypatch.setattr(linear, "OTHER_ROWS", 50)
    given = make_fit_rows(sources=200, known=30)
    folds = linear._folds(given, 3)
    assert len(folds) == linear.FOLDS
    for fold in folds:
        others = fold.kept < 200
        assert others.sum() == 50
        assert fold.more[others].sum() == 200
        assert np.all(fold.more[~others] == 1)
        assert np.all(fold.held >= 200)
        assert not set(fold.held) & set(fold.kept)
    np.testing.assert_array_equal(folds[0].kept, linear._folds(given, 3)[0].kept)
    assert not np.array_equal(folds[0].kept, linear._folds(given, 4)[0].kept)


def test_with_fewer_target_rows_than_folds_the_penalty_is_one():
    assert fit_linear(make_fit_rows(known=4), 0)[1] == 1.0
