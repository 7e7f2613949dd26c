"""Estimators fitted on rows with weights."""

import sys

import numpy as np
import pytest

from helpers import make_regression, make_tasks
from metasched.errors import ConfigError
from metasched.references import linear
from metasched.references.fit import ESTIMATORS, FOREST_TREES, Constant, bin_edges, fit
from metasched.references.rows import fit_rows, flat
from metasched.references.trees import Trees

TREES = ("forest", "boosting")


def rows_of(tasks, source=1.0, target=1.0):
    return fit_rows(tasks, [source] * len(tasks.tasks), target)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_rows_are_learnt(estimator):
    pytest.importorskip("sklearn")
    tasks = make_tasks(sizes=(80, 60))
    fitted = fit(estimator, rows_of(tasks), 0)
    found = fitted.outputs(flat(tasks.test.inputs), 3)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    right = np.mean(found.argmax(axis=1) == tasks.test.labels)
    assert right < 0.6 if estimator == "majority" else right > 0.9


@pytest.mark.parametrize("numbers", [1, 2])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_numbers_are_learnt(estimator, numbers):
    pytest.importorskip("sklearn")
    tasks = make_regression(sizes=(300,), numbers=numbers)
    fitted = fit(estimator, rows_of(tasks), 0)
    found = fitted.outputs(flat(tasks.test.inputs), 0)
    assert found.shape == tasks.test.targets.shape
    explained = 1 - ((found - tasks.test.targets) ** 2).sum() / np.var(tasks.test.targets, axis=0).sum() / len(found)
    assert explained < 0.1 if estimator == "majority" else explained > 0.6


def test_the_majority_has_the_shares_of_the_classes_by_weight():
    tasks = make_tasks(sizes=(5,), validation=8)
    found = fit("majority", rows_of(tasks, source=1.0, target=10.0), 0)
    counts = np.bincount(tasks.tasks[0].labels, minlength=3) + 10 * np.bincount(tasks.validation.labels, minlength=3)
    np.testing.assert_allclose(found.outputs(np.zeros((2, 4), np.float32), 3), np.tile(counts / counts.sum(), (2, 1)))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_where_all_rows_are_of_one_class_that_is_the_answer(estimator):
    tasks = make_tasks()
    rows = rows_of(tasks)._replace(answers=np.tile([0.0, 0.0, 1.0], (51, 1)))
    found = fit(estimator, rows, 0)
    assert isinstance(found, Constant)
    assert found.answer.tolist() == [0, 0, 1]


@pytest.mark.parametrize("estimator", TREES)
def test_trees_are_those_that_scikit_learn_fits_with_the_same_weights(estimator):
    ensemble = pytest.importorskip("sklearn.ensemble")
    tasks = make_tasks(sizes=(60, 40))
    rows = rows_of(tasks, target=10.0)
    ours = fit(estimator, rows, 5).outputs(flat(tasks.test.inputs), 3)
    if estimator == "forest":
        theirs = ensemble.RandomForestClassifier(FOREST_TREES, random_state=5)
    else:
        theirs = ensemble.HistGradientBoostingClassifier(
            max_iter=40,
            max_leaf_nodes=8,
            min_samples_leaf=5,
            max_features=0.3,
            max_bins=64,
            early_stopping=False,
            random_state=5,
        )
    theirs.fit(rows.inputs, rows.labels, rows.weights)
    np.testing.assert_allclose(ours, theirs.predict_proba(flat(tasks.test.inputs)), atol=1e-12, rtol=0)


@pytest.mark.parametrize("values", [7, 10_000])
def test_bins_have_about_equal_weights_and_values_on_an_edge_belong_to_the_bin_below(values):
    random = np.random.default_rng(0)
    inputs = random.integers(0, values, (900, 3)).astype(np.float32)
    weights = random.uniform(0.5, 2, 900) * (random.random(900) < 0.8)
    for edges, column in zip(bin_edges(inputs, weights, 16), inputs.T, strict=True):
        shares = np.bincount(np.searchsorted(edges, column), weights) / weights.sum()
        assert len(edges) == min(values, 16) - 1
        assert len(shares) == len(edges) + 1
        if values > 16:
            np.testing.assert_allclose(shares, 1 / 16, atol=2 * weights.max() / weights.sum())
        else:
            assert edges.tolist() == [number + 0.5 for number in range(values - 1)]


def test_a_feature_that_is_always_the_same_has_one_bin():
    (edges,) = bin_edges(np.full((5, 1), 3, np.float32), np.ones(5), 16)
    assert len(edges) == 0


@pytest.mark.parametrize("estimator", TREES)
def test_the_seed_decides_the_trees(estimator):
    pytest.importorskip("sklearn")
    rows = rows_of(make_tasks(sizes=(60, 40)))
    first, again, other = (fit(estimator, rows, seed) for seed in (1, 1, 2))
    assert isinstance(first, Trees)
    assert first.feature.tobytes() == again.feature.tobytes()
    assert first.values.tobytes() == again.values.tobytes()
    assert first.feature.tobytes() != other.feature.tobytes()


@pytest.mark.parametrize("estimator", ["linear", "forest", "boosting"])
def test_fits_use_one_thread_so_that_their_number_changes_no_bit(estimator, monkeypatch):
    pools = pytest.importorskip("threadpoolctl")
    ensemble = pytest.importorskip("sklearn.ensemble")
    holder, name = {
        "linear": (linear, "logistic_path"),
        "forest": (ensemble.RandomForestClassifier, "fit"),
        "boosting": (ensemble.HistGradientBoostingClassifier, "fit"),
    }[estimator]
    original, threads = getattr(holder, name), []

    def watched(*arguments):
        threads.extend(pool["num_threads"] for pool in pools.threadpool_info())
        return original(*arguments)

    monkeypatch.setattr(holder, name, watched)
    with pools.threadpool_limits(2):
        fit(estimator, rows_of(make_tasks()), 0)
    assert set(threads) == {1}


def test_without_scikit_learn_trees_say_what_to_install_and_linear_models_are_fitted(monkeypatch):
    for name in ("sklearn", "sklearn.ensemble", "threadpoolctl"):
        monkeypatch.setitem(sys.modules, name, None)
    rows = rows_of(make_tasks())
    for estimator in TREES:
        with pytest.raises(ConfigError, match=r"pip install 'metasched\[references\]'"):
            fit(estimator, rows, 0)
    assert fit("linear", rows, 0).outputs(rows.inputs, 3).shape == (51, 3)


def test_images_are_flattened():
    tasks = make_tasks(shape=(3, 2, 2))
    assert fit("linear", rows_of(tasks), 0).weights.shape == (12, 3)
