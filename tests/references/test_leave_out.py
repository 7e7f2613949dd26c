"""What is predicted without each source."""

import numpy as np

from half_sources import NAMES, make_sources
from helpers import make_regression, make_tasks
from metasched.references.grams import Grams
from metasched.references.leave_out import left_out_scores


def test_without_a_source_the_outputs_are_those_of_a_set_that_lacks_it():
    tasks = make_tasks()
    grams = Grams.of(tasks)
    found = left_out_scores(grams, tasks.validation, tasks.test.inputs)
    assert found.all.shape == (30, 3)
    assert found.without.shape == (3, 30, 3)
    known = grams.known(tasks.validation)
    share = int(np.argmin(grams.held_out_errors(known, [0, 1, 2])))
    expected = grams.rows(tasks.test.inputs) @ grams.fit(known, [0, 2], share)
    np.testing.assert_allclose(found.without[1], expected, atol=1e-12)
    assert np.mean(found.all.argmax(axis=1) == tasks.test.labels) > 0.9


def test_accuracy_is_lost_without_a_source_that_helps_and_gained_without_one_that_misleads():
    tasks = make_sources()
    found = left_out_scores(Grams.of(tasks), tasks.validation, tasks.test.inputs)
    right = np.mean(found.all.argmax(axis=1) == tasks.test.labels)
    lost = dict(zip(NAMES, right - np.mean(found.without.argmax(axis=2) == tasks.test.labels, axis=1), strict=True))
    assert lost["half"] > 0
    assert lost["other half"] > 0
    assert lost["reversed"] < 0


def test_in_regression_outputs_are_the_numbers():
    tasks = make_regression()
    found = left_out_scores(Grams.of(tasks), tasks.validation, tasks.test.inputs)
    assert found.all.shape == tasks.test.targets.shape
    assert np.corrcoef(found.all[:, 0], tasks.test.targets[:, 0])[0, 1] > 0.95
