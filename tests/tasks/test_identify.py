import numpy as np
import pytest

from metasched.tasks.identify import identifying

ROWS = [3, 1, 2]


@pytest.mark.parametrize(
    "name", ["", "id", "ID", "Index", "patient_id", "Unnamed: 0", "Unnamed: 0.1", "__index_level_0__"]
)
@pytest.mark.parametrize("cells", [np.array(ROWS), np.array(ROWS, float), np.array(["c", "a", "b"], object)])
def test_names_and_values_say_what_only_identifies(name, cells):
    assert identifying([{name: cells, "x": cells}, {name: cells, "x": cells}]) == [name]
    assert identifying([{name: cells}], spared=[name]) == []


@pytest.mark.parametrize("name", ["age", "idea", "paid", "identity", "unnamed", "id_of_shop"])
def test_other_names_are_features(name):
    assert identifying([{name: np.array(ROWS)}]) == []


@pytest.mark.parametrize(
    "cells",
    [
        np.array([1, 2, 1]),
        np.array([0.5, 1.5, 2.5]),
        np.array([1, 2, np.nan]),
        np.array([np.nan, np.nan]),
        np.array([True, False]),
        np.array(["a", None, "b"], object),
        np.array(["a", "", "b"], object),
        np.array(["a", "b", "a"], object),
    ],
)
def test_values_that_repeat_or_are_missing_or_no_whole_numbers_are_features(cells):
    assert identifying([{"id": np.array(ROWS)}, {"id": cells}]) == []


def test_one_table_may_lack_the_column_and_one_row_proves_nothing():
    assert identifying([{"id": ROWS}, {"age": ROWS}]) == ["id"]
    assert identifying([{"id": [1]}, {"id": [1]}]) == []
