"""A linear model and boosting on all rows poured together."""

import numpy as np
import pytest

from helpers import make_tasks
from metasched.experiments.pooled import MODELS, pooled

linear_model = pytest.importorskip("sklearn.linear_model")


def test_they_are_fitted_on_sources_and_labelled_rows_and_scored_on_test_rows():
    tasks = make_tasks(sizes=(60, 50, 40))
    found = pooled(tasks, seed=0)
    assert found.keys() == MODELS.keys()
    splits = [*tasks.tasks, tasks.validation]
    inputs = np.concatenate([split.inputs for split in splits])
    mean, deviation = inputs.mean(axis=0), inputs.std(axis=0)
    by_hand = linear_model.LogisticRegression(max_iter=200)
    by_hand.fit((inputs - mean) / deviation, np.concatenate([split.labels for split in splits]))
    right = by_hand.predict((tasks.test.inputs - mean) / deviation) == tasks.test.labels
    assert found["pooled linear"] == pytest.approx(right.mean())


def test_images_are_flattened_and_a_seed_gives_the_same_again():
    tasks = make_tasks(sizes=(60, 50, 40))
    assert pooled(tasks, seed=1) == pooled(tasks, seed=1)
