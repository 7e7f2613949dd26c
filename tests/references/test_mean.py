"""The mean of models of any kinds."""

import shutil

import numpy as np
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import ConfigError, DataError, RunError
from metasched.learners.networks import mlp
from metasched.references.mean import mean_of
from metasched.references.recipes import Recipe, fit_recipe
from resealed import digest, reseal

LINEAR, MAJORITY = Recipe("linear", "pooled"), Recipe("majority", "target")


def train(tasks, network="auto", seeds=(0, 1)):
    learner = ms.Joint(batch_size=4, updates=2)
    run = ms.train(tasks, "uniform", learner=learner, network=network, seeds=seeds)
    return [run.model(seed) for seed in seeds]


def test_the_mean_of_networks_and_references_is_that_of_their_probabilities(tmp_path):
    tasks = make_tasks()
    members = [*train(tasks), fit_recipe(LINEAR, tasks)]
    model = mean_of(members)
    expected = np.mean([member.predict_proba(tasks.test.inputs) for member in members], axis=0)
    np.testing.assert_allclose(model.predict_proba(tasks.test.inputs), expected, atol=1e-6)
    assert model.predict(tasks.test.inputs).tolist() == [tasks.classes[row] for row in expected.argmax(axis=1)]
    model.save(tmp_path)
    again = ms.load_model(tmp_path)
    assert again.title == "the mean of 3 models of arrays"
    assert [type(member) for member in again.members] == [type(member) for member in members]
    np.testing.assert_array_equal(again.predict_proba(tasks.test.inputs), model.predict_proba(tasks.test.inputs))
    assert again.score(*tasks.test) == model.score(*tasks.test)


def test_weights_count_as_shares():
    tasks = make_tasks()
    members = [fit_recipe(LINEAR, tasks), fit_recipe(MAJORITY, tasks)]
    first, second = (member.predict_proba(tasks.test.inputs) for member in members)
    found = mean_of(members, [6, 2])
    assert found.weights == (0.75, 0.25)
    np.testing.assert_allclose(found.predict_proba(tasks.test.inputs), 0.75 * first + 0.25 * second, atol=1e-6)


def test_in_regression_numbers_and_units_are_averaged():
    tasks = make_regression(numbers=1)
    other = tasks.redrawn(1)
    members = [fit_recipe(Recipe("linear", "target"), each) for each in (tasks, other)]
    model = mean_of(members)
    expected = np.mean([member.predict(tasks.test.inputs) for member in members], axis=0)
    np.testing.assert_allclose(model.predict(tasks.test.inputs), expected, rtol=1e-6)
    assert model.about.variance == pytest.approx(np.mean([member.about.variance for member in members]))
    assert model.score(tasks.test.inputs, tasks.test.targets) > 0.5


def test_networks_made_in_python_are_given_to_a_mean_of_them(tmp_path):
    tasks = make_tasks()
    made = mlp(3, (5,))
    network = ms.Network(made.init, lambda weights, inputs: made.apply(weights, inputs))
    mean_of(train(tasks, network)).save(tmp_path)
    with pytest.raises(RunError, match="trained with a network made in Python"):
        ms.load_model(tmp_path)
    assert ms.load_model(tmp_path, network).predict(tasks.test.inputs).shape == (30,)


def test_models_that_do_not_belong_together_are_refused():
    tasks = make_tasks()
    one = fit_recipe(MAJORITY, tasks)
    for other in (make_tasks(classes=4), make_tasks(shape=(5,)), make_regression()):
        with pytest.raises(ConfigError, match="same inputs and predict the same classes"):
            mean_of([one, fit_recipe(MAJORITY, other)])
    with pytest.raises(ConfigError, match="mean of means"):
        mean_of([one, mean_of([one])])
    with pytest.raises(ConfigError, match="1 to 1000 models, not 0"):
        mean_of([])
    with pytest.raises(ConfigError, match="1 models but 2 weights"):
        mean_of([one], [1, 2])
    for weights in ([0, 0], [1, -1], [1, float("nan")], [1, float("inf")], [1e308, 1e308]):
        with pytest.raises(ConfigError, match="weights of models"):
            mean_of([one, one], weights)
    numbers = [fit_recipe(MAJORITY, make_regression(numbers=count)) for count in (1, 2)]
    with pytest.raises(DataError, match=r"predict arrays of shape \(30, 1\) and \(30, 2\)"):
        mean_of(numbers).predict(tasks.test.inputs)


class TestReading:
    @pytest.fixture
    def folder(self, tmp_path):
        tasks = make_tasks()
        mean_of([fit_recipe(LINEAR, tasks), fit_recipe(MAJORITY, tasks)]).save(tmp_path / "mean")
        return tmp_path / "mean"

    def test_another_model_in_the_place_of_a_member_is_noticed(self, folder):
        fit_recipe(LINEAR, make_tasks(seed=9)).save(folder / "member-2")
        with pytest.raises(RunError, match="member-2: is not the model that the mean was made from"):
            ms.load_model(folder)

    def test_a_member_that_is_gone_is_noticed(self, folder):
        shutil.rmtree(folder / "member-1")
        with pytest.raises(RunError, match="member-1"):
            ms.load_model(folder)

    def test_damage_inside_a_member_is_noticed(self, folder):
        path = folder / "member-1" / "model.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        with pytest.raises(RunError, match="its SHA-256 is not the one"):
            ms.load_model(folder)

    def test_a_mean_inside_a_mean_is_refused(self, folder, tmp_path):
        inner = tmp_path / "outer" / "member-1"
        mean_of([fit_recipe(MAJORITY, make_tasks())]).save(tmp_path / "outer")
        shutil.rmtree(inner)
        shutil.copytree(folder, inner)
        reseal(tmp_path / "outer", lambda model: model["members"][0].update(sha256=digest(inner / "model.json")))
        with pytest.raises(RunError, match="is a mean inside a mean"):
            ms.load_model(tmp_path / "outer")

    @pytest.mark.parametrize("weights", [(0.9, 0.9), (2.0, -1.0)])
    def test_weights_that_are_no_shares_are_refused(self, folder, weights):
        def change(model):
            for share, weight in zip(model["members"], weights, strict=True):
                share["weight"] = weight

        reseal(folder, change)
        with pytest.raises(RunError, match="weights do not sum to 1"):
            ms.load_model(folder)

    def test_members_of_other_classes_than_the_mean_are_refused(self, folder):
        reseal(folder, lambda model: model.update(classes=["a", "b", "c"]))
        with pytest.raises(RunError, match="member-1: reads other inputs or predicts other classes"):
            ms.load_model(folder)
