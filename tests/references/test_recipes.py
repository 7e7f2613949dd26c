"""Which rows with which weights, and what the models are called."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from helpers import make_own_label_tasks, make_regression, make_tasks
from metasched.errors import ConfigError, DataError
from metasched.references.recipes import Recipe, all_recipes, fit_recipe, recipe_rows
from metasched.references.rows import class_balanced
from metasched.tasks import Split


def weights_of(recipe, tasks, weights=None, selection=None):
    """The weight of one row of each source, and of the target; None for a source that is left out."""
    rows = recipe_rows(recipe, tasks, weights, selection)
    found, first = {}, 0
    for name, part in [*((task.name, task) for task in tasks.tasks), ("target", tasks.validation)]:
        own = part.inputs.reshape(len(part.labels), -1)
        if first + len(own) <= len(rows.inputs) and np.array_equal(rows.inputs[first : first + len(own)], own):
            (found[name],) = set(rows.weights[first : first + len(own)])
            first += len(own)
    assert first == len(rows.inputs)
    assert rows.weights.mean() == pytest.approx(1)
    return found


def test_rows_and_weights_of_every_recipe():
    tasks = make_tasks(sizes=(12, 20, 9), validation=10)
    names = [task.name for task in tasks.tasks]
    assert weights_of(Recipe("linear", "target"), tasks) == {"target": 1}
    assert weights_of(Recipe("linear", "pooled"), tasks) == dict.fromkeys([*names, "target"], 1)
    heavy = weights_of(Recipe("forest", "weighted"), tasks)
    assert heavy["target"] / heavy["task-0"] == pytest.approx(10)
    assert heavy["task-0"] == heavy["task-1"] == heavy["task-2"]
    greedy = weights_of(Recipe("linear", "greedy"), tasks, selection=["task-2", "task-0"])
    assert sorted(greedy) == ["target", "task-0", "task-2"]
    assert greedy["target"] / greedy["task-2"] == pytest.approx(10)


def test_given_weights_count_by_row_and_their_size_does_not_matter():
    tasks = make_tasks(sizes=(12, 20, 9), validation=10)
    given = {"task-0": 3.0, "task-2": 1.0}
    found = weights_of(Recipe("linear", "chosen"), tasks, given)
    assert sorted(found) == ["target", "task-0", "task-2"]
    assert found["task-0"] / found["task-2"] == pytest.approx(3)
    mean = (12 * found["task-0"] + 9 * found["task-2"]) / 41
    assert found["target"] / mean == pytest.approx(10)
    smaller = {name: weight / 1000 for name, weight in given.items()}
    assert weights_of(Recipe("linear", "chosen"), tasks, smaller) == pytest.approx(found)
    alike = weights_of(Recipe("linear", "chosen"), tasks, dict.fromkeys(["task-0", "task-1", "task-2"], 0.2))
    assert alike == pytest.approx(weights_of(Recipe("linear", "weighted"), tasks))


def test_weights_that_are_all_zero_leave_the_target_alone():
    tasks = make_tasks()
    assert weights_of(Recipe("linear", "chosen"), tasks, {"task-0": 0.0}) == {"target": 1}


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        (Recipe("linear", "chosen"), {}, "need source_weights"),
        (Recipe("linear", "chosen"), {"source_weights": {"nowhere": 1.0}}, "no source 'nowhere', only task-0"),
        (Recipe("linear", "chosen"), {"source_weights": {"task-1": -1.0}}, "'task-1' has weight -1.0"),
        (Recipe("linear", "chosen"), {"source_weights": {"task-1": float("nan")}}, "'task-1' has weight nan"),
        (Recipe("linear", "greedy"), {"selection": ["nowhere"]}, "selection: there is no source 'nowhere'"),
        (Recipe("linear", "target"), {"seed": -1}, "seed is -1"),
    ],
)
def test_what_cannot_be_is_refused(recipe, options, message):
    with pytest.raises(ConfigError, match=message):
        fit_recipe(recipe, make_tasks(), **options)


def test_titles():
    found = [recipe.title() for recipe in all_recipes(make_tasks(), chosen=True)]
    assert found == [
        "majority class",
        "logistic regression, target only",
        "forest, target only",
        "boosting, target only",
        "logistic regression, pooled",
        "forest, pooled",
        "boosting, pooled",
        "logistic regression, target × 10",
        "forest, target × 10",
        "boosting, target × 10",
        "logistic regression, greedy sources",
        "forest, greedy sources",
        "logistic regression, weights by choosing",
        "forest, weights by choosing",
        "boosting, weights by choosing",
    ]
    titles = [recipe.title(regression=True) for recipe in all_recipes(make_regression(), chosen=False)]
    assert titles[:2] == ["mean of the labels", "ridge regression, target only"]
    assert len(titles) == 12
    assert not any("choosing" in title for title in titles)


def test_sources_with_labels_of_their_own_are_not_pooled():
    tasks = make_own_label_tasks()
    assert {recipe.rows for recipe in all_recipes(tasks, chosen=True)} == {"target"}
    with pytest.raises(ConfigError, match="sources have their own labels"):
        fit_recipe(Recipe("linear", "pooled"), tasks)
    assert fit_recipe(Recipe("linear", "target"), tasks).classes == ("x", "y", "z")


@pytest.mark.parametrize("make", [make_tasks, make_regression])
def test_every_recipe_fits_and_never_looks_at_the_test_rows(make):
    pytest.importorskip("sklearn")
    tasks = make()
    test = tasks.test
    changed = Split(test.inputs[::-1] * 7 + 3, test.labels[::-1], None if test.targets is None else -test.targets)
    other = replace(tasks, test=changed)
    weights = {task.name: 1.0 + number for number, task in enumerate(tasks.tasks)}
    for recipe in all_recipes(tasks, chosen=True):
        one, two = (fit_recipe(recipe, each, source_weights=weights) for each in (tasks, other))
        np.testing.assert_array_equal(one.predict(tasks.test.inputs), two.predict(tasks.test.inputs))
        assert one.about == two.about


def test_targets_that_are_all_equal_are_refused():
    tasks = make_regression()
    flat = tasks.validation._replace()
    flat.targets = np.ones_like(flat.targets)
    with pytest.raises(DataError, match="all equal"):
        fit_recipe(Recipe("linear", "target"), replace(tasks, validation=flat))


@pytest.mark.parametrize("estimator", ["linear", "forest", "boosting"])
def test_balanced_classes_are_those_of_scikit_learn(estimator):
    tasks = make_tasks(classes=2, sizes=(60, 40), validation=30)
    recipe = Recipe(estimator, "pooled")
    rows = recipe_rows(recipe, tasks, None, None)
    known = compute_sample_weight("balanced", rows.labels)
    assert class_balanced(rows).weights == pytest.approx(known)
    plain, balanced = (fit_recipe(recipe, tasks, balanced=each) for each in (False, True))
    assert not np.allclose(plain.predict_proba(tasks.test.inputs), balanced.predict_proba(tasks.test.inputs))


def test_the_majority_class_stays_the_most_frequent_one():
    tasks = make_tasks(classes=2)
    found = [fit_recipe(Recipe("majority", "target"), tasks, balanced=each) for each in (False, True)]
    assert np.array_equal(*(model.predict_proba(tasks.test.inputs) for model in found))
