import datetime

import numpy as np
import pytest

from metasched.errors import DataError
from metasched.tasks import Provenance
from metasched.tasks.assemble import Goal
from metasched.tasks.table import Table, by_source, columns_of, from_tables

pa = pytest.importorskip("pyarrow")


def table(name, **columns):
    arrays = {key: np.array(own, object if isinstance(own[0], str) else None) for key, own in columns.items()}
    rows = np.arange(len(next(iter(arrays.values()))))
    return Table(f"{name}.csv", arrays, lambda row: f"{name}.csv line {row + 2}", Provenance(f"{name}.csv", rows))


def shop(name, seed, city=("Bern", "Köln"), **more):
    random = np.random.default_rng(seed)
    return table(
        name,
        age=random.normal(40 + 10 * seed, 5, 20),
        city=list(random.choice(city, 20)),
        label=["no", "yes"] * 10,
        **more,
    )


def built(tables, target="c", label="label", **options):
    return from_tables("shops", tables, Goal(target=target, label=label), **options)


def test_inputs_are_standardised_by_the_rows_of_the_sources_alone():
    tasks = built({"a": shop("a", 0), "b": shop("b", 1), "c": shop("c", 5)})
    ages = np.concatenate([task.inputs[:, 0] for task in tasks.tasks])
    assert abs(ages.mean()) < 1e-6
    assert abs(ages.std() - 1) < 1e-6
    assert tasks.test.inputs[:, 0].mean() > 4


def test_the_preparation_gives_the_same_inputs_again():
    shops = {"a": shop("a", 0), "c": shop("c", 5)}
    tasks = built(shops)
    np.testing.assert_array_equal(tasks.preparation.inputs(shops["a"].columns), tasks.tasks[0].inputs)
    rows = tasks.provenance["test"].rows
    np.testing.assert_array_equal(tasks.preparation.inputs(shops["c"].columns)[rows], tasks.test.inputs)
    assert tasks.preparation.label == "label"
    assert tasks.preparation.text_labels


def test_columns_may_stand_in_another_order():
    c = shop("c", 5)
    turned = Table(c.name, dict(reversed(c.columns.items())), c.row_name, c.provenance)
    a = shop("a", 0)
    assert built({"a": a, "c": c}).fingerprint == built({"a": a, "c": turned}).fingerprint


def test_other_columns_are_named_with_the_file():
    with pytest.raises(DataError, match=r"b\.csv: has 'size', unlike a\.csv; .* --drop size "):
        built({"a": shop("a", 0), "b": shop("b", 1, size=[1] * 20), "c": shop("c", 5)})
    with pytest.raises(DataError, match=r"b\.csv: lacks 'size' and has 'weight', unlike a\.csv"):
        built({"a": shop("a", 0, size=[1] * 20), "b": shop("b", 1, weight=[1] * 20), "c": shop("c", 5)})


def test_what_to_drop_is_every_column_that_some_table_lacks():
    tables = {"a": shop("a", 0, size=[1] * 20), "b": shop("b", 1, weight=[1] * 20), "c": shop("c", 5)}
    with pytest.raises(DataError, match=r"--drop size,weight \(drop=\['size', 'weight'\]\)"):
        built(tables)
    with pytest.raises(DataError, match=r"unlike a\.csv; rename columns$"):
        built({"a": table("a", age=[1], label=["no"]), "c": table("c", Age=[1], label=["no"])})


def test_a_misspelt_label_column_is_answered_with_the_nearest():
    with pytest.raises(
        DataError, match=r"did you mean 'bought'\? Name it with --label … \(label=…\), one of age, bought"
    ):
        built({"a": table("a", age=[1], bought=["no"]), "c": shop("c", 5)}, label="bougth")


def test_a_label_column_that_is_not_there_is_named():
    with pytest.raises(DataError, match=r"a\.csv: has no column 'label' to predict; .* age, bought"):
        built({"a": table("a", age=[1], bought=["no"]), "c": shop("c", 5)})


def test_a_fault_in_the_second_file_is_named_by_its_own_line():
    ages = [30.0] * 20
    ages[4] = float("nan")
    broken = table("b", age=ages, city=["Bern"] * 20, label=["no", "yes"] * 10)
    with pytest.raises(DataError, match=r"b\.csv line 6: column 'age' is empty"):
        built({"a": shop("a", 0), "b": broken, "c": shop("c", 5)})
    texts = ["30"] * 20
    texts[7] = "thirty"
    stray = table("b", age=texts, city=["Bern"] * 20, label=["no", "yes"] * 10)
    with pytest.raises(DataError, match=r"b\.csv line 9: column 'age' has 'thirty' among numbers"):
        built({"a": shop("a", 0), "b": stray, "c": shop("c", 5)})


def test_what_was_done_is_said():
    tasks = built({"a": shop("a", 0), "c": shop("c", 5, city=("Rome",))}, missing="mean")
    text = tasks.summary()
    assert "1 column of numbers, standardised by the source rows" in text
    assert "1 column of categories, one-hot: city (2)" in text
    assert "20 target rows have a 'city' that no source has" in text
    assert "the rows of every source keep their order" in text
    assert "empty numbers are replaced by the mean" in text


class TestBySource:
    def test_rows_are_told_apart_in_their_order(self):
        mixed = table("all", shop=["b", "a", "b", "a"], age=[1.0, 2.0, 3.0, 4.0])
        parts = by_source(mixed, "shop")
        assert list(parts) == ["b", "a"]
        assert parts["a"].columns["age"].tolist() == [2, 4]
        assert parts["a"].row_name(1) == "all.csv line 5"
        assert parts["a"].provenance.rows.tolist() == [1, 3]
        assert "shop" not in parts["a"].columns

    def test_a_row_from_nowhere_is_named(self):
        with pytest.raises(DataError, match=r"all\.csv line 3: 'shop' is empty"):
            by_source(table("all", shop=["a", ""], age=[1, 2]), "shop")

    def test_a_missing_column_is_named(self):
        with pytest.raises(
            DataError, match=r"all\.csv: has no column 'source' .* --source … \(source=…\), one of shop"
        ):
            by_source(table("all", shop=["a"], age=[1]), "source")

    def test_a_misspelt_column_is_answered_with_the_nearest(self):
        with pytest.raises(DataError, match="did you mean 'shop'"):
            by_source(table("all", shop=["a"], age=[1]), "sopp")


def columns(drop=(), **arrays):
    return columns_of(pa.table(arrays), "mine.csv", drop)


def test_names_are_asked_for_once_however_many_columns_there_are():
    """pyarrow makes a new list of all names whenever it is asked, so asking once a column takes quadratic time."""

    class Watched:
        asked = 0

        def __init__(self, table):
            self.table = table

        @property
        def column_names(self):
            self.asked += 1
            return self.table.column_names

        def __getitem__(self, name):
            return self.table[name]

    pa = pytest.importorskip("pyarrow")
    watched = Watched(pa.table({f"x{number}": [number] for number in range(50)}))
    assert len(columns_of(watched, "wide.csv")) == 50
    assert watched.asked == 1


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


@pytest.mark.parametrize(("cell", "kind"), [(datetime.date(2020, 1, 1), "dates or times"), ([1, 2], "list")])
def test_other_kinds_are_refused_unless_left_out(cell, kind):
    line = rf"mine\.csv: column 'a' contains {kind}.*; convert it to numbers or text, or .* --drop a "
    with pytest.raises(DataError, match=line):
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
