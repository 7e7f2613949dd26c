"""All exact ways to the meta-gradient agree, with each other, with finite differences and with a closed form."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from metasched.meta.inner import device_data
from metasched.meta.networks import Network, mlp
from metasched.meta.objective import Learner, Losses, heads_of, squared_error
from metasched.meta.outer import first_state, meta_loss, meta_update, optimiser

import metasched as ms
from helpers import as_float64, make_tasks
from metasched import schedulers
from metasched.errors import ConfigError

EXACT = ("scan", "remat", "stored")
VARIANTS = {
    "plain": {},
    "several steps on each batch": {"batches_per_update": 2, "steps_per_batch": 3},
    "a rate for each layer": {"inner_rates": "layer"},
    "a rate for each weight": {"inner_rates": "parameter"},
    "weighted rows": {"row_weights": True},
    "weighted rows and balanced classes": {"row_weights": True, "balanced_loss": True, "inner_rates": "layer"},
    "head only": {"inner_layers": "head"},
    "initial model in the outer loss": {"initial_share": 0.3},
    "abstaining at times": {"abstain": True, "row_weights": True},
    "no batch": {"batches_per_update": 0},
}


def problem(**config):
    """The meta-loss as a function of λ, and a λ that is not a special point of it."""
    tasks = make_tasks(sizes=(12, 20, 9))
    settings = ms.TrainConfig(**{"batch_size": 4, "batches_per_update": 5, **config}).resolve(tasks)
    arms = 3 + settings.abstain
    scheduler = schedulers.with_abstain(schedulers.cyclic(4)) if settings.abstain else schedulers.uniform(arms)
    learner = Learner(mlp(3, hidden=(6, 5)), scheduler, settings, heads_of(tasks))
    data = as_float64(device_data(tasks, settings))
    state = first_state(learner, data, seed=0)
    random = np.random.default_rng(1)
    parameters = as_float64(state.parameters)
    parameters = parameters._replace(
        log_rate=jax.tree.map(
            lambda leaf: jnp.asarray(random.normal(np.log(0.3), 0.3, leaf.shape)), parameters.log_rate
        )
    )
    if parameters.emphasis is not None:
        parameters = parameters._replace(emphasis=jnp.asarray(random.normal(size=parameters.emphasis.shape)))

    def value(parameters):
        return meta_loss(learner, data, data.validation, parameters, state.stream, state.knobs)[0]

    return value, parameters


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_exact_modes_agree(variant):
    found = []
    for mode in EXACT:
        value, parameters = problem(gradient=mode, **VARIANTS[variant])
        found.append(ravel_pytree(jax.jit(jax.grad(value))(parameters))[0])
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "no batch"])
def test_the_stored_mode_equals_central_differences(variant):
    value, parameters = problem(gradient="stored", **VARIANTS[variant])
    flat, rebuild = ravel_pytree(parameters)
    exact, _ = ravel_pytree(jax.jit(jax.grad(value))(parameters))
    compiled, step = jax.jit(value), 1e-6
    chosen = np.random.default_rng(0).permutation(len(flat))[:40]
    numeric = [
        (compiled(rebuild(flat.at[i].add(step))) - compiled(rebuild(flat.at[i].add(-step)))) / (2 * step)
        for i in chosen
    ]
    np.testing.assert_allclose(exact[chosen], numeric, atol=3e-8)


@pytest.mark.usefixtures("_float64")
def test_first_order_differs_where_it_must_and_only_there():
    exact_value, parameters = problem(gradient="stored")
    value, _ = problem(gradient="first-order")
    exact, first = jax.grad(exact_value)(parameters), jax.grad(value)(parameters)
    assert float(value(parameters)) == pytest.approx(float(exact_value(parameters)), rel=1e-12)
    assert np.abs(ravel_pytree(exact.weights)[0] - ravel_pytree(first.weights)[0]).max() > 1e-3
    for mode in ("stored", "first-order"):
        value, parameters = problem(gradient=mode, batches_per_update=0)
        plain = ravel_pytree(jax.grad(value)(parameters).weights)[0]
        np.testing.assert_allclose(
            plain, ravel_pytree(jax.grad(problem(batches_per_update=0)[0])(parameters).weights)[0]
        )


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("mode", EXACT)
def test_least_squares_have_a_closed_form(mode):
    """One step is w' = w − ρ·Xᵀ(Xw − y)/B.

    With A = I − ρ·XᵀX/B the derivative of ½·mean((Vw' − z)²) is Aᵀ·Vᵀ(Vw' − z)/v.
    """
    tasks = make_tasks(sizes=(8,), classes=2)
    settings = ms.TrainConfig(batch_size=8, batches_per_update=1, gradient=mode).resolve(tasks)
    linear = Network(lambda key, x: jnp.arange(4.0).reshape(4, 1) / 4, lambda w, x: x @ w)
    learner = Learner(
        linear, schedulers.cyclic(1), settings, heads_of(tasks), Losses(squared_error, squared_error), 1.0
    )
    data = as_float64(device_data(tasks, settings))

    def with_targets(rows):
        return rows._replace(targets=rows.inputs.sum(axis=1, keepdims=True) + rows.labels[:, None])

    data = data._replace(sources=with_targets(data.sources), validation=with_targets(data.validation))
    data = data._replace(judged=data.validation)
    state = first_state(learner, data, seed=0)
    rate = 0.2
    parameters = as_float64(state.parameters)._replace(log_rate=jnp.log(jnp.float64(rate)))

    def value(parameters):
        return meta_loss(learner, data, data.validation, parameters, state.stream, state.knobs)[0]

    gradient = jax.grad(value)(parameters)
    X, y = np.asarray(data.sources.inputs), np.asarray(data.sources.targets)
    V, z = np.asarray(data.validation.inputs), np.asarray(data.validation.targets)
    w = np.asarray(parameters.weights)
    slope = X.T @ (X @ w - y) / len(X)
    adapted = w - rate * slope
    outer = V.T @ (V @ adapted - z) / len(V)
    np.testing.assert_allclose(gradient.weights, (np.eye(4) - rate * X.T @ X / len(X)).T @ outer, rtol=1e-10)
    assert float(gradient.log_rate) == pytest.approx(-rate * float((outer * slope).sum()), rel=1e-10)


def test_reptile_moves_towards_the_weights_after_the_sources_and_the_target():
    tasks = make_tasks()
    settings = ms.TrainConfig(batch_size=4, batches_per_update=3, gradient="reptile", validation_batch="all")
    settings = replace(settings, optimiser="sgd", outer_rate=1.0, meta_updates=1).resolve(tasks)
    learner = Learner(mlp(3, hidden=(6,)), schedulers.cyclic(3), settings, heads_of(tasks))
    data = device_data(tasks, settings)
    state = first_state(learner, data, seed=0)
    after, outcome = meta_update(learner, data, optimiser(settings), state)

    def target_loss(weights):
        scores = jax.nn.log_softmax(learner.network.apply(weights, data.validation.inputs))
        return -scores[jnp.arange(10), data.validation.labels].mean()

    slope = jax.grad(target_loss)(outcome.adapted)
    final = jax.tree.map(lambda w, g: w - 0.01 * g, outcome.adapted, slope)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), after.parameters.weights, final)
    assert float(after.parameters.log_rate) == float(state.parameters.log_rate)


def test_training_the_head_alone_leaves_the_body_and_asks_networks_to_name_it():
    tasks = make_tasks()
    settings = ms.TrainConfig(batch_size=4, inner_layers="head", inner_rate=0.1).resolve(tasks)
    learner = Learner(mlp(3, hidden=(6,)), schedulers.cyclic(3), settings, heads_of(tasks))
    data = device_data(tasks, settings)
    state = first_state(learner, data, seed=0)
    _, outcome = meta_update(learner, data, optimiser(settings), state)
    before = state.parameters.weights
    np.testing.assert_array_equal(outcome.adapted[0]["w"], before[0]["w"])
    assert np.abs(outcome.adapted[1]["w"] - before[1]["w"]).max() > 0
    nameless = mlp(3, hidden=(6,))._replace(head=None)
    with pytest.raises(ConfigError, match="does not name its head"):
        ms.train(tasks, nameless, config=ms.TrainConfig(batch_size=4, inner_layers="head"))
