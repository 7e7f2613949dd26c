"""Estimators fitted on rows with weights."""

import os
import subprocess
import sys

import numpy as np
import pytest

from helpers import make_regression, make_tasks
from metasched.errors import ConfigError
from metasched.references.fit import ESTIMATORS, Constant, fit
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
        theirs = ensemble.RandomForestClassifier(200, random_state=5)
    else:
        theirs = ensemble.HistGradientBoostingClassifier(
            max_iter=40, max_leaf_nodes=8, min_samples_leaf=5, max_features=0.3, early_stopping=False, random_state=5
        )
    theirs.fit(rows.inputs, rows.labels, rows.weights)
    np.testing.assert_allclose(ours, theirs.predict_proba(flat(tasks.test.inputs)), atol=1e-12, rtol=0)


@pytest.mark.parametrize("estimator", TREES)
def test_the_seed_decides_the_trees(estimator):
    pytest.importorskip("sklearn")
    rows = rows_of(make_tasks(sizes=(60, 40)))
    first, again, other = (fit(estimator, rows, seed) for seed in (1, 1, 2))
    assert isinstance(first, Trees)
    assert first.feature.tobytes() == again.feature.tobytes()
    assert first.values.tobytes() == again.values.tobytes()
    assert first.feature.tobytes() != other.feature.tobytes()


_FIT = """
import sys
import numpy as np
from metasched.references.fit import fit
from metasched.references.rows import FitRows
random = np.random.default_rng(0)
inputs = random.normal(size=(3000, 40)).astype(np.float32)
labels = (inputs[:, :4] + random.gumbel(size=(3000, 4))).argmax(axis=1)
rows = FitRows(inputs, np.eye(4)[labels], random.uniform(1, 10, 3000), 40, labels[-40:].astype(np.int32), 4)
sys.stdout.write(fit("ESTIMATOR", rows, 0).outputs(inputs[:50], 4).tobytes().hex())
"""


@pytest.mark.parametrize("estimator", ["linear", "boosting"])
def test_the_number_of_threads_changes_no_bit(estimator):
    pytest.importorskip("sklearn")

    def with_threads(count):
        limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(count))
        code = _FIT.replace("ESTIMATOR", estimator)
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **limits}, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert with_threads(1) == with_threads(2) != ""


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
