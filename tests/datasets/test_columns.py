import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError, DataError

pytest.importorskip("pyarrow")
HEAD = "age,city,bought"


def lines(seed, count=20):
    random = np.random.default_rng(seed)
    return [
        f"{age:.3f},{city},{'yes' if age > 40 else 'no'}"
        for age, city in zip(random.normal(40, 9, count), random.choice(["Bern", "Köln"], count), strict=True)
    ]


@pytest.fixture
def shops(tmp_path):
    folder = tmp_path / "shops"
    folder.mkdir()
    for number in range(1, 4):
        (folder / f"shop{number}.csv").write_text("\n".join([HEAD, *lines(number)]))
    return folder


def load(path, **options):
    return ms.datasets.load(path, **{"target": "shop3", "label": "bought", **options})


def test_a_folder_has_one_source_a_file(shops):
    tasks = load(shops, target_labels=8)
    assert tasks.name == "shops"
    assert [task.name for task in tasks.tasks] == ["shop1", "shop2"]
    assert tasks.classes == ("no", "yes")
    assert (len(tasks.validation.labels), len(tasks.test.labels)) == (8, 12)
    said = [line.split(",")[2] for line in lines(1)]
    assert [tasks.classes[label] for label in tasks.tasks[0].labels] == said


def test_one_file_with_a_source_column_is_the_same(shops, tmp_path):
    rows = [f"{line},shop{number}" for number in range(1, 4) for line in lines(number)]
    (tmp_path / "all.csv").write_text("\n".join([f"{HEAD},domain", *rows]))
    assert load(tmp_path / "all.csv", source="domain").fingerprint == load(shops).fingerprint


def test_sources_named_by_numbers_are_named_by_text(shops, tmp_path):
    rows = [f"{line},{number}" for number in range(1, 4) for line in lines(number)]
    (tmp_path / "all.csv").write_text("\n".join([f"{HEAD},source", *rows]))
    assert load(tmp_path / "all.csv", target=3).fingerprint != load(shops).fingerprint
    assert [task.name for task in load(tmp_path / "all.csv", target=3).tasks] == ["1", "2"]


def test_parquet_files_are_the_same(shops):
    csv, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    before = load(shops).fingerprint
    parquet.write_table(csv.read_csv(shops / "shop2.csv"), shops / "shop2.parquet")
    (shops / "shop2.csv").unlink()
    assert load(shops).fingerprint == before


def test_files_named_validation_and_test_are_the_target(shops):
    (shops / "shop3.csv").rename(shops / "test.csv")
    (shops / "validation.csv").write_text("\n".join([HEAD, *lines(9)]))
    tasks = load(shops, target=None)
    assert (len(tasks.validation.labels), len(tasks.test.labels)) == (20, 20)


def test_the_recipe_finds_the_same_rows_and_the_fingerprint_a_changed_file(shops):
    tasks = load(shops, target_labels=8, seed=4, categorical=["city"])
    again = ms.datasets.load(tasks.recipe["set"], **tasks.recipe["options"])
    assert again.fingerprint == tasks.fingerprint
    assert again.preparation == tasks.preparation
    assert set(tasks.provenance["test"].files) == {"shop3.csv"}
    text = (shops / "shop1.csv").read_text()
    (shops / "shop1.csv").write_text(text.replace("Bern", "Köln", 1))
    assert load(shops, target_labels=8, seed=4).fingerprint != tasks.fingerprint


def test_label_and_columns_are_chosen_by_name(shops):
    tasks = load(shops, label="city", drop="bought")
    assert tasks.classes == ("Bern", "Köln")
    assert tasks.shape == (1,)


def test_fractions_to_predict_make_a_regression(shops):
    tasks = load(shops, label="age", bins=4)
    assert tasks.target_size == 1
    assert len(tasks.classes) == 4
    assert "so numbers are predicted" in tasks.summary()
    np.testing.assert_allclose(tasks.tasks[0].targets[0, 0], float(lines(1)[0].split(",")[0]), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("shop2.csv", f"{HEAD}\n40,Bern,no\n41,Bern\n", r"shop2\.csv line 3: has 2 cells, the first line names 3"),
        (
            "shop2.csv",
            "age,town,bought\n40,Bern,no\n",
            r"shop2\.csv: lacks 'city' and has 'town' besides, unlike .*shop1",
        ),
        ("shop2.csv", f"{HEAD}\n40,Bern,no\n,Bern,yes\n", r"shop2\.csv line 3: column 'age' is empty"),
        ("shop3.csv", f"{HEAD}\n40,Bern,no\n41,,yes\n", r"shop3\.csv line 3: column 'city' is empty"),
        ("shop2.csv", f"{HEAD}\n40,Bern,no\n41,Bern,\n", r"shop2\.csv line 3: 'bought' is empty"),
        ("shop2.csv", f"{HEAD};\n", r"shop2\.csv: has no rows"),
        ("shop1.tsv", "a\tb\n1\t2\n", r"shop1\.tsv: 'shop1' is there twice"),
    ],
)
def test_a_fault_is_named_by_file_and_line(shops, name, content, message):
    (shops / name).write_text(content)
    with pytest.raises(DataError, match=message):
        load(shops)


def test_a_label_that_only_test_rows_have_is_named_by_file_and_line(shops):
    (shops / "shop3.csv").rename(shops / "test.csv")
    (shops / "test.csv").write_text(f"{HEAD}\n40,Bern,no\n41,Bern,perhaps\n")
    (shops / "validation.csv").write_text("\n".join([HEAD, *lines(9)]))
    with pytest.raises(DataError, match=r"test\.csv line 3: bought 'perhaps' occurs only in test rows"):
        load(shops, target=None)


def test_files_larger_than_the_limit_together_are_refused_unread(shops):
    with (shops / "big.csv").open("wb") as stream:
        stream.truncate(2_000_000_000)
    with pytest.raises(
        DataError, match=r"big\.csv: 2,000,\d{3},\d{3} bytes to read, more than the limit of 1,073,741,824"
    ):
        load(shops)


def test_a_column_that_only_some_files_have_may_be_dropped(shops):
    before = load(shops).fingerprint
    rows = (shops / "shop2.csv").read_text().splitlines()
    (shops / "shop2.csv").write_text("\n".join(f"{row},{number or 'id'}" for number, row in enumerate(rows)))
    assert load(shops, drop="id").fingerprint == before


def test_options_that_do_not_fit_are_refused(shops):
    with pytest.raises(ConfigError, match="'bought' is the column to predict"):
        load(shops, drop="bought,city")
    with pytest.raises(ConfigError, match=r"unknown option 'lable' of data set .*; did you mean 'label'"):
        load(shops, lable="bought")
    with pytest.raises(ConfigError, match="unknown column to drop 'citty'; did you mean 'city'"):
        load(shops, drop=["citty"])
    with pytest.raises(ConfigError, match="unknown target 'shop4'; did you mean"):
        load(shops, target="shop4")
