"""How validation errors fall while one task is trained on, against known powers and plain SGD."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import make_tasks
from metasched.learners.networks import mlp
from metasched.learners.stationarity import stationarity, summarise_errors


def test_errors_that_fall_like_a_power_give_that_power():
    time = np.arange(1, 121)[:, None]
    errors = 0.9 * time ** -np.array([0.5, 0.25, 1.0])
    result = summarise_errors(errors[None])
    np.testing.assert_allclose(result.exponent, [[0.5, 0.25, 1.0]], atol=1e-12)
    assert result.variation[0, 0] == pytest.approx(0, abs=1e-12)
    assert result.variation[0, 1] > 0.1


def test_errors_of_zero_are_left_out_of_the_fit():
    errors = 0.9 * np.arange(1, 121.0)[:, None] ** -0.5
    errors[50:60] = 0
    assert summarise_errors(errors[None]).exponent[0, 0] == pytest.approx(0.5, abs=1e-9)


def test_a_class_that_is_always_right_or_never_seen_says_nothing():
    errors = np.column_stack([np.zeros(20), np.full(20, np.nan)])
    result = summarise_errors(errors[None])
    assert np.isnan(result.exponent).all()
    assert result.variation[0, 0] == 0
    assert np.isnan(result.variation[0, 1])


def test_following_a_task_is_plain_sgd():
    tasks, network = make_tasks(sizes=(12, 20, 9), validation=40), mlp(3, hidden=(6,))
    weights = network.init(jax.random.key(0), jnp.zeros((1, 4)))

    def loss(weights, inputs, labels, task):
        del task
        return -jax.nn.log_softmax(network.apply(weights, inputs))[jnp.arange(len(labels)), labels].mean()

    def hits(weights):
        return network.apply(weights, tasks.validation.inputs).argmax(axis=1) == tasks.validation.labels

    result = stationarity(loss, hits, weights, 0.5, tasks, steps=7, batch_size=2)
    assert result.errors.shape == (3, 7, 3)
    task, fitted, slope = tasks.tasks[2], weights, jax.jit(jax.grad(loss))
    for step in range(7):
        rows = [(2 * step) % 9, (2 * step + 1) % 9]
        gradient = slope(fitted, task.inputs[rows], task.labels[rows], 2)
        fitted = jax.tree.map(lambda w, g: w - 0.5 * g, fitted, gradient)
    right = np.asarray(hits(fitted))
    expected = [1 - right[tasks.validation.labels == label].mean() for label in range(3)]
    np.testing.assert_allclose(result.errors[2, -1], expected)
