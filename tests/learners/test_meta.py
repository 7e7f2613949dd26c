"""The outer step: optimisers and their rates, the target's rows of each step, and the class bandit."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.learners import engine, gradients
from metasched.learners.meta import meta, optimiser, validation_batch
from metasched.learners.networks import mlp
from metasched.learners.settings import OPTIMISERS
from metasched.learners.stream import device_data
from scenes import first_of, objective_for, scene_of


class Set:
    """A small learner, its data and first state; ``update`` is compiled when first asked for."""

    def __init__(self, tasks, **config):
        self.objective = objective_for(tasks, **{"updates": 5, "gradient": "first-order", **config})
        self.data = device_data(tasks, self.objective.settings)
        self.schedule, self.state = first_of(self.objective, self.data)
        learner = meta(self.objective, self.schedule)
        self.update = jax.jit(lambda state: learner.update(self.data, state))


def test_without_inner_steps_it_is_plain_training_on_the_target():
    small = Set(make_tasks(), batches_per_update=0, target_batch="all", gradient="stored")
    data, state = small.data, small.state
    after, _ = small.update(state)

    def plain(weights):
        scores = jax.nn.log_softmax(small.objective.network.apply(weights, data.validation.inputs))
        return -scores[jnp.arange(len(data.validation.labels)), data.validation.labels].mean()

    gradient = jax.grad(plain)(state.parameters.weights)
    # The first step of Adam moves every weight by the rate, against the sign of its gradient.
    moved = jax.tree.map(lambda w, g: w - 1e-3 * g / (jnp.abs(g) + 1e-8), state.parameters.weights, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), after.parameters.weights, moved)
    assert float(after.parameters.log_rate) == float(state.parameters.log_rate)


def test_validation_rows_are_drawn_without_replacement_and_differ_between_updates():
    small = Set(make_tasks(validation=50))
    first, second = (
        np.asarray(validation_batch(small.objective, small.data.validation, state)[0].inputs)
        for state in (small.state, small.state._replace(update=jnp.int32(1)))
    )
    assert first.shape == (4, 4)
    assert len(np.unique(first, axis=0)) == 4
    assert not np.array_equal(first, second)


def test_few_validation_rows_are_all_used():
    small = Set(make_tasks(validation=3))
    batch, _ = validation_batch(small.objective, small.data.validation, small.state)
    assert len(batch.labels) == 3


def test_the_outer_rate_falls_to_the_wanted_fraction_at_the_last_update():
    config = ms.AlgorithmOne(updates=11, outer_rate=0.01, rate_decay=0.1)
    transformation = optimiser(config, 0.01, config.updates)
    state = transformation.init(jnp.float32(0))
    steps = []
    for _ in range(11):
        change, state = transformation.update(jnp.float32(1), state)
        steps.append(-float(change))
    assert steps[0] == pytest.approx(0.01, rel=1e-4)
    assert steps[-1] == pytest.approx(0.001, rel=1e-4)
    np.testing.assert_allclose(np.diff(np.log(steps)), math.log(0.1) / 10, atol=1e-4)


def test_a_clipped_meta_gradient_moves_the_weights_by_the_rate_times_the_clip():
    def moved_by(clip):
        """By how much the first meta-update moves λ, as one vector, and its meta-gradient."""
        small = Set(make_tasks(), target_batch="all", optimiser="sgd", outer_rate=0.5, clip_norm=clip)
        after, _ = small.update(small.state)
        scene = scene_of(small.objective, small.schedule, small.data, small.state)
        _, gradient = gradients.find("first-order").find(scene, small.state.parameters)
        moved = jax.tree.map(jnp.subtract, after.parameters, small.state.parameters)
        return tuple(np.asarray(jax.flatten_util.ravel_pytree(tree)[0]) for tree in (moved, gradient))

    moved, gradient = moved_by(0.01)
    assert np.linalg.norm(gradient) > 0.01
    assert np.linalg.norm(moved) == pytest.approx(0.5 * 0.01, rel=1e-4)
    np.testing.assert_allclose(moved / np.linalg.norm(moved), -gradient / np.linalg.norm(gradient), atol=1e-4)
    loose, _ = moved_by(1e6)
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
    ours = optimiser(ms.AlgorithmOne(optimiser=name, rate_decay=1.0, updates=5), 0.01, 5)
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
    tasks, network = make_tasks(), mlp(3, (6,))
    config = ms.AlgorithmOne(batch_size=4, updates=2, gradient="first-order", optimiser=optax.sgd(0.0))
    still = ms.train(tasks, "cyclic", network=network, learner=config)
    jax.tree.map(np.testing.assert_array_equal, still.parameters[0].weights, Set(tasks).state.parameters.weights)


def test_the_outer_rate_is_the_runs_own_and_not_the_programs():
    """The settings say one rate; a run with another in its hyperparameters steps by that."""
    small = Set(make_tasks(), optimiser="sgd", outer_rate=0.5, target_batch="all")
    hyperparameters = engine.hyperparameters_of(small.objective.settings)
    steps = [
        jax.tree.map(
            jnp.subtract,
            small.update(small.state._replace(hyperparameters=hyperparameters._replace(outer_rate=jnp.float32(rate))))[
                0
            ].parameters.weights,
            small.state.parameters.weights,
        )
        for rate in (0.5, 0.25)
    ]
    jax.tree.map(lambda whole, half: np.testing.assert_allclose(half, whole / 2, atol=1e-6), *steps)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(steps[0])) > 1e-3


class TestClassBandit:
    """``target_batch="ucb"``: rows of the class with the highest bound."""

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
        return Set(tasks, target_batch="ucb")

    def seen(self, state, visits, mean):
        arms = state.classes.arms._replace(
            turn=jnp.int32(sum(visits)), visits=jnp.float32(visits), mean=jnp.float32(mean)
        )
        return state._replace(classes=state.classes._replace(arms=arms))

    @pytest.mark.parametrize("best", [0, 1, 2])
    def test_all_rows_come_from_the_class_with_the_highest_bound(self, best):
        small = self.set_up()
        state = self.seen(small.state, [10, 10, 10], [0.9 if label == best else 0.1 for label in range(3)])
        batch, bandit = validation_batch(small.objective, small.data.validation, state)
        assert batch.labels.tolist() == [best] * 4
        assert int(bandit.taken) == best

    def test_a_class_seldom_taken_is_tried_again(self):
        small = self.set_up()
        state = self.seen(small.state, [500, 500, 1], [0.3, 0.3, 0.2])
        batch, _ = validation_batch(small.objective, small.data.validation, state)
        assert set(batch.labels.tolist()) == {2}

    def test_a_class_without_rows_is_never_taken(self):
        small = self.set_up(labels=(0, 2))
        state, taken = small.state, []
        for _ in range(8):
            state, _ = small.update(state)
            taken.append(int(state.classes.taken))
        assert set(taken) == {0, 2}
        assert float(state.classes.arms.visits[1]) == 0

    def test_a_class_with_fewer_rows_than_a_batch_is_filled_up_from_the_next_best(self):
        small = self.set_up()
        labels = np.asarray(small.data.validation.labels)
        few = np.concatenate([np.flatnonzero(labels == 2)[:2], np.flatnonzero(labels < 2)])
        state = self.seen(small.state, [10, 10, 10], [0.1, 0.5, 0.9])
        batch, _ = validation_batch(small.objective, small.data.validation.take(few), state)
        assert sorted(batch.labels.tolist()) == [1, 1, 2, 2]

    def test_a_class_is_told_by_how_much_validation_accuracy_rose(self):
        small = self.set_up()
        state, accuracies, taken = small.state, [], []
        for _ in range(4):
            state, update = small.update(state)
            accuracies.append(float(update.validation_accuracy))
            taken.append(int(state.classes.taken))
        gains = [0.0, *np.diff(accuracies)]
        for label in range(3):
            mine = [gain for gain, chosen in zip(gains, taken, strict=True) if chosen == label]
            assert float(state.classes.arms.visits[label]) == len(mine)
            if mine:
                assert float(state.classes.arms.mean[label]) == pytest.approx(np.mean(mine), abs=1e-6)
