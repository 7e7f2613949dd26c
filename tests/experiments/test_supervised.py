"""The ceiling: the same network, trained on everything at once."""

import numpy as np
import pytest

import metasched as ms
from helpers import make_own_label_tasks, make_tasks
from metasched.experiments.supervised import _chances, supervised


def test_separable_classes_are_learned_from_all_rows():
    tasks = make_tasks(sizes=(60, 50), validation=20, test=300)
    found = supervised(tasks, "mlp", ms.AlgorithmOne().resolve(tasks), [0, 1], steps=60)
    assert found.rows == 130
    assert min(found.accuracy) > 0.9
    counts = np.bincount(tasks.test.labels)
    for accuracy, balanced, shares in zip(found.accuracy, found.balanced, found.by_class, strict=True):
        assert accuracy == pytest.approx(np.dot(shares, counts) / 300)
        assert balanced == pytest.approx(np.mean(shares))
    untrained = supervised(tasks, "mlp", ms.AlgorithmOne().resolve(tasks), [0, 1], steps=0)
    assert max(untrained.accuracy) < 0.8


def test_tasks_with_labels_of_their_own_are_trained_under_their_own_heads():
    tasks = make_own_label_tasks()
    found = supervised(tasks, "mlp", ms.AlgorithmOne().resolve(tasks), [3], steps=60)
    assert found.accuracy[0] > 0.95


def test_balanced_rows_are_drawn_by_the_rarity_of_their_label_in_their_task():
    tasks = make_tasks()
    plain = _chances(tasks, ms.AlgorithmOne())
    assert set(plain) == {1.0}
    chances = _chances(tasks, ms.AlgorithmOne(balanced_loss=True))
    begin = 0
    for labels in [*(task.labels for task in tasks.tasks), tasks.validation.labels]:
        part = chances[begin : begin + len(labels)]
        by_label = [part[labels == label].sum() for label in np.unique(labels)]
        assert by_label == pytest.approx([1.0] * len(by_label))
        begin += len(labels)
    assert begin == len(chances)
