"""Sums over sources give the fits, and the errors on held-out rows, that rows themselves give."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import make_regression, make_tasks
from metasched.references import grams as module
from metasched.references.grams import SHARES, TARGET_WEIGHT, Grams
from metasched.references.linear import Scale, leading


def answers(part):
    return np.eye(3)[part.labels] if part.targets is None else part.targets.astype(float)


def fit_on_rows(grams, parts, weights, share, total):
    """Weighted ridge on rows themselves, as an augmented least-squares problem."""
    rows = np.concatenate([grams.rows(part.inputs) for part in parts])
    known = np.concatenate([answers(part) for part in parts])
    heavy = np.sqrt(np.repeat(weights, [len(part.labels) for part in parts]))[:, None]
    shrink = np.sqrt(share * total) * np.eye(rows.shape[1])
    shrink[-1] = 0
    wanted = np.concatenate([known * heavy, np.zeros((len(shrink), known.shape[1]))])
    return np.linalg.lstsq(np.concatenate([rows * heavy, shrink]), wanted, rcond=None)[0]


@pytest.mark.parametrize("make", [make_tasks, make_regression])
def test_a_fit_from_sums_is_the_fit_on_rows(make):
    tasks = make()
    grams = Grams.of(tasks)
    known = grams.known(tasks.validation)
    parts = [tasks.tasks[0], tasks.tasks[2], tasks.validation]
    total = len(tasks.tasks[0]) + len(tasks.tasks[2]) + TARGET_WEIGHT * len(tasks.validation.labels)
    for number, share in enumerate(SHARES):
        expected = fit_on_rows(grams, parts, [1, 1, TARGET_WEIGHT], share, total)
        np.testing.assert_allclose(grams.fit(known, [0, 2], number), expected, atol=1e-5)


@pytest.mark.parametrize("make", [make_tasks, make_regression])
def test_held_out_errors_are_those_of_fits_without_the_fold(make):
    tasks = make(validation=23)
    grams = Grams.of(tasks)
    known = grams.known(tasks.validation)
    total = len(tasks.tasks[1]) + TARGET_WEIGHT * 23
    assert set(known.folds) == set(range(5))
    for number, share in enumerate(SHARES):
        squares = 0.0
        for fold in range(5):
            rest, held = (
                tasks.validation.take(np.flatnonzero(mine)) for mine in (known.folds != fold, known.folds == fold)
            )
            fitted = fit_on_rows(grams, [tasks.tasks[1], rest], [1, TARGET_WEIGHT], share, total)
            squares += ((answers(held) - grams.rows(held.inputs) @ fitted) ** 2).sum()
        assert grams.held_out_errors(known, [1])[number] == pytest.approx(squares / 23, rel=1e-4)


def test_sums_serve_every_draw_of_the_target():
    tasks = make_tasks()
    grams, drawn = Grams.of(tasks), tasks.redrawn(3)
    one, two = grams, Grams.of(drawn)
    np.testing.assert_array_equal(
        one.held_out_errors(one.known(drawn.validation), [0]), two.held_out_errors(two.known(drawn.validation), [0])
    )


def test_many_features_are_projected_onto_the_directions_in_which_rows_vary_most(monkeypatch):
    monkeypatch.setattr(module, "FEATURES", 20)
    monkeypatch.setattr(module, "COMPONENTS", 3)
    random = np.random.default_rng(0)
    axes = np.linalg.qr(random.normal(size=(30, 3)))[0]
    tasks = make_tasks(sizes=(100, 80), shape=(30,))
    task = replace(tasks.tasks[0], inputs=(random.normal(size=(100, 3)) @ axes.T).astype(np.float32))
    turn = leading(Scale(np.zeros(30), np.ones(30), None), task.inputs, 3).turn
    np.testing.assert_allclose(turn @ (turn.T @ axes), axes, atol=1e-5)
    np.testing.assert_allclose(turn.T @ turn, np.eye(3), atol=1e-9)
    grams = Grams.of(tasks)
    assert grams.grams.shape == (2, 4, 4)
    assert grams.rows(tasks.test.inputs).shape == (30, 4)


def test_of_many_target_rows_some_are_judged_and_all_are_fitted(monkeypatch):
    monkeypatch.setattr(module, "JUDGED", 15)
    tasks = make_tasks(validation=40)
    grams = Grams.of(tasks)
    known = grams.known(tasks.validation)
    assert known.rows.shape[0] == known.folds.shape[0] == 15
    assert known.weight == TARGET_WEIGHT * 40
    assert known.gram[-1, -1] == TARGET_WEIGHT * 40
