from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from metasched.meta.networks import mlp

import metasched as ms
from helpers import make_tasks
from metasched.planning import rewards


@pytest.fixture
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
    return rewards.probe(loss, hits, weights, rate=0.5, steps=5, tasks=tasks or own)


def test_first_rows_are_the_first_of_each_label():
    tasks = ms.TaskSet.from_arrays(
        {"a": (np.eye(4), [2, 0, 2, 0]), "b": (np.eye(4)[:2], [1, 1])},
        validation=(np.eye(4) * 2, [0, 1, 2, 0]),
        test=(np.eye(4) * 3, [0, 1, 2, 0]),
    )
    assert rewards.first_rows(tasks).tolist() == [[1, -1, 0], [-1, 0, -1]]


def test_one_batched_call_equals_fitting_one_at_a_time(problem):
    tasks, loss, hits, weights = problem
    result = probe(problem)
    for number, task in enumerate(tasks.tasks):
        for label in range(3):
            (rows,) = np.nonzero(task.labels == label)
            fitted = weights
            for _ in range(5):
                gradient = jax.grad(loss)(fitted, task.inputs[rows[:1]], task.labels[rows[:1]], 0)
                fitted = jax.tree.map(lambda w, g: w - 0.5 * g, fitted, gradient)
            right = np.asarray(hits(fitted))
            assert result.accuracy[number, label] == pytest.approx(right.mean())
            for scored in range(3):
                share = right[tasks.validation.labels == scored].mean()
                assert result.by_class[number, label, scored] == pytest.approx(share)


def test_accuracy_is_the_mean_of_the_classes_weighted_by_their_rows(problem):
    result = probe(problem)
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


class TestStationarity:
    def test_errors_that_fall_like_a_power_give_that_power(self):
        time = np.arange(1, 121)[:, None]
        errors = 0.9 * time ** -np.array([0.5, 0.25, 1.0])
        result = rewards.summarise_errors(errors[None])
        np.testing.assert_allclose(result.exponent, [[0.5, 0.25, 1.0]], atol=1e-12)
        assert result.variation[0, 0] == pytest.approx(0, abs=1e-12)
        assert result.variation[0, 1] > 0.1

    def test_errors_of_zero_are_left_out_of_the_fit(self):
        errors = 0.9 * np.arange(1, 121.0)[:, None] ** -0.5
        errors[50:60] = 0
        assert rewards.summarise_errors(errors[None]).exponent[0, 0] == pytest.approx(0.5, abs=1e-9)

    def test_a_class_that_is_always_right_or_never_seen_says_nothing(self):
        errors = np.column_stack([np.zeros(20), np.full(20, np.nan)])
        result = rewards.summarise_errors(errors[None])
        assert np.isnan(result.exponent).all()
        assert result.variation[0, 0] == 0
        assert np.isnan(result.variation[0, 1])

    def test_following_a_task_is_plain_sgd(self, problem):
        tasks, loss, hits, weights = problem
        result = rewards.stationarity(loss, hits, weights, 0.5, tasks, steps=7, batch_size=2)
        assert result.errors.shape == (3, 7, 3)
        task, fitted = tasks.tasks[2], weights
        for step in range(7):
            rows = [(2 * step) % 9, (2 * step + 1) % 9]
            gradient = jax.grad(loss)(fitted, task.inputs[rows], task.labels[rows], 2)
            fitted = jax.tree.map(lambda w, g: w - 0.5 * g, fitted, gradient)
        right = np.asarray(hits(fitted))
        expected = [1 - right[tasks.validation.labels == label].mean() for label in range(3)]
        np.testing.assert_allclose(result.errors[2, -1], expected)
