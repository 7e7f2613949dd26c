"""All exact ways to the meta-gradient agree, with each other, with finite differences and with closed forms."""

import math
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import metasched as ms
from helpers import as_float64, make_tasks
from metasched import schedulers
from metasched.errors import ConfigError
from metasched.learners import gradients
from metasched.learners.gradients import Estimator, MetaParameters
from metasched.learners.inner import Adapted, Scene, Schedule
from metasched.learners.losses import Losses, Objective, Rows, Unit, squared_error
from metasched.learners.networks import Heads, Network, mlp
from metasched.learners.rewards import scaled
from metasched.learners.stream import Data, Stream, device_data
from scenes import first_of, objective_for, program_for, scene_of

EXACT = ("scan", "remat", "stored")
VARIANTS = {
    "plain": {},
    "several steps on each batch": {"batches_per_update": 2, "steps_per_batch": 3},
    "balanced classes": {"balanced_loss": True},
    "abstaining at times": {"abstain": True, "balanced_loss": True},
    "no batch": {"batches_per_update": 0},
    "mixed batches": {"batching": "mixed"},
    "mixed batches, abstaining at times": {"batching": "mixed", "abstain": True, "balanced_loss": True},
}
STRETCHES = {
    "five batches of one step": {"batches_per_update": 5},
    "one batch of six steps": {"batches_per_update": 1, "steps_per_batch": 6},
    "three batches of two steps": {"batches_per_update": 3, "steps_per_batch": 2},
}
QUICKLY = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Compiling takes longer than all that these programs are asked for."""


class Problem(NamedTuple):
    """A λ that is not a special point of the outer loss, and what an estimator finds there.

    ``differences`` are central differences of the loss by each number of λ, a NumPy vector like the flat gradient.
    """

    parameters: MetaParameters
    value: float
    adapted: Adapted
    gradient: MetaParameters
    differences: np.ndarray

    @property
    def slopes(self):
        return ravel_pytree(self.gradient)[0]


def solve(mode, config):
    """The problem of those settings, solved once for all tests; call it in float64."""
    return _solved(mode, tuple(sorted({"batches_per_update": 5, **config}.items())))


@cache
def _solved(mode, items):
    tasks, config = make_tasks(sizes=(12, 20, 9)), dict(items)
    objective = objective_for(tasks, hidden=(5,), gradient=mode, **config)
    scheduler = schedulers.with_abstain(schedulers.cyclic(4)) if objective.abstain else schedulers.uniform(3)
    data = as_float64(device_data(tasks, objective.settings))
    schedule, state = first_of(objective, data, scheduler)
    random = np.random.default_rng(1)
    parameters = as_float64(state.parameters)
    parameters = parameters._replace(log_rate=jnp.asarray(random.normal(np.log(0.3), 0.3)))
    scene = scene_of(objective, schedule, data, state)
    flat, rebuild = ravel_pytree(parameters)
    find = jax.jit(lambda flat: gradients.find(mode).find(scene, rebuild(flat)))
    find = find.lower(flat).compile(compiler_options=QUICKLY)
    (value, adapted), gradient = find(flat)

    def loss(place, change):
        moved = np.array(flat)
        moved[place] += change
        return float(find(moved)[0][0])

    step = 1e-6
    differences = [(loss(place, step) - loss(place, -step)) / (2 * step) for place in range(len(flat))]
    return Problem(*jax.tree.map(np.asarray, (parameters, value, adapted, gradient)), np.array(differences))


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_exact_modes_agree(variant):
    first, *others = (solve(mode, VARIANTS[variant]) for mode in EXACT)
    for other in others:
        np.testing.assert_allclose(other.value, first.value, rtol=1e-12)
        np.testing.assert_allclose(other.slopes, first.slopes, rtol=1e-9, atol=1e-12)
        for found, expected in zip(*map(jax.tree.leaves, (other.adapted, first.adapted)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "no batch"])
def test_the_stored_mode_equals_central_differences(variant):
    problem = solve("stored", VARIANTS[variant])
    np.testing.assert_allclose(problem.slopes, problem.differences, atol=3e-8)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("stretch", STRETCHES)
def test_the_meta_gradient_equals_central_differences(stretch):
    problem = solve("scan", STRETCHES[stretch])
    # A rectifier that switches inside ±step would spoil a difference; none does for these rows.
    np.testing.assert_allclose(problem.slopes, problem.differences, atol=2e-8)
    assert abs(float(problem.gradient.log_rate)) > 1e-4


@pytest.mark.usefixtures("_float64")
def test_the_hand_computed_case():
    """One weight w, logits (w·x, 0), one inner step at rate α on (x=1, y=0), outer loss on (x=1, y=1).

    inner: h(w) = log(1 + e^−w), h'(w) = −σ(−w), so w' = w + α·σ(−w);
    outer: ℓ(w') = log(1 + e^w'), dℓ/dw = σ(w')·(1 − α·σ(w)σ(−w)), dℓ/d log α = σ(w')·α·σ(−w).
    """
    w, rate = 0.3, 0.7
    network = Network(
        lambda key, inputs: jnp.float64(w), lambda w, x: jnp.stack([w * x[:, 0], jnp.zeros(len(x))], axis=1)
    )
    objective = Objective(network, ms.AlgorithmOne(batch_size=1, batches_per_update=1), Heads(1, 2, (2,)))
    row = jnp.ones((1, 1))
    target = Rows(row, jnp.array([1]))
    data = Data(Rows(row, jnp.array([0])), jnp.zeros(1, jnp.int32), jnp.ones(1, jnp.int32), target, target)
    stream = Stream(jnp.int32(0), jnp.zeros(1, jnp.int32), jnp.zeros((1, 2), jnp.int32))
    scene = Scene(objective, Schedule(schedulers.cyclic(1), (scaled,)), data, target, stream, jnp.int32(0))
    parameters = MetaParameters(jnp.float64(w), jnp.log(jnp.float64(rate)))

    def sigmoid(z):
        return 1 / (1 + math.exp(-z))

    adapted = w + rate * sigmoid(-w)
    first_order = sigmoid(adapted)
    by_weight = {
        **dict.fromkeys(EXACT, first_order * (1 - rate * sigmoid(w) * sigmoid(-w))),
        "first-order": first_order,
    }
    assert abs(by_weight["scan"] - first_order) > 0.05
    for mode, expected in by_weight.items():
        (value, _), gradient = gradients.find(mode).find(scene, parameters)
        assert float(value) == pytest.approx(math.log1p(math.exp(adapted)), rel=1e-12), mode
        assert float(gradient.weights) == pytest.approx(expected, rel=1e-12), mode
        assert float(gradient.log_rate) == pytest.approx(first_order * rate * sigmoid(-w), rel=1e-12), mode


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("mode", EXACT)
def test_least_squares_have_a_closed_form(mode):
    """One step is w' = w − ρ·Xᵀ(Xw − y)/B.

    With A = I − ρ·XᵀX/B the derivative of ½·mean((Vw' − z)²) is Aᵀ·Vᵀ(Vw' − z)/v.
    """
    tasks = make_tasks(sizes=(8,), classes=2)
    linear = Network(lambda key, x: jnp.arange(4.0).reshape(4, 1) / 4, lambda w, x: x @ w)
    settings = ms.AlgorithmOne(batch_size=8, batches_per_update=1, gradient=mode).resolve(tasks)
    objective = Objective(
        linear, settings, Heads(1, 2, (2,)), Losses(squared_error, squared_error), Unit(1.0, (0.0,), (1.0,))
    )
    data = as_float64(device_data(tasks, settings))

    def with_targets(rows):
        return rows._replace(targets=rows.inputs.sum(axis=1, keepdims=True) + rows.labels[:, None])

    data = data._replace(sources=with_targets(data.sources), validation=with_targets(data.validation))
    data = data._replace(reward_rows=data.validation)
    schedule, state = first_of(objective, data)
    rate = 0.2
    parameters = as_float64(state.parameters)._replace(log_rate=jnp.log(jnp.float64(rate)))
    _, gradient = gradients.find(mode).find(scene_of(objective, schedule, data, state), parameters)
    X, y = np.asarray(data.sources.inputs), np.asarray(data.sources.targets)
    V, z = np.asarray(data.validation.inputs), np.asarray(data.validation.targets)
    w = np.asarray(parameters.weights)
    slope = X.T @ (X @ w - y) / len(X)
    adapted = w - rate * slope
    outer = V.T @ (V @ adapted - z) / len(V)
    np.testing.assert_allclose(gradient.weights, (np.eye(4) - rate * X.T @ X / len(X)).T @ outer, rtol=1e-10)
    assert float(gradient.log_rate) == pytest.approx(-rate * float((outer * slope).sum()), rel=1e-10)


class TestFirstOrder:
    @pytest.mark.usefixtures("_float64")
    def test_it_differs_where_it_must_and_only_there(self):
        exact, first = (solve(mode, {}) for mode in ("stored", "first-order"))
        assert float(first.value) == pytest.approx(float(exact.value), rel=1e-12)
        assert np.abs(ravel_pytree(exact.gradient.weights)[0] - ravel_pytree(first.gradient.weights)[0]).max() > 1e-3
        expected = solve("scan", VARIANTS["no batch"]).slopes
        for mode in ("stored", "first-order"):
            np.testing.assert_allclose(solve(mode, VARIANTS["no batch"]).slopes, expected)

    @pytest.mark.usefixtures("_float64")
    @pytest.mark.parametrize("variant", ["several steps on each batch", "abstaining at times"])
    def test_inner_gradients_are_constants(self, variant):
        """w' = w − ρ·Σg with g constant: by w it is the outer slope v, by log ρ it is ⟨v, w' − w⟩."""
        problem = solve("first-order", VARIANTS[variant])
        start, adapted = problem.parameters.weights, problem.adapted.weights
        tasks = make_tasks(sizes=(12, 20, 9))
        x, y = jnp.asarray(tasks.validation.inputs, jnp.float64), tasks.validation.labels

        def loss(weights):
            return -jax.nn.log_softmax(mlp(3, (5,)).apply(weights, x))[jnp.arange(len(y)), y].mean()

        def close(found, expected):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)

        v = jax.jit(jax.grad(loss))(adapted)
        by_rate = jax.tree.map(lambda g, w, w0: g * (w - w0), v, adapted, start)
        jax.tree.map(close, problem.gradient.weights, v)
        close(problem.gradient.log_rate, sum(part.sum() for part in jax.tree.leaves(by_rate)))

    def test_the_estimator_decides_and_not_the_word_in_the_settings(self):
        tasks = make_tasks()
        data = device_data(tasks)
        slopes = {}
        for mode in ("first-order", "scan"):
            for word in ("first-order", "stored"):
                objective = objective_for(tasks, gradient=word, inner_rate=0.3)
                schedule, state = first_of(objective, data)
                scene = scene_of(objective, schedule, data, state)
                slopes[mode, word] = ravel_pytree(gradients.find(mode).find(scene, state.parameters)[1])[0]
            np.testing.assert_array_equal(slopes[mode, "first-order"], slopes[mode, "stored"])
        assert np.abs(slopes["first-order", "stored"] - slopes["scan", "stored"]).max() > 1e-3


SMALL = ms.AlgorithmOne(batch_size=4)
CALLS = {
    "find": gradients.find,
    "setting": lambda name: ms.train(make_tasks(), learner=replace(SMALL, gradient=name)),
    "program": lambda name: program_for(make_tasks(), gradient=name),
}


class TestRegistry:
    def test_every_name_is_an_estimator(self):
        assert gradients.names() == ("stored", "scan", "remat", "first-order")
        assert all(isinstance(gradients.find(name), Estimator) for name in gradients.names())

    @pytest.mark.parametrize("call", CALLS)
    def test_an_unknown_name_is_one_clear_line(self, call):
        with pytest.raises(ConfigError) as error:
            CALLS[call]("stord")
        assert str(error.value) == (
            "unknown gradient 'stord'; did you mean 'stored'? Known: auto, first-order, remat, scan, stored"
        )

    @pytest.mark.parametrize("odd", [3, ["stored"], lambda scene, parameters: None])
    def test_what_is_neither_a_name_nor_an_estimator_is_refused(self, odd):
        with pytest.raises(ConfigError, match="give a name or an Estimator"):
            ms.train(make_tasks(), learner=replace(SMALL, gradient=odd))

    def test_one_of_ones_own_finds_the_meta_gradient_of_a_run(self):
        """Ten times the gradient at a tenth of the rate is the same walk under plain SGD."""

        def tenfold(scene, parameters):
            found, gradient = gradients.find("first-order").find(scene, parameters)
            return found, jax.tree.map(lambda g: 10 * g, gradient)

        own = Estimator(tenfold, lambda config: 0)
        tasks = make_tasks()
        config = {"batch_size": 4, "updates": 3, "eval_every": 3, "optimiser": "sgd"}
        run, plain = (
            ms.train(
                *(tasks, "cyclic"),
                network=mlp(3, (6,)),
                learner=ms.AlgorithmOne(**config, outer_rate=rate, gradient=gradient),
            )
            for rate, gradient in ((0.01, own), (0.1, "first-order"))
        )
        assert gradients.find(own) is own
        for found, expected in zip(run.records, plain.records, strict=True):
            assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6),
            run.parameters[0].weights,
            plain.parameters[0].weights,
        )
        assert run.records[0]["loss"] != run.records[-1]["loss"]

    def test_one_of_ones_own_says_how_much_it_keeps(self):
        greedy = gradients.find("first-order")._replace(kept=lambda config: 10**12)
        with pytest.raises(ConfigError, match="one update would need about"):
            ms.train(make_tasks(), network=mlp(3, (6,)), learner=replace(SMALL, gradient=greedy))
