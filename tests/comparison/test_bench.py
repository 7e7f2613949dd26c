"""The parts that all fits of a comparison share; whole comparisons are in ``test_compare.py``."""

from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.comparison.bench import Steps, whole, with_length
from metasched.comparison.estimate import Part
from metasched.comparison.splits import FOLDS, split
from metasched.runs.sweep import Setup
from tiny_comparison import LEARNER, NETWORK


def test_progress_counts_over_all_steps():
    told = []
    steps = Steps(10, lambda *each: told.append(each))
    count = steps.counting("folds")
    count(1)
    count(4, "2 of them wait")
    steps.ended(4)
    steps.counting("judging")(3)
    assert told == [("folds", 1, 10), ("folds: 2 of them wait", 4, 10), ("judging", 7, 10)]
    Steps(10).counting("folds")(1)


def test_a_unit_counts_if_all_of_its_splits_were_fitted():
    splits = split(make_tasks(validation=20).all_labelled(), range(2)).judging
    parts = {
        place: Part(np.full((len(each.rows), 2), place, np.float32), each.rows, each.rows)
        for place, each in enumerate(splits)
    }
    assert set(whole(parts, splits)) == {0, 1}
    del parts[FOLDS]
    found = whole(parts, splits)
    assert set(found) == {0}
    assert found[0].rows.tolist() == [row for each in splits[:FOLDS] for row in each.rows]
    assert found[0].outputs[:, 0].tolist() == [place for place in range(FOLDS) for _ in splits[place].rows]


@pytest.mark.parametrize("learner", [LEARNER, ms.AlgorithmOne(updates=5)])
def test_a_shorter_setup_differs_in_its_updates_alone(learner):
    setup = Setup(learner, NETWORK)
    assert with_length(setup, 1) == Setup(replace(learner, updates=1), NETWORK)
