"""Trees as arrays predict what scikit-learn predicts, and arrays that make no trees are found."""

import time
from dataclasses import replace

import numpy as np
import pytest

from metasched.references.trees import DEEPEST, Tree, join, of_boosting, of_forest, rounded_down

ensemble = pytest.importorskip("sklearn.ensemble")


def make_rows(count=300, features=6, seed=0):
    random = np.random.default_rng(seed)
    # Whole numbers put many inputs right on a threshold of another tree.
    return np.column_stack([random.normal(size=(count, features - 2)), random.integers(0, 9, (count, 2))]).astype(
        np.float32
    )


def make_labels(rows, classes, seed=1):
    random = np.random.default_rng(seed)
    return ((rows[:, 0] + rows[:, -1] / 4 + random.normal(size=len(rows))) * 2).astype(int) % classes


@pytest.mark.parametrize("known", [[0, 1], [0, 1, 2, 3], [1, 3], [0, 2, 3]], ids=str)
@pytest.mark.parametrize("kind", ["forest", "boosting"])
def test_probabilities_are_those_of_scikit_learn(kind, known):
    rows, new = make_rows(), make_rows(500, seed=7)
    labels = np.take(known, make_labels(rows, len(known)))
    weights = np.random.default_rng(2).uniform(0.1, 10, len(rows))
    if kind == "forest":
        theirs = ensemble.RandomForestClassifier(30, random_state=0).fit(rows, labels, weights)
        ours = of_forest(theirs, theirs.classes_)
    else:
        theirs = ensemble.HistGradientBoostingClassifier(max_iter=12, max_leaf_nodes=8).fit(rows, labels, weights)
        ours = of_boosting([theirs], theirs.classes_)
    for inputs in (rows, new):
        found = ours.outputs(inputs, 4)
        np.testing.assert_allclose(found[:, known], theirs.predict_proba(inputs), atol=1e-12, rtol=0)
        assert not found[:, [each for each in range(4) if each not in known]].any()
        assert ours.fault(6, 4) is None


@pytest.mark.parametrize("numbers", [1, 3])
@pytest.mark.parametrize("kind", ["forest", "boosting"])
def test_numbers_are_those_of_scikit_learn(kind, numbers):
    rows, new = make_rows(), make_rows(500, seed=7)
    targets = rows[:, :numbers] * 3 + np.random.default_rng(3).normal(size=(len(rows), numbers)) + 230
    if kind == "forest":
        theirs = ensemble.RandomForestRegressor(30, random_state=0).fit(rows, np.squeeze(targets))
        ours, expected = of_forest(theirs, np.arange(numbers)), theirs.predict(new)
    else:
        each = [ensemble.HistGradientBoostingRegressor(max_iter=12).fit(rows, column) for column in targets.T]
        ours = of_boosting(each, np.arange(numbers))
        expected = np.column_stack([one.predict(new) for one in each])
    np.testing.assert_allclose(ours.outputs(new, 0), expected.reshape(500, -1), rtol=1e-12)
    assert ours.fault(6, 0) is None


def test_inputs_on_a_threshold_go_where_scikit_learn_sends_them():
    random = np.random.default_rng(0)
    rows = (random.integers(0, 40, (400, 3)) / 10).astype(np.float32)
    labels = random.integers(0, 2, 400)
    forest = ensemble.RandomForestClassifier(20, random_state=0).fit(rows, labels)
    limits = np.concatenate([tree.tree_.threshold[tree.tree_.feature >= 0] for tree in forest.estimators_])
    near = limits.astype(np.float32)[:, None] + np.zeros((1, 3), np.float32)
    inputs = np.concatenate([near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9))])
    found = of_forest(forest, forest.classes_).outputs(inputs, 2)
    np.testing.assert_allclose(found, forest.predict_proba(inputs), atol=1e-12, rtol=0)


def test_a_threshold_is_rounded_to_the_largest_float32_that_is_not_above_it():
    exact = np.array([0.1, -0.1, 0.5, 1e300, 3.0000000001])
    found = rounded_down(exact)
    assert found.dtype == np.float32
    assert np.all(found.astype(float) <= exact)
    above = np.nextafter(found[:3], np.float32(np.inf)).astype(float)
    assert np.all(above > exact[:3])


def test_a_single_leaf_and_trees_of_unequal_depth_are_joined():
    leaf = Tree(np.array([-1]), np.array([-1]), np.array([-2]), np.array([0.0]), np.array([[5.0]]))
    # Nodes in depth-first order: x0 <= 1 -> (x1 <= 2 -> 10, 20), 30
    tree = Tree(
        np.array([1, 2, -1, -1, -1]),
        np.array([4, 3, -1, -1, -1]),
        np.array([0, 1, -2, -2, -2]),
        np.array([1.0, 2.0, 0, 0, 0]),
        np.array([[0.0], [0.0], [10.0], [20.0], [30.0]]),
    )
    ours = join([leaf, tree], [100.0], [0], averaged=False)
    rows = np.array([[1, 2], [1, 2.5], [1.5, 0]], np.float32)
    assert ours.outputs(rows, 0).ravel().tolist() == [115.0, 125.0, 135.0]
    assert ours.count == 2


def make_small():
    rows = make_rows(60)
    forest = ensemble.RandomForestClassifier(5, random_state=0).fit(rows, make_labels(rows, 3))
    return of_forest(forest, forest.classes_)


def changed(trees, name, index, value):
    array = getattr(trees, name).copy()
    array[index] = value
    return replace(trees, **{name: array})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda trees: changed(trees, "feature", 0, 6), "uses a feature that does not exist"),
        (lambda trees: changed(trees, "feature", trees.feature < 0, -2), "uses a feature that does not exist"),
        (lambda trees: changed(trees, "feature", 0, -1), "too many or too few nodes"),
        (lambda trees: changed(trees, "leaf", 3, 10**6), "values that do not exist"),
        (lambda trees: changed(trees, "leaf", 3, -1), "values that do not exist"),
        (lambda trees: replace(trees, threshold=trees.threshold[:-1]), "too many or too few nodes"),
        (lambda trees: replace(trees, values=trees.values[:, :2]), "too many or too few values"),
        (lambda trees: replace(trees, columns=trees.columns[::-1]), "classes are not those"),
        (lambda trees: replace(trees, columns=trees.columns + 1), "classes are not those"),
        (lambda trees: replace(trees, columns=trees.columns[:2]), "outputs are not those"),
        (lambda trees: replace(trees, start=trees.start + 1), "not those of a forest"),
    ],
)
def test_what_makes_no_trees_is_found(change, message):
    trees = make_small()
    assert trees.fault(6, 3) is None
    assert message in change(trees).fault(6, 3)


def chain(levels, *, own_child=False):
    """A tree that goes down one level at a time; or one whose second node would be its own child."""
    inner = np.tile([False, True], levels)[: 2 * levels - 1]
    feature = np.where(np.append([True], inner), 0, -1)
    feature = np.append(feature, -1)
    if own_child:
        feature = np.array([-1, 0, -1])
    count = int((feature >= 0).sum())
    return replace(
        make_small(),
        feature=feature.astype(np.int32),
        threshold=np.zeros(count, np.float32),
        leaf=np.zeros(len(feature) - count, np.int32),
    )


def test_a_node_that_is_its_own_child_is_found():
    assert "its own child" in chain(0, own_child=True).fault(6, 3)


def test_trees_deeper_than_any_that_we_fit_are_refused():
    assert chain(DEEPEST).fault(6, 3) is None
    assert "more than 256 levels" in chain(DEEPEST + 1).fault(6, 3)


def test_two_hundred_trees_read_two_thousand_rows_in_well_under_a_second():
    rows = make_rows(2000, 20)
    forest = ensemble.RandomForestClassifier(200, random_state=0).fit(rows[:600], make_labels(rows[:600], 6))
    ours = of_forest(forest, forest.classes_)
    ours.outputs(rows[:10], 6)
    # Processor time of this process: other programs on a busy machine do not count.
    begin = time.process_time()
    ours.outputs(rows, 6)
    assert time.process_time() - begin < 1.0
