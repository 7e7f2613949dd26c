"""A model is what its run measured, in memory, on disk and read back."""

import hashlib
import json
from dataclasses import replace

import jax
import numpy as np
import pytest

import metasched as ms
from helpers import make_own_label_tasks, make_regression, make_tasks
from metasched.errors import ConfigError, DataError, RunError
from metasched.learners.networks import cnn, mlp
from metasched.learners.settings import LEARNERS
from metasched.tasks import Preparation


def train(tasks, network, learner="meta", settings=None, **options):
    known = {"batch_size": 4, "updates": 3, "batches_per_update": 3, **(settings or {})}
    return ms.train(tasks, "uniform", network=network, learner=LEARNERS[learner](**known), **options)


def images(**options):
    return make_tasks(shape=(6, 5, 3), **options)


CASES = {
    "mlp": (make_tasks, lambda: mlp(3, (8,)), {}),
    "cnn": (images, lambda: cnn(3, 4, 2), {}),
    "own heads": (make_own_label_tasks, lambda: mlp(12, (8,)), {}),
    "shared head of other label sets": (make_own_label_tasks, lambda: mlp(4, (8,)), {"heads": "shared"}),
    "bfloat16": (make_tasks, lambda: mlp(3, (8,)), {"precision": "bfloat16"}),
    "more rows than are read at once": (lambda: make_tasks(test=1100), lambda: mlp(3, (8,)), {}),
}


@pytest.fixture(scope="module", params=["meta", "joint"])
def learner(request):
    return request.param


@pytest.mark.parametrize("case", CASES)
def test_predictions_of_the_test_rows_are_the_reported_accuracy(case, learner, tmp_path):
    make, network, settings = CASES[case]
    tasks = make()
    run = train(tasks, network(), learner, settings, seeds=(0, 1))
    for seed, final in run.final.items():
        model = run.model(seed)
        model.save(tmp_path / str(seed))
        for each in (model, ms.load_model(tmp_path / str(seed))):
            names = np.array(tasks.classes)[tasks.test.labels]
            predicted = each.predict(tasks.test.inputs)
            assert predicted.dtype.kind == "U"
            assert np.mean(predicted == names) == final["test_accuracy"]
            assert each.score(tasks.test.inputs, names) == final["test_accuracy"]
            assert each.score(tasks.test.inputs, tasks.test.labels) == final["test_accuracy"]


def test_balanced_accuracy_is_the_score_of_a_model_that_was_measured_so(learner):
    tasks = make_tasks()
    run = train(tasks, mlp(3, (8,)), learner, {"balanced_accuracy": True})
    predicted = run.model().predict(tasks.test.inputs)
    right = predicted == np.array(tasks.classes)[tasks.test.labels]
    by_class = [right[tasks.test.labels == label].mean() for label in range(3)]
    assert run.model().score(tasks.test.inputs, tasks.test.labels) == run.final[0]["test_accuracy"]
    assert run.final[0]["test_accuracy"] == pytest.approx(np.mean(by_class), rel=1e-12)


@pytest.mark.parametrize("numbers", [1, 2])
def test_numbers_are_predicted_in_regression(numbers, learner, tmp_path):
    tasks = make_regression(numbers=numbers)
    run = train(tasks, mlp(numbers, (8,)), learner)
    run.model().save(tmp_path)
    model = ms.load_model(tmp_path)
    predicted = model.predict(tasks.test.inputs)
    assert predicted.shape == ((30,) if numbers == 1 else (30, 2))
    errors = ((predicted.reshape(30, -1) - tasks.test.targets) ** 2).sum(axis=1)
    expected = np.mean(1 - errors / np.var(tasks.validation.targets, axis=0).sum())
    assert run.final[0]["test_accuracy"] == pytest.approx(expected, rel=1e-5)
    assert model.score(tasks.test.inputs, tasks.test.targets) == pytest.approx(run.final[0]["test_accuracy"], rel=1e-6)
    assert model.classes == ()
    with pytest.raises(ConfigError, match="has no class probabilities; call predict"):
        model.predict_proba(tasks.test.inputs)


@pytest.fixture(scope="module")
def trained():
    tasks = make_own_label_tasks()
    return tasks, train(tasks, mlp(12, (8,))).model()


class TestPredict:
    def test_probabilities_are_the_softmax_of_the_targets_head_by_hand(self, trained):
        tasks, model = trained
        values = tasks.test.inputs.astype(np.float64)
        first, last = ({name: np.asarray(part, np.float64) for name, part in layer.items()} for layer in model.weights)
        logits = np.maximum(values @ first["w"] + first["b"], 0) @ last["w"] + last["b"]
        chances = np.exp(logits[:, 8:11])  # heads of width 4: two sources, then the target with 3 classes
        found = model.predict_proba(tasks.test.inputs)
        assert model.classes == ("x", "y", "z")
        np.testing.assert_allclose(found, chances / chances.sum(axis=1, keepdims=True), rtol=1e-4)
        assert model.predict(tasks.test.inputs).tolist() == [model.classes[row] for row in chances.argmax(axis=1)]

    def test_lists_and_doubles_are_read_like_float32(self, trained):
        tasks, model = trained
        expected = model.predict(tasks.test.inputs).tolist()
        assert model.predict(tasks.test.inputs.astype(np.float64)).tolist() == expected
        assert model.predict(tasks.test.inputs.tolist()).tolist() == expected

    def test_bytes_are_pixels_as_in_training(self):
        random = np.random.default_rng(0)
        rows = {"a": (random.integers(0, 256, (20, 6, 6)).astype(np.uint8), np.arange(20) % 2)}
        target = [(random.integers(0, 256, (8, 6, 6)).astype(np.uint8), np.arange(8) % 2) for _ in range(2)]
        tasks = ms.TaskSet.from_arrays(rows, validation=target[0], test=target[1])
        model = train(tasks, mlp(2, (8,))).model()
        np.testing.assert_array_equal(model.predict_proba(target[1][0]), model.predict_proba(tasks.test.inputs))

    @pytest.mark.parametrize(
        ("inputs", "message"),
        [
            (np.zeros((3, 5)), r"inputs have shape \(3, 5\), but the model reads \(rows, 4\)"),
            (np.zeros(4), r"inputs have shape \(4,\), but the model reads \(rows, 4\)"),
            (np.zeros((0, 4)), "no rows"),
            ([[0, 0, 0, 0], [0, np.nan, 0, 0]], "row 2 contains NaN"),
            ([["a", "b", "c", "d"]], "give numbers"),
            ({"a": [1.0]}, "give numbers"),
        ],
    )
    def test_rows_that_do_not_fit_are_refused(self, trained, inputs, message):
        with pytest.raises(DataError, match=message):
            trained[1].predict(inputs)

    def test_answers_that_do_not_fit_are_refused(self, trained):
        inputs = np.zeros((2, 4))
        with pytest.raises(DataError, match="row 2 is labelled 'p', which is not a class of the model"):
            trained[1].score(inputs, ["x", "p"])
        with pytest.raises(DataError, match="row 1 is labelled '3'"):
            trained[1].score(inputs, [3, 0])
        with pytest.raises(DataError, match="2 rows but 1 answers"):
            trained[1].score(inputs, ["x"])

    def test_columns_of_a_table_go_through_the_preparation_of_training(self, tmp_path):
        columns = {"age": [20.0, 40.0, 30.0, 70.0], "sex": ["f", "m", "m", "f"]}
        prepared = Preparation.fit(columns, label="ill")
        tasks = make_tasks(shape=(3,))
        model = train(replace(tasks, preparation=prepared), mlp(3, (8,))).model()
        model.save(tmp_path)
        expected = model.predict_proba(prepared.inputs(columns))
        mixed = {"sex": columns["sex"], "name": list("abcd"), "age": columns["age"]}
        np.testing.assert_array_equal(ms.load_model(tmp_path).predict_proba(mixed), expected)
        with pytest.raises(DataError, match="no column 'age'"):
            model.predict({"sex": ["f"]})
        pandas = pytest.importorskip("pandas")
        np.testing.assert_array_equal(model.predict_proba(pandas.DataFrame(mixed)), expected)


def own_network():
    """A linear network with a scale that is not trained, as nobody but its author can rebuild it."""
    plain = mlp(3, ())
    return plain._replace(apply=lambda weights, inputs: 2 * plain.apply(weights, inputs))


class TestFiles:
    @pytest.fixture
    def saved(self, trained, tmp_path):
        trained[1].save(tmp_path / "m")
        return tmp_path / "m"

    def test_the_files_say_what_the_model_is(self, saved):
        assert sorted(path.name for path in saved.iterdir()) == ["model.json", "model.safetensors"]
        told = json.loads((saved / "model.json").read_text())
        assert told["format"] == 1
        assert told["model"]["network"] == {"name": "mlp", "outputs": 12, "hidden": [8]}
        assert told["model"]["classes"] == ["x", "y", "z"]
        assert told["model"]["shape"] == [4]

    def test_weights_come_back_bit_for_bit(self, trained, saved):
        for found, expected in zip(
            jax.tree.leaves(ms.load_model(saved).weights), jax.tree.leaves(trained[1].weights), strict=True
        ):
            assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()

    @pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
    def test_a_changed_byte_is_noticed_wherever_it_is(self, saved, name):
        path = saved / name
        whole = path.read_bytes()
        for place in range(0, len(whole), 7):
            if whole[place : place + 1].isspace():
                continue
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(RunError, match=r"model\.\w+: (is damaged|was written by a newer)"):
                ms.load_model(saved)

    def test_a_file_cut_short_or_grown_or_gone_is_one_line(self, saved):
        path = saved / "model.safetensors"
        whole = path.read_bytes()
        for content in (whole[:-1], whole + b"0", b""):
            path.write_bytes(content)
            with pytest.raises(RunError, match=r"model\.safetensors: is damaged"):
                ms.load_model(saved)
        path.unlink()
        with pytest.raises(RunError, match=r"model\.safetensors: cannot read"):
            ms.load_model(saved)

    def test_a_huge_file_is_refused_unread(self, saved):
        with (saved / "model.safetensors").open("r+b") as stream:
            stream.truncate(2**40)
        with pytest.raises(RunError, match=r"776 bytes, but such a file has at most [\d,]+; copy the folder"):
            ms.load_model(saved)

    def test_a_newer_format_says_upgrade(self, saved):
        path = saved / "model.json"
        path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
        with pytest.raises(RunError, match=r"newer metasched .* install a newer metasched"):
            ms.load_model(saved)

    def test_a_folder_without_a_model_says_what_to_give(self, tmp_path):
        with pytest.raises(RunError, match="has no model"):
            ms.load_model(tmp_path)

    def test_a_file_in_the_way_is_one_line(self, trained, tmp_path):
        (tmp_path / "a").write_text("")
        with pytest.raises(RunError, match="cannot write"):
            trained[1].save(tmp_path / "a")

    def test_ones_own_network_must_be_given_again(self, tmp_path):
        tasks = make_tasks()
        run = train(tasks, own_network())
        run.model().save(tmp_path)
        with pytest.raises(RunError, match=r"network made in Python; .*network="):
            ms.load_model(tmp_path)
        model = ms.load_model(tmp_path, network=own_network())
        assert model.score(tasks.test.inputs, tasks.test.labels) == run.final[0]["test_accuracy"]
        with pytest.raises(RunError, match="it belongs to another network"):
            ms.load_model(tmp_path, network=mlp(3, (8,)))
        with pytest.raises(RunError, match=r"the network returns outputs \(1, 4\), but the model needs \(1, 3\)"):
            ms.load_model(tmp_path, network=mlp(4))


@pytest.mark.filterwarnings("ignore")  # of what the converter imports
@pytest.mark.parametrize("case", ["cnn", "own heads", "regression"])
def test_onnx_says_what_the_model_says(case, tmp_path):
    pytest.importorskip("jax2onnx")
    runtime = pytest.importorskip("onnxruntime")
    make, network, _ = {**CASES, "regression": (make_regression, lambda: mlp(2, (8,)), {})}[case]
    tasks = make()
    model = train(tasks, network()).model()
    model.save_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (expected,) = session.run(None, {session.get_inputs()[0].name: tasks.test.inputs})
    found = model.predict(tasks.test.inputs) if case == "regression" else model.predict_proba(tasks.test.inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_a_model_of_numbers_from_before_targets_were_standardised_predicts_as_it_did(tmp_path):
    """Its file lacks three fields, and its checksum is that of the others."""
    run = ms.train(make_regression(), "uniform", learner=ms.Joint(batch_size=5, updates=1))
    model = run.model()
    model.save(tmp_path)
    content = json.loads((tmp_path / "model.json").read_text())
    for name in ("metric", "centre", "scale"):
        del content["model"][name]
    plain = json.dumps(content["model"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    content["model_sha256"] = hashlib.sha256(plain.encode()).hexdigest()
    (tmp_path / "model.json").write_text(json.dumps(content))
    earlier, rows = ms.load_model(tmp_path), make_regression().test
    said = np.asarray(model.network.apply(model.weights, rows.inputs))
    np.testing.assert_allclose(earlier.predict(rows.inputs), said, rtol=1e-6)
    error = ((said - rows.targets) ** 2).sum(axis=1).mean() / model.about.variance
    assert earlier.score(rows.inputs, rows.targets) == pytest.approx(1 - error, rel=1e-5)
    wanted = model.about.centre + np.array(model.about.scale) * said
    np.testing.assert_allclose(model.predict(rows.inputs), wanted, rtol=1e-5, atol=1e-5)
