"""Files of reference models that are damaged, or made by somebody who means harm."""

import json

import numpy as np
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import MetaschedError, RunError
from metasched.references.mean import mean_of
from metasched.references.recipes import Recipe, fit_recipe
from resealed import change_arrays, reseal

RECIPES = [Recipe("majority", "target"), Recipe("linear", "target"), Recipe("forest", "target")]
RECIPES.append(Recipe("boosting", "pooled"))


@pytest.fixture(autouse=True)
def _scikit_learn():
    pytest.importorskip("sklearn")


@pytest.fixture
def save(tmp_path):
    def make(estimator, tasks=None):
        recipe = next(recipe for recipe in RECIPES if recipe.estimator == estimator)
        fit_recipe(recipe, tasks or make_tasks()).save(tmp_path)
        return tmp_path

    return make


def refused(folder, message):
    with pytest.raises(RunError, match=message) as caught:
        ms.load_model(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_file_that_is_missing_or_cut_short_is_refused(save, name):
    folder = save("forest")
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-40])
    refused(folder, "is damaged")
    (folder / name).unlink()
    refused(folder, "has no model" if name == "model.json" else "cannot read")


def test_a_kind_or_a_format_that_we_do_not_know_is_refused(save):
    folder = save("majority")
    path = folder / "model.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, "kind": "transformer"}))
    refused(folder, "unknown kind of model 'transformer'; install a newer metasched")
    path.write_text(json.dumps({**whole, "format": 2}))
    refused(folder, "was written by a newer metasched")
    path.write_text(json.dumps({**whole, "kind": ["reference"]}))
    refused(folder, "unknown kind of model")


@pytest.mark.parametrize(
    ("estimator", "change", "message"),
    [
        ("majority", lambda a: a.update(answer=a["answer"][:2]), "it has 2 outputs"),
        ("majority", lambda a: a.update(answer=a["answer"] * np.nan), "array 'answer' has a wrong type or value"),
        (
            "majority",
            lambda a: a.update(answer=a["answer"].astype(np.float32)),
            "array 'answer' has a wrong type or value",
        ),
        ("majority", lambda a: a.update(more=np.zeros(1)), "its arrays do not belong to any model"),
        ("linear", lambda a: a.update(weights=a["weights"].T.copy()), r"weights have shape \(3, 4\)"),
        ("linear", lambda a: a.update(bias=a["bias"][:2]), "weights have shape"),
        ("linear", lambda a: a.update(bias=np.zeros((3, 1))), "array 'bias' has a wrong type or value"),
        ("forest", lambda a: a["feature"].__setitem__(0, 4), "uses a feature that does not exist"),
        ("forest", lambda a: a["threshold"].__setitem__(0, np.inf), "array 'threshold' has a wrong type or value"),
        ("forest", lambda a: a["leaf"].__setitem__(0, -1), "a leaf refers to values that do not exist"),
        ("forest", lambda a: a.pop("leaf"), "its arrays do not belong to any model"),
        ("boosting", lambda a: a.update(start=np.zeros(10**6)), "its arrays do not belong to any model"),
        ("boosting", lambda a: a.update(columns=np.int32([0, 0, 1])), "classes are not those of the model"),
        ("boosting", lambda a: a.update(columns=np.int32([0, 1, 2**30])), "classes are not those of the model"),
        ("boosting", lambda a: a.update(columns=np.int32([0, 1, -(2**31)])), "classes are not those of the model"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(save, estimator, change, message):
    folder = save(estimator)
    change_arrays(folder, change)
    refused(folder, message)


def test_nodes_in_a_circle_are_refused(save):
    folder = save("forest")

    def change(arrays):
        # 1 tree of 7 nodes; node 1 is the first inner node, and its children would be nodes 1 and 2.
        arrays.update(
            feature=np.int32([-1, 0, 0, 0, -1, -1, -1]), threshold=np.zeros(3, np.float32), leaf=np.zeros(4, np.int32)
        )

    change_arrays(folder, change)
    refused(folder, "its own child")


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (make_tasks, lambda m: m.update(classes=[]), "has 0 classes"),
        (make_tasks, lambda m: m.update(classes=["a", "b", "c", "d"]), "is damaged"),
        (make_tasks, lambda m: m.update(variance=1.0), "has 3 classes"),
        (make_tasks, lambda m: m.update(shape=[5]), "is damaged"),
        (make_tasks, lambda m: m.update(shape=[2**31 - 1] * 60), "is damaged"),
        (make_tasks, lambda m: m.update(estimator="oracle"), "oracle"),
        (make_tasks, lambda m: m.update(rows="all"), "all"),
        (make_regression, lambda m: m.update(variance=0.0), "variance is not above 0"),
        (make_regression, lambda m: m.update(variance=-1.0), "variance is not above 0"),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(save, make, change, message):
    folder = save("linear", make())
    reseal(folder, change)
    refused(folder, message)


def mutated(content, random):
    """Some bytes replaced, doubled or cut out."""
    place, count = int(random.integers(len(content))), int(random.integers(1, 9))
    new = [random.bytes(count), content[place : place + count] * 2, b""][int(random.integers(3))]
    return content[:place] + new + content[place + count :]


STRANGE = [0, 1, -1, 2, 7, 2**31, 1e300, -0.5, "", "forest", None, True, [], [1], {}, ["c0"] * 3]
EXTREME = [0, -1, 1, 2, 3, 100, 2**31 - 1, -(2**31)]


def strange_model(model, random):
    """One value of a description, at any depth, replaced by something else."""
    holder, key = model, str(random.choice(sorted(model)))
    while isinstance(holder[key], list | dict) and holder[key] and random.integers(2):
        holder = holder[key]
        key = str(random.choice(sorted(holder))) if isinstance(holder, dict) else int(random.integers(len(holder)))
    holder[key] = STRANGE[int(random.integers(len(STRANGE)))]


def strange_arrays(arrays, random):
    """One array changed in a value, in length, in shape or in type."""
    name = str(random.choice(sorted(arrays)))
    array = arrays[name]
    kind = int(random.integers(5))
    if kind < 2 and array.size:
        array.reshape(-1)[int(random.integers(array.size))] = EXTREME[int(random.integers(len(EXTREME)))]
    elif kind == 2:
        arrays[name] = array[: int(random.integers(len(array) + 1))].copy()
    elif kind == 3:
        arrays[name] = np.concatenate([array, array])
    else:
        arrays[name] = array.astype([np.int64, np.float16, np.int32, np.float32][int(random.integers(4))])


def folders(tmp_path):
    """A folder with a model of every kind, and rows to predict."""
    tasks = make_tasks()
    for recipe in RECIPES:
        fit_recipe(recipe, tasks).save(tmp_path / recipe.estimator)
    mean_of([fit_recipe(recipe, tasks) for recipe in RECIPES[:2]]).save(tmp_path / "mean")
    return tasks.test.inputs, sorted(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("seed", range(3))
def test_no_change_of_a_byte_gives_other_predictions_or_another_error(tmp_path, seed):
    rows, models = folders(tmp_path)
    random, lines = np.random.default_rng(seed), []
    for folder in models:
        expected = ms.load_model(folder).predict_proba(rows)
        files = sorted(path for path in folder.rglob("model.*"))
        for _ in range(25):
            path = files[int(random.integers(len(files)))]
            content = path.read_bytes()
            path.write_bytes(mutated(content, random))
            try:
                np.testing.assert_array_equal(ms.load_model(folder).predict_proba(rows), expected)
            except MetaschedError as error:
                lines.append(str(error))
            path.write_bytes(content)
    assert lines
    assert not any("\n" in line for line in lines)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("seed", range(3))
def test_files_with_right_checksums_and_wrong_content_are_read_or_refused_in_one_line(tmp_path, seed):
    rows, models = folders(tmp_path)
    random, lines, accepted = np.random.default_rng(seed), [], 0
    for folder in models:
        files = {path: path.read_bytes() for path in folder.glob("model.*")}
        for _ in range(25):
            if len(files) == 2 and random.integers(2):
                change_arrays(folder, lambda arrays: strange_arrays(arrays, random))
            else:
                reseal(folder, lambda model: strange_model(model, random))
            try:
                found = ms.load_model(folder).predict_proba(rows)
                assert len(found) == len(rows)
                accepted += 1
            except MetaschedError as error:
                lines.append(str(error))
            for path, content in files.items():
                path.write_bytes(content)
    assert accepted  # a name of the data may be anything
    assert lines
    assert not any("\n" in line for line in lines)
