"""What each label is worth to the initial model, against fitting one row at a time; and plans made from that."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import make_own_label_tasks, make_regression, make_tasks
from metasched.errors import ConfigError
from metasched.learners import probe as probing
from metasched.learners.losses import objective_of, outputs
from metasched.learners.networks import Network, mlp
from metasched.planning import gittins_index

CONFIG = ms.AlgorithmOne(batch_size=3, inner_rate=0.3, steps_per_batch=5)
SMALL = mlp(3, (6,))


@pytest.fixture(scope="module")
def problem():
    tasks = make_tasks(sizes=(12, 20, 9), validation=40)
    network = mlp(3, hidden=(6,))
    weights = network.init(jax.random.key(0), jnp.zeros((1, 4)))

    def loss(weights, inputs, labels, task):
        del task
        return -jax.nn.log_softmax(network.apply(weights, inputs))[jnp.arange(len(labels)), labels].mean()

    def hits(weights):
        return network.apply(weights, tasks.validation.inputs).argmax(axis=1) == tasks.validation.labels

    return tasks, loss, hits, weights


def probe(problem, tasks=None):
    own, loss, hits, weights = problem
    return probing.prober(probing.InitialModel(loss, hits, None), 5, tasks or own)(weights, 0.5)


@pytest.fixture(scope="module")
def result(problem):
    return probe(problem)


def test_first_rows_are_the_first_of_each_label():
    tasks = ms.TaskSet.from_arrays(
        {"a": (np.eye(4), [2, 0, 2, 0]), "b": (np.eye(4)[:2], [1, 1])},
        validation=(np.eye(4) * 2, [0, 1, 2, 0]),
        test=(np.eye(4) * 3, [0, 1, 2, 0]),
    )
    assert probing.first_rows(tasks).tolist() == [[1, -1, 0], [-1, 0, -1]]


def test_one_batched_call_equals_fitting_one_at_a_time(problem, result):
    tasks, loss, hits, weights = problem
    slope = jax.jit(jax.grad(loss))
    for number, task in enumerate(tasks.tasks):
        for label in range(3):
            (rows,) = np.nonzero(task.labels == label)
            fitted = weights
            for _ in range(5):
                gradient = slope(fitted, task.inputs[rows[:1]], task.labels[rows[:1]], 0)
                fitted = jax.tree.map(lambda w, g: w - 0.5 * g, fitted, gradient)
            right = np.asarray(hits(fitted))
            assert result.accuracy[number, label] == pytest.approx(right.mean())
            for scored in range(3):
                share = right[tasks.validation.labels == scored].mean()
                assert result.by_class[number, label, scored] == pytest.approx(share)


def test_accuracy_is_the_mean_of_the_classes_weighted_by_their_rows(problem, result):
    shares = np.bincount(problem[0].validation.labels, minlength=3) / 40
    np.testing.assert_allclose(result.by_class @ shares, result.accuracy, atol=1e-12)


def test_a_label_that_never_occurs_is_worth_nothing(problem):
    tasks = problem[0]
    merged = tuple(replace(task, labels=np.where(task.labels == 1, 0, task.labels)) for task in tasks.tasks)
    result = probe(problem, replace(tasks, tasks=merged))
    assert not result.present[:, 1].any()
    assert np.all(result.accuracy[:, 1] == 0)
    assert np.all(result.by_class[:, 1] == 0)


def test_a_class_without_validation_rows_has_the_overall_accuracy(problem):
    tasks = problem[0]
    more = (*tasks.classes, "never seen")
    wider = replace(tasks, classes=more, tasks=tuple(replace(task, classes=more) for task in tasks.tasks))
    result = probe(problem, wider)
    np.testing.assert_array_equal(result.by_class[:, :, 3], result.accuracy)


class TestPlan:
    """``ms.plan``: the initial model of a network, probed."""

    def test_it_is_made_from_the_probe_of_the_initial_model(self, planned):
        tasks, model = planned.tasks, probing.initial_model(planned.tasks, SMALL, CONFIG)
        expected = probing.prober(model, 5, tasks)(model.start(0), 0.3)
        jax.tree.map(np.testing.assert_array_equal, planned.probe, expected)
        np.testing.assert_array_equal(
            planned.indices, gittins_index(planned.transitions, planned.probe.accuracy, planned.discount)
        )
        assert planned.discount == 0.9
        assert planned.batch_size == 1, "the rows of a mixed batch are chosen one by one"
        assert planned.coupled

    def test_with_batches_of_one_source_it_looks_a_batch_ahead(self, planned):
        plan = ms.plan(planned.tasks, SMALL, replace(CONFIG, batching="per_source"), discount=0.9)
        assert plan.batch_size == 3
        np.testing.assert_allclose(plan.transitions[0], np.linalg.matrix_power(planned.transitions[0], 3), atol=1e-12)

    def test_the_initial_model_is_the_one_that_training_starts_from(self, planned):
        config = ms.AlgorithmOne(batch_size=3, updates=1, batches_per_update=0)
        run = ms.train(planned.tasks, network=SMALL, learner=config)
        accuracy = run.records[0]["validation_accuracy"]
        no_step = ms.plan(planned.tasks, SMALL, ms.AlgorithmOne(batch_size=3, inner_rate=1e-12))
        np.testing.assert_allclose(no_step.probe.accuracy[no_step.probe.present], accuracy, atol=1e-6)

    def test_plans_of_other_seeds_and_rates_share_what_they_can_and_equal_plans_of_their_own(self, planned):
        make = probing.planner(planned.tasks, SMALL, CONFIG.resolve(planned.tasks), discount=0.9)
        for seed, rate in ((0, 0.3), (4, 0.05)):
            alone = ms.plan(planned.tasks, SMALL, replace(CONFIG, inner_rate=rate), discount=0.9, seed=seed)
            jax.tree.map(np.testing.assert_array_equal, make(seed, rate).probe, alone.probe)
        assert np.any(make(4, 0.05).probe.accuracy != planned.probe.accuracy)

    def test_labels_of_their_own_are_read_from_their_own_heads(self):
        tasks = make_own_label_tasks()
        network = mlp(12, (6,))
        plan = ms.plan(tasks, network, CONFIG)
        assert not plan.coupled
        assert plan.probe.by_class.shape == (2, 4, 3)
        assert plan.probe.present.tolist() == [[True] * 4, [True, True, False, False]]
        model = probing.initial_model(tasks, network, CONFIG)
        weights = model.start(0)
        objective = objective_of(tasks, network, CONFIG)
        for number, task in enumerate(tasks.tasks):
            x, y = task.inputs[:5], task.labels[:5]
            scores = jax.nn.log_softmax(outputs(objective, weights, x, number))
            expected = -scores[jnp.arange(5), y].mean()
            assert float(model.loss(weights, x, y, number)) == pytest.approx(float(expected), rel=1e-5)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"network": "rnn"}, "unknown network"),
            ({"learner": ms.AlgorithmOne(batch_size=99, batching="per_source")}, "batch_size is 99"),
            ({"method": "magic"}, "unknown method 'magic'"),
            ({"stride": "day"}, "stride is 'day'"),
        ],
    )
    def test_bad_options_are_named(self, options, message):
        with pytest.raises(ConfigError, match=message):
            ms.plan(make_tasks(), **{"network": SMALL, "learner": CONFIG, **options})


@pytest.fixture(scope="module")
def planned():
    return ms.plan(make_tasks(sizes=(40, 50, 30)), SMALL, CONFIG, discount=0.9)


@pytest.mark.parametrize("name", ["gittins", "mdp"])
def test_a_plan_from_the_initial_model_needs_labels(name):
    linear = Network(lambda key, x: {"w": jnp.zeros((x.shape[1], 2))}, lambda weights, x: x @ weights["w"])
    config = ms.AlgorithmOne(batch_size=10, updates=2)
    with pytest.raises(ConfigError, match="these tasks have numbers to predict; use a scheduler that learns"):
        ms.train(make_regression(), name, network=linear, learner=config, options={"refresh": 0})
