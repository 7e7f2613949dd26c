"""The meta-gradient against a hand-computed case and against finite differences in float64."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from metasched.meta.config import OPTIMISERS
from metasched.meta.inner import Data, Stream, device_data, knobs_of
from metasched.meta.networks import Network, mlp
from metasched.meta.objective import Heads, Learner, Rows, heads_of
from metasched.meta.outer import MetaParameters, first_state, meta_loss, meta_update, optimiser, validation_batch

import metasched as ms
from helpers import as_float64, make_tasks
from metasched import schedulers


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


def first_step(tasks, **config):
    """By how much the first meta-update moves λ, as one vector, and its meta-gradient."""
    learner = small_learner(tasks, validation_batch="all", **config)
    data = device_data(tasks, learner.config)
    state = first_state(learner, data, seed=0)
    after, _ = jax.jit(lambda state: meta_update(learner, data, optimiser(learner.config), state))(state)

    def value(parameters):
        return meta_loss(learner, data, data.validation, parameters, state.stream, state.knobs)[0]

    moved = jax.tree.map(jnp.subtract, after.parameters, state.parameters)
    gradient = jax.jit(jax.grad(value))(state.parameters)
    return tuple(np.asarray(jax.flatten_util.ravel_pytree(tree)[0]) for tree in (moved, gradient))


def test_a_clipped_meta_gradient_moves_the_weights_by_the_rate_times_the_clip():
    tasks = make_tasks()
    moved, gradient = first_step(tasks, optimiser="sgd", outer_rate=0.5, outer_clip=0.01)
    assert np.linalg.norm(gradient) > 0.01
    assert np.linalg.norm(moved) == pytest.approx(0.5 * 0.01, rel=1e-4)
    np.testing.assert_allclose(moved / np.linalg.norm(moved), -gradient / np.linalg.norm(gradient), atol=1e-4)
    loose, _ = first_step(tasks, optimiser="sgd", outer_rate=0.5, outer_clip=1e6)
    np.testing.assert_allclose(loose, -0.5 * gradient, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_named_optimiser_is_optaxs_without_weight_decay(name):
    made = {
        "adam": optax.adam(0.01),
        "adamw": optax.adamw(0.01, weight_decay=0.0),
        "nadam": optax.nadam(0.01),
        "rmsprop": optax.rmsprop(0.01),
        "sgd": optax.sgd(0.01),
        "lion": optax.lion(0.01, weight_decay=0.0),
    }[name]
    ours = optimiser(ms.TrainConfig(optimiser=name, outer_rate=0.01, outer_decay=1.0, meta_updates=5))
    weights = jnp.float32([3.0, -2.0, 0.5])
    states = [transformation.init(weights) for transformation in (made, ours)]
    for gradient in ([1.0, -0.5, 0.0], [0.2, 4.0, -1.0]):
        (expected, first), (found, second) = (
            transformation.update(jnp.float32(gradient), state, weights)
            for transformation, state in zip((made, ours), states, strict=True)
        )
        states = [first, second]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert np.abs(found).max() > 0


def test_an_optimiser_of_ones_own_takes_the_outer_step():
    tasks = make_tasks()
    still = ms.train(tasks, mlp(3, (6,)), config=ms.TrainConfig(batch_size=4, meta_updates=2), optimiser=optax.sgd(0.0))
    network = mlp(3, (6,))
    learner = Learner(network, schedulers.cyclic(3), ms.TrainConfig(batch_size=4).resolve(tasks), heads_of(tasks))
    start = first_state(learner, device_data(tasks), seed=0).parameters
    jax.tree.map(np.testing.assert_array_equal, still.parameters[0].weights, start.weights)


class TestClassBandit:
    """``validation_batch="ucb"``: rows of the class with the highest bound."""

    def set_up(self, labels=None):
        tasks = make_tasks(validation=60)
        if labels is not None:
            kept = np.flatnonzero(np.isin(tasks.validation.labels, labels))
            tasks = ms.TaskSet.from_arrays(
                {task.name: (task.inputs, task.labels) for task in tasks.tasks},
                validation=(tasks.validation.inputs[kept], tasks.validation.labels[kept]),
                test=(tasks.test.inputs, tasks.test.labels),
                classes=tasks.classes,
            )
        learner = small_learner(tasks, validation_batch="ucb")
        data = device_data(tasks)
        return tasks, learner, data, first_state(learner, data, seed=0)

    def seen(self, state, visits, mean):
        arms = state.classes.arms._replace(
            turn=jnp.int32(sum(visits)), visits=jnp.float32(visits), mean=jnp.float32(mean)
        )
        return state._replace(classes=state.classes._replace(arms=arms))

    @pytest.mark.parametrize("best", [0, 1, 2])
    def test_all_rows_come_from_the_class_with_the_highest_bound(self, best):
        _, learner, data, state = self.set_up()
        state = self.seen(state, [10, 10, 10], [0.9 if label == best else 0.1 for label in range(3)])
        batch, bandit = validation_batch(learner, data.validation, state)
        assert batch.labels.tolist() == [best] * 4
        assert int(bandit.taken) == best

    def test_a_class_seldom_taken_is_tried_again(self):
        _, learner, data, state = self.set_up()
        state = self.seen(state, [500, 500, 1], [0.3, 0.3, 0.2])
        batch, _ = validation_batch(learner, data.validation, state)
        assert set(batch.labels.tolist()) == {2}

    def test_a_class_without_rows_is_never_taken(self):
        _, learner, data, state = self.set_up(labels=(0, 2))
        step = jax.jit(lambda state: meta_update(learner, data, optimiser(learner.config), state)[0])
        taken = []
        for _ in range(8):
            state = step(state)
            taken.append(int(state.classes.taken))
        assert set(taken) == {0, 2}
        assert float(state.classes.arms.visits[1]) == 0

    def test_a_class_with_fewer_rows_than_a_batch_is_filled_up_from_the_next_best(self):
        tasks, learner, data, state = self.set_up()
        few = np.concatenate(
            [np.flatnonzero(tasks.validation.labels == 2)[:2], np.flatnonzero(tasks.validation.labels < 2)]
        )
        state = self.seen(state, [10, 10, 10], [0.1, 0.5, 0.9])
        batch, _ = validation_batch(learner, data.validation.take(few), state)
        assert sorted(batch.labels.tolist()) == [1, 1, 2, 2]

    def test_a_class_is_told_by_how_much_validation_accuracy_rose(self):
        _, learner, data, state = self.set_up()
        step = jax.jit(lambda state: meta_update(learner, data, optimiser(learner.config), state))
        accuracies, taken = [], []
        for _ in range(4):
            state, outcome = step(state)
            accuracies.append(float(outcome.validation_accuracy))
            taken.append(int(state.classes.taken))
        gains = [0.0, *np.diff(accuracies)]
        for label in range(3):
            mine = [gain for gain, chosen in zip(gains, taken, strict=True) if chosen == label]
            assert float(state.classes.arms.visits[label]) == len(mine)
            if mine:
                assert float(state.classes.arms.mean[label]) == pytest.approx(np.mean(mine), abs=1e-6)
