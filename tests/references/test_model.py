"""Reference models are used and stored like networks."""

import sys
from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import DataError
from metasched.references.recipes import Recipe, fit_recipe
from metasched.tasks import Preparation

ESTIMATORS = ("majority", "linear", "forest", "boosting")


@pytest.fixture(autouse=True)
def _scikit_learn():
    pytest.importorskip("sklearn")


@pytest.mark.parametrize("make", [make_tasks, make_regression])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_model_that_is_read_back_says_the_same(estimator, make, tmp_path):
    tasks = make()
    model = fit_recipe(Recipe(estimator, "pooled"), tasks)
    model.save(tmp_path / "a")
    again = ms.load_model(tmp_path / "a")
    assert repr(again) == repr(model)
    assert again.about == model.about
    np.testing.assert_array_equal(again.predict(tasks.test.inputs), model.predict(tasks.test.inputs))
    again.save(tmp_path / "b")
    for name in ("model.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_stored_forest_needs_no_scikit_learn(tmp_path, monkeypatch):
    tasks = make_tasks()
    model = fit_recipe(Recipe("forest", "pooled"), tasks)
    model.save(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"] + ["sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    found = ms.load_model(tmp_path).predict_proba(tasks.test.inputs)
    np.testing.assert_array_equal(found, model.predict_proba(tasks.test.inputs))


def test_titles():
    tasks, numbers = make_tasks(name="stations"), make_regression(name="prices")
    assert fit_recipe(Recipe("forest", "pooled"), tasks).title == "forest on pooled rows of stations"
    assert fit_recipe(Recipe("linear", "target"), tasks).title == "logistic regression on target rows of stations"
    heavy = fit_recipe(Recipe("boosting", "weighted"), tasks).title
    assert heavy == "boosting on pooled rows of stations, target × 10"
    chosen = fit_recipe(Recipe("linear", "greedy"), numbers, selection=["task-0"]).title
    assert chosen == "ridge regression on greedily chosen sources of prices"
    assert fit_recipe(Recipe("majority", "target"), tasks).title == "majority class of stations"
    assert fit_recipe(Recipe("majority", "target"), numbers).title == "mean of the labels of prices"


def test_a_score_is_the_share_of_right_answers_or_its_mean_over_classes():
    tasks = make_tasks()
    majority = np.bincount(tasks.validation.labels).argmax()
    names = np.array(tasks.classes)[tasks.test.labels]
    plain = fit_recipe(Recipe("majority", "target"), tasks)
    assert plain.score(tasks.test.inputs, names) == np.mean(tasks.test.labels == majority)
    balanced = fit_recipe(Recipe("majority", "target"), tasks, balanced_accuracy=True)
    assert balanced.score(tasks.test.inputs, names) == pytest.approx(1 / 3)


def test_in_regression_the_mean_of_the_labelled_rows_scores_what_its_error_says():
    tasks = make_regression(numbers=1)
    known, truth = tasks.validation.targets, tasks.test.targets
    expected = 1 - np.mean((truth - known.mean()) ** 2) / np.var(known)
    model = fit_recipe(Recipe("majority", "target"), tasks)
    assert model.score(tasks.test.inputs, truth) == pytest.approx(expected, rel=1e-4)
    assert model.predict(tasks.test.inputs).shape == (30,)


def test_images_and_columns_are_read_as_in_training(tmp_path):
    images = make_tasks(shape=(3, 2, 2))
    fit_recipe(Recipe("forest", "pooled"), images).save(tmp_path / "images")
    model = ms.load_model(tmp_path / "images")
    assert model.predict_proba(images.test.inputs).shape == (30, 3)
    with pytest.raises(DataError, match=r"inputs have shape \(3, 12\), but the model reads \(rows, 3, 2, 2\)"):
        model.predict(np.zeros((3, 12)))
    columns = {"age": [20.0, 40.0, 30.0, 70.0], "sex": ["f", "m", "m", "f"]}
    prepared = Preparation.fit(columns, label="ill")
    fit_recipe(Recipe("linear", "pooled"), replace(make_tasks(shape=(3,)), preparation=prepared)).save(
        tmp_path / "table"
    )
    model = ms.load_model(tmp_path / "table")
    np.testing.assert_array_equal(model.predict_proba(columns), model.predict_proba(prepared.inputs(columns)))


def test_a_model_in_the_place_of_another_kind_is_replaced(tmp_path):
    tasks = make_tasks()
    fit_recipe(Recipe("forest", "pooled"), tasks).save(tmp_path)
    fit_recipe(Recipe("majority", "target"), tasks).save(tmp_path)
    assert ms.load_model(tmp_path).title == "majority class of arrays"
