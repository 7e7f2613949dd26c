import datetime

import numpy as np
import pytest

from metasched.errors import DataError
from metasched.tasks.arrow import columns_of

pa = pytest.importorskip("pyarrow")


def columns(drop=(), **arrays):
    return columns_of(pa.table(arrays), "mine.csv", drop)


def test_numbers_have_nan_where_one_is_missing():
    got = columns(a=pa.array([1, None]), b=[1, 2], c=pa.array([None, None]), d=pa.array([1, 2], pa.decimal128(3)))
    np.testing.assert_array_equal(got["a"], [1, np.nan])
    assert got["b"].dtype.kind == "i"
    assert np.isnan(got["c"]).all()
    assert got["d"].tolist() == [1, 2]


def test_truth_values_are_numbers_or_missing():
    got = columns(a=[True, False], b=pa.array([True, None]))
    assert got["a"].tolist() == [True, False]
    np.testing.assert_array_equal(got["b"], [1, np.nan])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_texts_have_none_where_one_is_missing(kind):
    assert columns(a=pa.array(["x", None, "x"], kind))["a"].tolist() == ["x", None, "x"]


def test_dictionaries_are_what_they_stand_for():
    got = columns(a=pa.array(["x", None, "y"]).dictionary_encode(), b=pa.array([7, 8, 7]).dictionary_encode())
    assert got["a"].tolist() == ["x", None, "y"]
    assert got["b"].tolist() == [7, 8, 7]


def test_chunks_with_dictionaries_of_their_own_are_joined():
    chunks = pa.chunked_array([pa.array(["x", "y"]).dictionary_encode(), pa.array(["z", "y"]).dictionary_encode()])
    assert columns(a=chunks)["a"].tolist() == ["x", "y", "z", "y"]


@pytest.mark.parametrize("cell", [datetime.date(2020, 1, 1), [1, 2]])
def test_other_kinds_are_refused_unless_left_out(cell):
    with pytest.raises(DataError, match=r"mine\.csv: column 'a' holds .*; make it numbers or text, or .* drop=a"):
        columns(a=[cell], b=[1])
    assert list(columns(a=[cell], b=[1], drop=["a"])) == ["b"]


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(DataError, match="two columns are named 'a'"):
        columns_of(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), "mine.csv")


@pytest.mark.parametrize("wrong", [-1, 5])
def test_a_cell_that_points_to_no_text_is_refused(wrong):
    cells = pa.DictionaryArray.from_arrays(pa.array([0, wrong], pa.int32()), pa.array(["a"]), safe=False)
    with pytest.raises(DataError, match="column 'x' is damaged"):
        columns_of(pa.table({"x": cells}), "t.parquet")
