"""The meta-gradient against a hand-computed case and against finite differences in float64."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched import schedulers
from metasched.meta.inner import Data, Stream, device_data, knobs_of
from metasched.meta.networks import Network, mlp
from metasched.meta.objective import Heads, Learner, Rows, heads_of
from metasched.meta.outer import MetaParameters, first_state, meta_loss, meta_update, optimiser, validation_batch


@pytest.fixture
def _float64():
    with jax.enable_x64(True):
        yield


def as_float64(tree):
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)) if x.dtype == np.float32 else x, tree)


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
    config = ms.TrainConfig(batch_size=1, batches_per_update=1)
    learner = Learner(network, schedulers.cyclic(1), config, Heads(1, 2, (2,)))
    row = jnp.ones((1, 1))
    target = Rows(row, jnp.array([1]))
    data = Data(Rows(row, jnp.array([0])), jnp.zeros(1, jnp.int32), jnp.ones(1, jnp.int32), target, target)
    stream = Stream(jnp.int32(0), jnp.zeros(1, jnp.int32), jnp.zeros((1, 2), jnp.int32))
    parameters = MetaParameters(jnp.float64(w), jnp.log(jnp.float64(rate)))
    (value, _), gradient = jax.value_and_grad(meta_loss, argnums=3, has_aux=True)(
        learner, data, data.validation, parameters, stream, knobs_of(config)
    )

    def sigmoid(z):
        return 1 / (1 + math.exp(-z))

    adapted = w + rate * sigmoid(-w)
    assert float(value) == pytest.approx(math.log1p(math.exp(adapted)), rel=1e-12)
    assert float(gradient.weights) == pytest.approx(sigmoid(adapted) * (1 - rate * sigmoid(w) * sigmoid(-w)), rel=1e-12)
    assert float(gradient.log_rate) == pytest.approx(sigmoid(adapted) * rate * sigmoid(-w), rel=1e-12)
    first_order = sigmoid(adapted)
    assert abs(float(gradient.weights) - first_order) > 0.05


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize(("batches", "steps"), [(5, 1), (1, 6), (3, 2)])
def test_the_meta_gradient_equals_central_differences(batches, steps):
    tasks = make_tasks(sizes=(12, 20, 9))
    config = ms.TrainConfig(batch_size=4, batches_per_update=batches, steps_per_batch=steps).resolve(tasks)
    learner = Learner(mlp(3, hidden=(6, 5)), schedulers.uniform(3), config, heads_of(tasks))
    data = as_float64(device_data(tasks))
    state = first_state(learner, data, seed=0)
    parameters = as_float64(state.parameters)._replace(log_rate=jnp.log(jnp.float64(0.4)))

    def value(parameters):
        return meta_loss(learner, data, data.validation, parameters, state.stream, state.knobs)[0]

    compiled = jax.jit(value)
    gradient = jax.jit(jax.grad(value))(parameters)
    flat, rebuild = jax.flatten_util.ravel_pytree(parameters)
    exact, _ = jax.flatten_util.ravel_pytree(gradient)
    step = 1e-6
    numeric = np.array(
        [
            (compiled(rebuild(flat.at[i].add(step))) - compiled(rebuild(flat.at[i].add(-step)))) / (2 * step)
            for i in range(len(flat))
        ]
    )
    # A rectifier that switches inside ±step would spoil a difference; none does for these rows.
    np.testing.assert_allclose(exact, numeric, atol=2e-8)
    assert abs(float(gradient.log_rate)) > 1e-4


def small_learner(tasks, **config):
    settings = ms.TrainConfig(**{"batch_size": 4, "meta_updates": 5, **config}).resolve(tasks)
    return Learner(mlp(3, hidden=(6,)), schedulers.cyclic(len(tasks.tasks)), settings, heads_of(tasks))


def test_without_inner_steps_it_is_plain_training_on_the_target():
    tasks = make_tasks()
    learner = small_learner(tasks, batches_per_update=0, validation_batch="all")
    data = device_data(tasks)
    state = first_state(learner, data, seed=0)
    after, _ = meta_update(learner, data, optimiser(learner.config), state)

    def plain(weights):
        scores = jax.nn.log_softmax(learner.network.apply(weights, data.validation.inputs))
        return -scores[jnp.arange(len(data.validation.labels)), data.validation.labels].mean()

    gradient = jax.grad(plain)(state.parameters.weights)
    # The first step of Adam moves every weight by the rate, against the sign of its gradient.
    moved = jax.tree.map(lambda w, g: w - 1e-3 * g / (jnp.abs(g) + 1e-8), state.parameters.weights, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), after.parameters.weights, moved)
    assert float(after.parameters.log_rate) == float(state.parameters.log_rate)


def test_validation_rows_are_drawn_without_replacement_and_differ_between_updates():
    tasks = make_tasks(validation=50)
    learner = small_learner(tasks)
    data = device_data(tasks)
    state = first_state(learner, data, seed=0)
    first = np.asarray(validation_batch(learner, data.validation, state)[0].inputs)
    second = np.asarray(validation_batch(learner, data.validation, state._replace(update=jnp.int32(1)))[0].inputs)
    assert first.shape == (4, 4)
    assert len(np.unique(first, axis=0)) == 4
    assert not np.array_equal(first, second)


def test_few_validation_rows_are_all_used():
    tasks = make_tasks(validation=3)
    learner = small_learner(tasks)
    data = device_data(tasks)
    batch, _ = validation_batch(learner, data.validation, first_state(learner, data, seed=0))
    assert len(batch.labels) == 3


def test_the_outer_rate_falls_to_the_wanted_fraction_at_the_last_update():
    config = ms.TrainConfig(meta_updates=11, outer_rate=0.01, outer_decay=0.1)
    transformation = optimiser(config)
    state = transformation.init(jnp.float32(0))
    steps = []
    for _ in range(11):
        change, state = transformation.update(jnp.float32(1), state)
        steps.append(-float(change))
    assert steps[0] == pytest.approx(0.01, rel=1e-4)
    assert steps[-1] == pytest.approx(0.001, rel=1e-4)
    np.testing.assert_allclose(np.diff(np.log(steps)), math.log(0.1) / 10, atol=1e-4)
