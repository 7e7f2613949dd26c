import numpy as np
import pytest

import metasched as ms
from metasched.errors import DataError
from metasched.tasks import Provenance
from metasched.tasks.assemble import Goal
from metasched.tasks.table import Table, by_source, from_tables


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
    return from_tables(ms.TaskSet, "shops", tables, Goal(target=target, label=label), **options)


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
    turned = Table(c.name, dict(reversed(c.columns.items())), c.place, c.provenance)
    a = shop("a", 0)
    assert built({"a": a, "c": c}).fingerprint == built({"a": a, "c": turned}).fingerprint


def test_other_columns_are_named_with_the_file():
    with pytest.raises(DataError, match=r"b\.csv: has 'size' besides, unlike a\.csv; .* drop=size"):
        built({"a": shop("a", 0), "b": shop("b", 1, size=[1] * 20), "c": shop("c", 5)})
    with pytest.raises(DataError, match=r"b\.csv: lacks 'size' and has 'weight' besides, unlike a\.csv"):
        built({"a": shop("a", 0, size=[1] * 20), "b": shop("b", 1, weight=[1] * 20), "c": shop("c", 5)})


def test_what_to_drop_is_every_column_that_some_table_lacks():
    tables = {"a": shop("a", 0, size=[1] * 20), "b": shop("b", 1, weight=[1] * 20), "c": shop("c", 5)}
    with pytest.raises(DataError, match=r"--data drop=size,weight \(drop=\['size', 'weight'\]\)"):
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
    assert "empty numbers are the mean" in text


class TestBySource:
    def test_rows_are_told_apart_in_their_order(self):
        mixed = table("all", shop=["b", "a", "b", "a"], age=[1.0, 2.0, 3.0, 4.0])
        parts = by_source(mixed, "shop")
        assert list(parts) == ["b", "a"]
        assert parts["a"].columns["age"].tolist() == [2, 4]
        assert parts["a"].place(1) == "all.csv line 5"
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
