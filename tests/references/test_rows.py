"""Rows with weights, as models are fitted on them."""

import numpy as np
import pytest

from helpers import make_regression, make_tasks
from metasched.references.rows import class_balanced, fit_rows


def test_rows_are_those_of_used_sources_and_then_the_targets_with_a_mean_weight_of_one():
    tasks = make_tasks(sizes=(12, 20, 9), shape=(2, 2), validation=10)
    rows = fit_rows(tasks, [2.0, 0.0, 1.0], 10.0)
    parts = [tasks.tasks[0], tasks.tasks[2], tasks.validation]
    np.testing.assert_array_equal(rows.inputs, np.concatenate([part.inputs.reshape(-1, 4) for part in parts]))
    np.testing.assert_array_equal(rows.labels, np.concatenate([part.labels for part in parts]))
    np.testing.assert_allclose(rows.weights, np.repeat([2, 1, 10], [12, 9, 10]) / ((24 + 9 + 100) / 31))
    assert (rows.known, rows.classes) == (10, 3)
    assert rows.strata is tasks.validation.labels


def test_in_regression_answers_are_the_targets():
    tasks = make_regression()
    rows = fit_rows(tasks, [0.0] * 3, 1.0)
    np.testing.assert_array_equal(rows.answers, tasks.validation.targets)
    assert rows.classes == 0


def test_balanced_classes_weigh_the_same_and_rows_keep_their_relation_within_a_class():
    rows = fit_rows(make_tasks(sizes=(30, 7), validation=9), [1.0, 2.0], 10.0)
    found = class_balanced(rows)
    totals = found.weights @ found.answers
    assert totals[totals > 0] == pytest.approx(len(rows.weights) / (totals > 0).sum())
    assert found.weights.mean() == pytest.approx(1)
    for label in range(rows.classes):
        mine = rows.labels == label
        assert found.weights[mine] / rows.weights[mine] == pytest.approx((found.weights / rows.weights)[mine][0])


def test_numbers_to_predict_have_no_classes_to_balance():
    rows = fit_rows(make_regression(), [1.0] * 3, 10.0)
    assert class_balanced(rows) is rows
