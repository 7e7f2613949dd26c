import jax
import jax.numpy as jnp
import numpy as np
import pytest
from metasched.meta.gradients import adapt
from metasched.meta.inner import Stream, Tuned, device_data, knobs_of
from metasched.meta.networks import default_network
from metasched.meta.objective import Learner, heads_of, marks, outputs, scaled_reward

import metasched as ms
from helpers import make_tasks
from metasched import schedulers
from metasched.schedulers.base import Scheduler


def learner_for(tasks, scheduler=None, **config):
    scheduler = scheduler or schedulers.cyclic(len(tasks.tasks))
    settings = ms.TrainConfig(**{"batch_size": 4, **config}).resolve(tasks)
    return Learner(default_network(tasks), scheduler, settings, heads_of(tasks))


def adapted_from(learner, data, weights, stream, rate=0.1):
    return adapt(learner, data, Tuned(weights, jnp.float32(rate)), stream, knobs_of(learner.config))


def begin(learner, data):
    weights = learner.network.init(jax.random.key(1), data.validation.inputs[:1])
    drawn = jnp.zeros((len(data.sizes), learner.heads.width), jnp.int32)
    return weights, Stream(learner.scheduler.init(jax.random.key(2)), jnp.zeros_like(data.sizes), drawn)


def fixed(order):
    """A scheduler that follows a list."""
    turns = jnp.array(order)
    return Scheduler(lambda key: jnp.int32(0), lambda turn, labels: turns[turn], lambda turn, *_: turn + 1)


def numpy_sgd(network, tasks, order, batch_size, steps, rate, weights):
    """The same loop, spelled out on the host with one gradient at a time."""
    cursors = [0] * len(tasks.tasks)
    for number in order:
        task = tasks.tasks[number]
        rows = [(cursors[number] + offset) % len(task) for offset in range(batch_size)]
        cursors[number] = (cursors[number] + batch_size) % len(task)
        x, y = task.inputs[rows], task.labels[rows]

        def loss(weights, x=x, y=y):
            scores = network.apply(weights, x)
            return -(jax.nn.log_softmax(scores)[jnp.arange(len(y)), y]).mean()

        for _ in range(steps):
            gradient = jax.grad(loss)(weights)
            weights = jax.tree.map(lambda w, g: w - rate * g, weights, gradient)
    return weights, cursors


@pytest.mark.parametrize("steps", [1, 3])
def test_adapting_is_sgd_on_the_scheduled_rows_with_cursors_that_wrap(steps):
    tasks = make_tasks(sizes=(12, 20, 9))
    order = [2, 0, 2, 1, 2, 2, 0]
    learner = learner_for(tasks, fixed(order), batches_per_update=len(order), steps_per_batch=steps)
    data = device_data(tasks)
    weights, stream = begin(learner, data)
    adapted, after, taken = adapted_from(learner, data, weights, stream)
    expected, cursors = numpy_sgd(learner.network, tasks, order, 4, steps, 0.1, weights)
    assert taken.tolist() == order
    assert after.cursors.tolist() == cursors == [8, 4, 7]
    assert after.drawn.sum(axis=1).tolist() == [8, 4, 16]
    seen = np.bincount(tasks.tasks[0].labels[:8], minlength=3)
    assert after.drawn[0].tolist() == seen.tolist()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), adapted, expected)


def test_global_cursors_all_move_with_every_batch():
    tasks = make_tasks(sizes=(12, 20, 9))
    learner = learner_for(tasks, fixed([0, 1, 1]), batches_per_update=3, cursor="global")
    data = device_data(tasks)
    weights, stream = begin(learner, data)
    _, after, _ = adapted_from(learner, data, weights, stream)
    assert after.cursors.tolist() == [0, 12, 3]
    assert after.drawn.sum(axis=1).tolist() == [4, 8, 0]


@pytest.mark.parametrize("cursor", ["rested", "global"])
def test_an_abstained_batch_trains_nothing_moves_nothing_and_is_rewarded(cursor):
    tasks = make_tasks(sizes=(12, 20, 9))
    data = device_data(tasks)

    def follow(order, **config):
        noted = Scheduler(
            lambda key: (jnp.int32(0), jnp.zeros(len(order))),
            lambda state, labels: jnp.array(order)[state[0]],
            lambda state, labels, task, reward: (state[0] + 1, state[1].at[state[0]].set(reward)),
        )
        learner = learner_for(tasks, noted, batches_per_update=len(order), cursor=cursor, **config)
        weights, stream = begin(learner, data)
        return learner, *adapted_from(learner, data, weights, stream)

    learner, adapted, stream, taken = follow([3, 2, 3, 0, 3], abstain=True)
    _, expected, plain, _ = follow([2, 0])
    assert taken.tolist() == [3, 2, 3, 0, 3]
    assert stream.cursors.tolist() == plain.cursors.tolist()
    assert stream.drawn.tolist() == plain.drawn.tolist()
    assert stream.drawn.sum(axis=1).tolist() == [4, 0, 4]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), adapted, expected)
    accuracy = marks(learner, adapted, data.validation).mean()
    assert float(stream.scheduler[1][4]) == pytest.approx(float(scaled_reward(accuracy, jnp.int32(5))), abs=1e-6)


def test_an_abstained_batch_lets_the_meta_gradient_through():
    tasks = make_tasks(sizes=(12, 20, 9))
    data = device_data(tasks)
    learner = learner_for(tasks, fixed([3, 3]), batches_per_update=2, abstain=True)
    weights, stream = begin(learner, data)

    def total(weights):
        adapted, _, _ = adapted_from(learner, data, weights, stream)
        return sum(leaf.sum() for leaf in jax.tree.leaves(adapted))

    for gradient in jax.tree.leaves(jax.grad(total)(weights)):
        np.testing.assert_allclose(gradient, 1.0)


def test_the_scheduler_sees_the_labels_at_the_cursors_and_the_scaled_reward():
    tasks = make_tasks(sizes=(12, 20, 9))
    seen = Scheduler(
        lambda key: (jnp.zeros((3, 3), jnp.int32), jnp.zeros(3), jnp.int32(0)),
        lambda state, labels: jnp.int32(1),
        lambda state, labels, task, reward: (
            state[0].at[state[2]].set(labels),
            state[1].at[state[2]].set(reward),
            state[2] + 1,
        ),
    )
    learner = learner_for(tasks, seen, batches_per_update=3)
    data = device_data(tasks)
    weights, stream = begin(learner, data)
    adapted, after, _ = adapted_from(learner, data, weights, stream)
    accuracy = float(marks(learner, adapted, data.validation).mean())
    first, second, third = (task.labels for task in tasks.tasks)
    assert after.scheduler[0].tolist() == [[first[0], second[row], third[0]] for row in (0, 4, 8)]
    assert float(after.scheduler[1][2]) == pytest.approx(1 - 3**0.5 * (1 - accuracy), abs=1e-6)

    by_label = Scheduler(lambda key: jnp.int32(0), lambda state, labels: jnp.argmax(labels), lambda state, *_: state)
    _, _, taken = adapted_from(learner_for(tasks, by_label, batches_per_update=1), data, weights, stream)
    assert taken[0] == np.argmax([task.labels[0] for task in tasks.tasks])


def test_the_reward_follows_the_papers_scaling():
    assert float(scaled_reward(jnp.float32(0.75), jnp.int32(1))) == pytest.approx(0.75)
    assert float(scaled_reward(jnp.float32(0.75), jnp.int32(16))) == pytest.approx(0.0)
    assert float(scaled_reward(jnp.float32(1.0), jnp.int32(100))) == 1


class TestReward:
    def told(self, tasks, kind):
        """The reward of the one batch of a meta-update, the weights after it, and what is needed to check it."""
        keep = Scheduler(
            lambda key: jnp.float32(0), lambda state, labels: jnp.int32(1), lambda state, labels, task, reward: reward
        )
        learner = learner_for(tasks, keep, batches_per_update=1, reward=kind)
        data = device_data(tasks)
        weights, stream = begin(learner, data)
        adapted, after, _ = adapted_from(learner, data, weights, stream)
        return float(after.scheduler), learner, data, weights, adapted

    def test_gain_is_by_how_much_the_batch_lowered_the_validation_loss(self, tasks):
        told, learner, data, before, after = self.told(tasks, "gain")
        x, y, _ = data.validation
        losses = [
            -jax.nn.log_softmax(learner.network.apply(weights, x))[jnp.arange(len(y)), y].mean()
            for weights in (before, after)
        ]
        assert told == pytest.approx(float(losses[0] - losses[1]), abs=1e-6)

    def test_accuracy_is_that_of_the_validation_rows(self, tasks):
        told, learner, data, _, after = self.told(tasks, "accuracy")
        assert told == pytest.approx(float(marks(learner, after, data.validation).mean()))


class TestHeads:
    @pytest.fixture
    def own(self):
        random = np.random.default_rng(0)

        def rows(count, classes):
            return random.normal(size=(count, 4)), random.integers(0, classes, count)

        return ms.TaskSet.from_arrays(
            {"a": rows(12, 4), "b": rows(12, 2)},
            validation=rows(8, 3),
            test=rows(8, 3),
            classes={"a": "pqrs", "b": "tu", "target": "xyz"},
        )

    def test_training_one_task_leaves_the_other_heads_alone(self, own):
        learner = learner_for(own, fixed([0, 0]), batches_per_update=2)
        data = device_data(own)
        weights, stream = begin(learner, data)
        adapted, _, _ = adapted_from(learner, data, weights, stream)
        change = np.abs(np.asarray(adapted[-1]["w"] - weights[-1]["w"])).reshape(300, 3, 4).max(axis=(0, 2))
        assert change[0] > 0
        assert change[1] == change[2] == 0
        assert np.abs(adapted[0]["w"] - weights[0]["w"]).max() > 0

    def test_a_class_that_a_head_does_not_have_is_never_predicted(self, own):
        learner = learner_for(own)
        data = device_data(own)
        weights, _ = begin(learner, data)
        inputs = jax.random.normal(jax.random.key(0), (500, 4)) * 10
        for head, classes in ((0, 4), (1, 2), (2, 3)):
            predicted = outputs(learner, weights, inputs, head).argmax(axis=1)
            assert set(np.unique(predicted)) <= set(range(classes))

    def test_accuracy_reads_the_targets_head(self, own):
        learner = learner_for(own)
        data = device_data(own)
        weights, _ = begin(learner, data)
        scores = learner.network.apply(weights, data.validation.inputs).reshape(8, 3, 4)[:, 2, :3]
        expected = scores.argmax(axis=1) == data.validation.labels
        np.testing.assert_array_equal(marks(learner, weights, data.validation), expected)
