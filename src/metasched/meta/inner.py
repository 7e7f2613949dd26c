"""The inner loop: scheduled batches, SGD on each, differentiable from end to end."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from metasched.meta.config import TrainConfig
from metasched.meta.networks import Network, Weights, head_width, num_heads
from metasched.schedulers.base import Scheduler
from metasched.tasks import TaskSet


class Heads(NamedTuple):
    """How logits are read: ``number`` heads of ``width`` each, head h with ``classes[h]`` real classes."""

    number: int
    width: int
    classes: tuple[int, ...]

    @property
    def target(self) -> int:
        """The target's head: the only one, or the last."""
        return self.number - 1

    def of_task(self, task: jax.Array) -> jax.Array:
        """The head of a task: its own, or the one that all share."""
        return task if self.number > 1 else jnp.zeros_like(task)


class Learner(NamedTuple):
    """What does not change during a run: the model, who schedules, the resolved settings, the heads."""

    network: Network
    scheduler: Scheduler
    config: TrainConfig
    heads: Heads


class Rows(NamedTuple):
    """Labelled rows on the device: ``inputs`` (n, *shape), ``labels`` (n,)."""

    inputs: jax.Array
    labels: jax.Array


class Data(NamedTuple):
    """The rows a learner may see: all tasks end to end, and the target's validation rows.

    Row u of task i is ``sources`` row ``starts[i] + u``; ``starts`` and ``sizes`` are int32 (N,).
    """

    sources: Rows
    starts: jax.Array
    sizes: jax.Array
    validation: Rows


class Stream(NamedTuple):
    """Where the schedule stands: scheduler state, cursors int32 (N,), rows drawn by task and label int32 (N, C)."""

    scheduler: Any
    cursors: jax.Array
    drawn: jax.Array


def heads_of(tasks: TaskSet) -> Heads:
    """One head for a shared label set, else one for each task and one for the target."""
    own = () if tasks.shared_labels else tuple(len(task.classes) for task in tasks.tasks)
    return Heads(num_heads(tasks), head_width(tasks), (*own, len(tasks.classes)))


def device_data(tasks: TaskSet) -> Data:
    """Copy what the learner may see to the default device; the test rows stay behind."""
    starts = np.concatenate([[0], np.cumsum(tasks.sizes)[:-1]])
    sources = Rows(
        jnp.asarray(np.concatenate([task.inputs for task in tasks.tasks])),
        jnp.asarray(np.concatenate([task.labels for task in tasks.tasks])),
    )
    validation = Rows(jnp.asarray(tasks.validation.inputs), jnp.asarray(tasks.validation.labels))
    return Data(sources, jnp.asarray(starts, jnp.int32), jnp.asarray(tasks.sizes, jnp.int32), validation)


def logits(learner: Learner, weights: Weights, inputs: jax.Array, head: Any) -> jax.Array:
    """Logits (n, width) of one head; a class that the head does not have can never be predicted."""
    heads = learner.heads
    every = learner.network.apply(weights, inputs).reshape(len(inputs), heads.number, heads.width)
    mine = lax.dynamic_index_in_dim(every, jnp.asarray(head), axis=1, keepdims=False)
    real = jnp.arange(heads.width) < jnp.asarray(heads.classes)[head]
    return jnp.where(real, mine, -1e9)


def loss(learner: Learner, weights: Weights, rows: Rows, head: Any) -> jax.Array:
    """Mean of −log softmax(logits)[label]: the paper's cross-entropy and its multinomial logistic loss alike."""
    log_probabilities = jax.nn.log_softmax(logits(learner, weights, rows.inputs, head))
    return -jnp.take_along_axis(log_probabilities, rows.labels[:, None], axis=1).mean()


def hits(learner: Learner, weights: Weights, rows: Rows) -> jax.Array:
    """Which of the target's rows (n,) the target's head gets right."""
    return logits(learner, weights, rows.inputs, learner.heads.target).argmax(axis=1) == rows.labels


def scaled_reward(accuracy: jax.Array, step: jax.Array) -> jax.Array:
    """The paper's time-invariant reward r = 1 − √t·(1 − accuracy); t counts batches since the initial weights."""
    return 1 - jnp.sqrt(step.astype(jnp.float32)) * (1 - accuracy)


def reward(learner: Learner, validation: Rows, before: Weights, after: Weights, step: jax.Array) -> jax.Array:
    """What a batch was worth, by the setting ``reward``: see :class:`~metasched.TrainConfig`."""
    if learner.config.reward == "gain":
        target = learner.heads.target
        return loss(learner, before, validation, target) - loss(learner, after, validation, target)
    accuracy = hits(learner, after, validation).mean()
    return accuracy if learner.config.reward == "accuracy" else scaled_reward(accuracy, step)


def sgd(learner: Learner, weights: Weights, rate: jax.Array, batch: Rows, head: jax.Array) -> Weights:
    """R = ``steps_per_batch`` times w ← w − rate · ∇loss(w) on one batch."""

    def step(weights: Weights, _: None) -> tuple[Weights, None]:
        gradient = jax.grad(loss, argnums=1)(learner, weights, batch, head)
        return jax.tree.map(lambda w, g: w - rate * g, weights, gradient), None

    return lax.scan(step, weights, None, length=learner.config.steps_per_batch)[0]


def adapt(
    learner: Learner, data: Data, weights: Weights, rate: jax.Array, stream: Stream
) -> tuple[Weights, Stream, jax.Array]:
    """Train from ``weights`` at learning rate ``rate`` on m scheduled batches of B rows.

    After each batch the scheduler is told its reward, measured on all validation rows. For a scheduler that ignores
    the reward this costs nothing: the compiler drops what nobody reads. With ``abstain`` the scheduler has an arm N:
    such a batch trains nothing, moves no cursor and draws no rows, and is told its reward like any other.

    Returns:
        Adapted weights, the stream m batches later, and the tasks int32 (m,) the batches came from (N: none).
    """
    config, scheduler = learner.config, learner.scheduler
    offsets = jnp.arange(config.batch_size)
    numbers = jnp.arange(len(data.sizes))

    def train_on(batch: Rows, task: jax.Array, weights: Weights) -> Weights:
        return sgd(learner, weights, rate, batch, learner.heads.of_task(task))

    def one_batch(carry: tuple[Weights, Stream], step: jax.Array) -> tuple[tuple[Weights, Stream], jax.Array]:
        before, stream = carry
        task = scheduler.select(stream.scheduler, data.sources.labels[data.starts + stream.cursors])
        source = jnp.minimum(task, len(data.sizes) - 1) if config.abstain else task
        rows = data.starts[source] + (stream.cursors[source] + offsets) % data.sizes[source]
        batch = Rows(data.sources.inputs[rows], data.sources.labels[rows])
        if config.abstain:
            weights = lax.cond(task == source, train_on, lambda _, __, kept: kept, batch, source, before)
        else:
            weights = train_on(batch, source, before)
        worth = lax.stop_gradient(reward(learner, data.validation, before, weights, step))
        drawn = numbers == task
        moves = drawn if config.cursor == "rested" else jnp.full_like(drawn, task < len(data.sizes))
        labels = jnp.zeros(learner.heads.width, jnp.int32).at[batch.labels].add(1)
        stream = Stream(
            scheduler.update(stream.scheduler, task, worth),
            (stream.cursors + config.batch_size * moves) % data.sizes,
            stream.drawn + drawn[:, None] * labels,
        )
        return (weights, stream), task

    steps = jnp.arange(1, (config.batches_per_update or 0) + 1)
    (weights, stream), tasks = lax.scan(one_batch, (weights, stream), steps)
    return weights, stream, tasks
