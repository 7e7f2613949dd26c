import numpy as np
import pytest

from metasched.errors import ConfigError
from metasched.experiments.datasets.sampling import drawn_rows

LABELS = np.repeat(np.arange(4, dtype=np.int32), 25)


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
