import os

import numpy as np
import pytest

from metasched.comparison.stored import StoredOutputs
from metasched.errors import RunError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "work" / "references.jsonl"


def test_what_was_added_is_read_again_by_another_comparison(path):
    outputs = np.array([[0.25, 0.75], [1, 0], [0.5, 0.5]], np.float32)
    StoredOutputs(path).add("a split, a model", outputs)
    stored = StoredOutputs(path)
    assert "a split, a model" in stored
    assert "another split, a model" not in stored
    np.testing.assert_array_equal(stored.read("a split, a model", 3), outputs)


def test_a_line_that_a_kill_cut_short_is_fitted_again_and_the_others_stay(path):
    first = StoredOutputs(path)
    first.add("whole", np.zeros((2, 1), np.float32))
    first.add("cut", np.zeros((2, 1), np.float32))
    path.write_bytes(path.read_bytes()[:-9])
    second = StoredOutputs(path)
    assert "whole" in second
    assert "cut" not in second
    second.add("cut", np.ones((2, 1), np.float32))
    assert StoredOutputs(path).read("cut", 2).tolist() == [[1], [1]]


def test_predictions_of_another_number_of_rows_say_what_to_do(path):
    stored = StoredOutputs(path)
    stored.add("model", np.zeros((3, 1), np.float32))
    with pytest.raises(RunError, match="is damaged; remove it, and its models will be fitted again"):
        stored.read("model", 2)


def test_a_named_pipe_in_its_place_is_refused_and_not_waited_for(path):

    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(RunError, match="is not a data file; remove it"):
        StoredOutputs(path)
