"""The inner loop: SGD on the scheduled rows, against the same loop spelled out on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import make_own_label_tasks, make_tasks
from metasched.learners import gradients
from metasched.learners.inner import Start
from metasched.learners.losses import row_scores
from metasched.learners.stream import device_data
from metasched.schedulers.base import Scheduler
from scenes import first_of, follow, objective_for, scene_of


class Walked:
    """A fixed schedule, walked once: objective, data, first weights, and what came of them."""

    def __init__(self, tasks, scheduler, rate=0.1, reward="transfer", **config):
        self.objective = objective_for(tasks, **config)
        self.data = device_data(tasks, self.objective.settings)
        self.schedule, self.state = first_of(self.objective, self.data, scheduler, reward=reward)
        self.before = self.state.parameters.weights
        self.rate = jnp.float32(rate)
        self.adapted = jax.jit(self.adapt)(self.before)

    def adapt(self, weights):
        scene = scene_of(self.objective, self.schedule, self.data, self.state)
        return gradients.scanned(scene, Start(weights, self.rate))


def numpy_sgd(network, tasks, order, batch_size, steps, rate, weights):
    """The same loop, spelled out on the host with one gradient at a time."""
    cursors = [0] * len(tasks.tasks)

    @jax.jit
    def slope(weights, x, y):
        def loss(weights):
            return -(jax.nn.log_softmax(network.apply(weights, x))[jnp.arange(len(y)), y]).mean()

        return jax.grad(loss)(weights)

    for number in order:
        task = tasks.tasks[number]
        rows = [(cursors[number] + offset) % len(task) for offset in range(batch_size)]
        cursors[number] = (cursors[number] + batch_size) % len(task)
        for _ in range(steps):
            gradient = slope(weights, task.inputs[rows], task.labels[rows])
            weights = jax.tree.map(lambda w, g: w - rate * g, weights, gradient)
    return weights, cursors


@pytest.mark.parametrize("steps", [1, 3])
def test_adapting_is_sgd_on_the_scheduled_rows_with_cursors_that_wrap(steps):
    tasks = make_tasks(sizes=(12, 20, 9))
    order = [2, 0, 2, 1, 2, 2, 0]
    walked = Walked(tasks, follow(order), batches_per_update=len(order), steps_per_batch=steps)
    expected, cursors = numpy_sgd(walked.objective.network, tasks, order, 4, steps, 0.1, walked.before)
    after = walked.adapted.stream
    assert walked.adapted.tasks.tolist() == order
    assert after.cursors.tolist() == cursors == [8, 4, 7]
    assert after.drawn.sum(axis=1).tolist() == [8, 4, 16]
    seen = np.bincount(tasks.tasks[0].labels[:8], minlength=3)
    assert after.drawn[0].tolist() == seen.tolist()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), walked.adapted.weights, expected)


def test_global_cursors_all_move_with_every_batch():
    walked = Walked(make_tasks(sizes=(12, 20, 9)), follow([0, 1, 1]), batches_per_update=3, cursor="global")
    assert walked.adapted.stream.cursors.tolist() == [0, 12, 3]
    assert walked.adapted.stream.drawn.sum(axis=1).tolist() == [4, 8, 0]


class TestAbstaining:
    @pytest.mark.parametrize("cursor", ["rested", "global"])
    def test_an_abstained_batch_trains_nothing_moves_nothing_and_is_rewarded(self, cursor):
        tasks = make_tasks(sizes=(12, 20, 9))
        order = [3, 2, 3, 0, 3]
        walked = Walked(tasks, follow(order), batches_per_update=5, cursor=cursor, abstain=True, reward="scaled")
        plain = Walked(tasks, follow([2, 0]), batches_per_update=2, cursor=cursor).adapted
        adapted, stream = walked.adapted.weights, walked.adapted.stream
        assert walked.adapted.tasks.tolist() == order
        assert stream.cursors.tolist() == plain.stream.cursors.tolist()
        assert stream.drawn.tolist() == plain.stream.drawn.tolist()
        assert stream.drawn.sum(axis=1).tolist() == [4, 0, 4]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), adapted, plain.weights)
        accuracy = float(row_scores(walked.objective, adapted, walked.data.validation).mean())
        assert float(stream.scheduler[1][4]) == pytest.approx(1 - 5**0.5 * (1 - accuracy), abs=1e-6)

    def test_it_lets_the_meta_gradient_through(self):
        walked = Walked(make_tasks(sizes=(12, 20, 9)), follow([3, 3]), batches_per_update=2, abstain=True)

        def total(weights):
            return sum(leaf.sum() for leaf in jax.tree.leaves(walked.adapt(weights).weights))

        for gradient in jax.tree.leaves(jax.grad(total)(walked.before)):
            np.testing.assert_allclose(gradient, 1.0)


def test_the_scheduler_sees_the_labels_at_the_cursors_when_it_chooses_and_when_it_is_told():
    """Choosing the task with the largest label keeps the labels of each turn as the state."""
    tasks = make_tasks(sizes=(12, 20, 9))
    by_label = Scheduler(
        lambda key: (jnp.int32(0), jnp.zeros((3, 3), jnp.int32)),
        lambda state, labels: jnp.argmax(labels),
        lambda state, labels, task, reward: (state[0] + 1, state[1].at[state[0]].set(labels)),
    )
    walked = Walked(tasks, by_label, batches_per_update=3)
    cursors = np.zeros(3, int)
    for turn in range(3):
        labels = [int(task.labels[cursor]) for task, cursor in zip(tasks.tasks, cursors, strict=True)]
        assert walked.adapted.stream.scheduler[1][turn].tolist() == labels
        assert walked.adapted.tasks[turn] == np.argmax(labels)
        cursors[np.argmax(labels)] += 4


def test_training_one_task_leaves_the_other_heads_alone():
    walked = Walked(make_own_label_tasks(), follow([0, 0]), batches_per_update=2)
    after, before = walked.adapted.weights, walked.before
    change = np.abs(np.asarray(after[-1]["w"] - before[-1]["w"])).reshape(6, 3, 4).max(axis=(0, 2))
    assert change[0] > 0
    assert change[1] == change[2] == 0
    assert np.abs(after[0]["w"] - before[0]["w"]).max() > 0
