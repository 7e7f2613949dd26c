import numpy as np
import pytest

from metasched.datasets.sampling import drawn_rows, few_labels
from metasched.errors import ConfigError

LABELS = np.repeat(np.arange(4, dtype=np.int32), 25)


def test_few_labels_are_stratified_and_the_rest_is_for_test():
    validation, test = few_labels(LABELS, 8, seed=0)
    assert np.bincount(LABELS[validation]).tolist() == [2] * 4
    assert sorted([*validation, *test]) == list(range(100))
    assert not np.array_equal(validation, few_labels(LABELS, 8, seed=1)[0])


@pytest.mark.parametrize(("count", "seed", "message"), [(0, 0, "asked for 0"), (100, 0, "leave some"), (8, -1, "seed")])
def test_what_cannot_be_split_is_refused(count, seed, message):
    with pytest.raises(ConfigError, match=message):
        few_labels(LABELS, count, seed)


def test_a_source_has_the_same_rows_in_either_order():
    in_order, shuffled = (drawn_rows(LABELS, 40, "a", shuffled) for shuffled in (False, True))
    assert np.all(np.diff(in_order) > 0)
    assert not np.all(np.diff(shuffled) > 0)
    assert sorted(shuffled) == in_order.tolist()
    assert np.bincount(LABELS[in_order]).tolist() == [10] * 4
    assert not np.array_equal(in_order, drawn_rows(LABELS, 40, "b", False))


@pytest.mark.parametrize("count", [0, 101])
def test_more_rows_than_there_are_is_refused(count):
    with pytest.raises(ConfigError, match=f"rows is {count}; a has 100"):
        drawn_rows(LABELS, count, "a", False)
