import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.errors import ConfigError, DataError
from metasched.tasks import Preparation
from metasched.tasks.preparation import MOST_CATEGORIES

sklearn = pytest.importorskip("sklearn.preprocessing")
AGES = [20.0, 35.5, 60.0, 41.0]
CITIES = ["Bern", "Köln", "Bern", "Paris"]


def fit(columns, **options):
    return Preparation.fit(columns, label="bought", **options)


def test_numbers_and_categories_are_those_of_scikit_learn():
    prepared = fit({"age": AGES, "city": CITIES}).inputs({"age": AGES, "city": CITIES})
    scaled = sklearn.StandardScaler().fit_transform(np.array(AGES)[:, None])
    hot = sklearn.OneHotEncoder(sparse_output=False).fit_transform(np.array(CITIES)[:, None])
    np.testing.assert_allclose(prepared, np.hstack([scaled, hot]), rtol=1e-6)
    assert prepared.dtype == np.float32


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=20))
def test_standardised_numbers_are_finite_whatever_their_size(values):
    assert np.isfinite(fit({"x": values}).inputs({"x": values})).all()


@pytest.mark.parametrize("value", [0.1, 7, 1e17])
def test_a_constant_column_becomes_zero(value):
    cells = [value] * 7
    assert fit({"x": cells}).inputs({"x": cells}).ravel().tolist() == [0] * 7


def test_numbers_may_be_left_as_they_are():
    assert fit({"age": AGES}, standardise=False).inputs({"age": AGES}).ravel().tolist() == AGES


def test_columns_are_found_by_name_and_others_ignored():
    prepared = fit({"age": AGES, "city": CITIES})
    rows = {"age": AGES, "city": CITIES}
    other = {"unknown": [None] * 4, "city": CITIES, "age": AGES}
    np.testing.assert_array_equal(prepared.inputs(rows), prepared.inputs(other))


def test_a_category_that_no_source_has_is_all_zeros():
    prepared = fit({"city": CITIES})
    assert prepared.inputs({"city": ["Rome", "Paris"]}).tolist() == [[0, 0, 0], [0, 0, 1]]
    assert prepared.columns[0].unknown(["Rome", "Paris"]) == 1


def test_integers_are_numbers_unless_named_as_categories():
    codes = [3, 1, 3, 2]
    assert fit({"code": codes}).columns[0].width == 1
    named = fit({"code": codes}, categorical=["code"])
    assert named.columns[0].categories == ("1", "2", "3")
    assert named.inputs({"code": [2.0]}).tolist() == named.inputs({"code": ["2"]}).tolist() == [[0, 1, 0]]


class TestMissing:
    ROWS = {"age": [20.0, None, 40.0], "city": ["Bern", "", None]}  # noqa: RUF012

    def test_is_refused_with_the_row_the_column_and_the_fix(self):
        with pytest.raises(
            DataError, match=r"row 2: column 'age' is empty \(1 such row\); .* --missing mean \(missing='mean'\)"
        ):
            fit(self.ROWS).inputs(self.ROWS)

    def test_numbers_become_the_mean_and_texts_a_category(self):
        prepared = fit(self.ROWS, missing="mean")
        assert prepared.columns[1].categories == ("Bern", "(missing)")
        assert prepared.inputs(self.ROWS).tolist() == [[-1, 1, 0], [0, 0, 1], [1, 0, 1]]

    def test_a_column_without_any_number_is_constant(self):
        cells = [None, float("nan")]
        assert fit({"x": cells}, missing="mean").inputs({"x": cells}).ravel().tolist() == [0, 0]

    def test_only_mean_is_known(self):
        with pytest.raises(ConfigError, match="missing is 'median'; give 'mean'"):
            fit({"age": AGES}, missing="median")


class TestRefused:
    def test_text_among_numbers(self):
        with pytest.raises(DataError, match="row 3: column 'age' has 'abc' among numbers"):
            fit({"age": ["20", "30", "abc", "41"]})
        assert fit({"age": ["20", "30", "abc", "41"]}, categorical=["age"]).columns[0].width == 4

    def test_a_decimal_comma_where_other_rows_have_a_point(self):
        with pytest.raises(DataError, match="row 3: column 'age' has '80,5', a decimal comma where other rows have a"):
            fit({"age": ["20", "30.5", "80,5", "41"]})

    def test_numbers_with_a_decimal_comma(self):
        with pytest.raises(DataError, match=r"'20,5'; if that is a number, give --data decimal=, \(decimal=','\)"):
            fit({"age": ["20,5", "30,1", "41"]})
        assert fit({"place": ["Bern, CH", "Köln, DE"]}).columns[0].width == 2

    def test_text_where_training_had_numbers(self):
        with pytest.raises(DataError, match="row 2: column 'age' has 'old' where a number should be"):
            fit({"age": AGES}).inputs({"age": ["31", "old"]})

    @pytest.mark.parametrize("value", [np.inf, -1e200])
    def test_infinite_numbers(self, value):
        with pytest.raises(DataError, match=r"row 2: column 'age' is .*, too large to learn from"):
            fit({"age": [1.0, value]})

    def test_names_in_place_of_categories(self):
        cells = [f"customer {number}" for number in range(MOST_CATEGORIES + 1)]
        with pytest.raises(DataError, match="column 'who' has 101 different texts, more than 100; leave it out"):
            fit({"who": cells})
        assert fit({"who": cells[:-1]}).columns[0].width == MOST_CATEGORIES

    def test_a_column_that_is_not_there(self):
        with pytest.raises(DataError, match="the rows have no column 'city'"):
            fit({"age": AGES, "city": CITIES}).inputs({"age": AGES})

    def test_columns_of_different_length(self):
        with pytest.raises(DataError, match=r"columns differ in length \(3, 4 rows\)"):
            fit({"age": AGES, "city": CITIES}).inputs({"age": AGES, "city": CITIES[:3]})

    def test_nothing_to_learn_from(self):
        with pytest.raises(DataError, match="no column to learn from apart from 'bought'"):
            fit({})

    def test_a_category_that_is_no_column(self):
        with pytest.raises(ConfigError, match="categorical names 'town', which is not a column"):
            fit({"city": CITIES}, categorical=["town"])


def test_json_keeps_it_to_the_last_bit():
    rows = {"age": [1 / 3, None, 1e-7], "city": CITIES[:3]}
    prepared = fit(rows, missing="mean", text_labels=True)
    again = msgspec.json.decode(msgspec.json.encode(prepared), type=Preparation)
    assert again == prepared
    np.testing.assert_array_equal(again.inputs(rows), prepared.inputs(rows))
