"""What a model's outputs are worth: heads, losses, scores and the reward a scheduler is told."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from metasched.meta.config import REWARDS, TrainConfig
from metasched.meta.networks import Network, Weights, head_width, num_heads
from metasched.schedulers.base import Scheduler
from metasched.tasks import TaskSet

Loss: TypeAlias = Callable[[jax.Array, jax.Array], jax.Array]
"""``loss(outputs (width,), answer) -> scalar`` of *one* row; the answer is a label, or targets (d,) in regression."""


def cross_entropy(outputs: jax.Array, label: jax.Array) -> jax.Array:
    """−log softmax(outputs)[label]: the paper's cross-entropy and its multinomial logistic loss alike."""
    return -jax.nn.log_softmax(outputs)[label]


def squared_error(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """½·‖outputs − targets‖²."""
    return 0.5 * jnp.sum((outputs - targets) ** 2)


class Heads(NamedTuple):
    """How outputs are read: ``number`` heads of ``width`` each, head h with ``classes[h]`` real classes."""

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


class Losses(NamedTuple):
    """The loss of the tasks' rows and that of the target's."""

    task: Loss = cross_entropy
    target: Loss = cross_entropy


class Learner(NamedTuple):
    """What does not change during a run: the model, who schedules, the resolved settings, heads and losses.

    ``variance`` is None for classification; in regression it is the variance of the validation targets, the unit in
    which errors are counted.
    """

    network: Network
    scheduler: Scheduler
    config: TrainConfig
    heads: Heads
    losses: Losses = Losses()
    variance: float | None = None


class Rows(NamedTuple):
    """Labelled rows on the device: ``inputs`` (n, *shape), ``labels`` (n,), and in regression ``targets`` (n, d)."""

    inputs: jax.Array
    labels: jax.Array
    targets: jax.Array | None = None

    @property
    def answers(self) -> jax.Array:
        """What a loss compares outputs with."""
        return self.labels if self.targets is None else self.targets

    def take(self, index: Any) -> "Rows":
        """The rows at ``index``."""
        targets = None if self.targets is None else self.targets[index]
        return Rows(self.inputs[index], self.labels[index], targets)


class Judgement(NamedTuple):
    """Loss and score of a model on the rows that decide rewards."""

    loss: jax.Array
    score: jax.Array


def heads_of(tasks: TaskSet, config: TrainConfig | None = None) -> Heads:
    """One head for a shared label set (or ``heads="shared"``), else one for each task and one for the target."""
    shared = config is not None and config.heads == "shared"
    number, width = num_heads(tasks, shared), head_width(tasks)
    if tasks.shared_labels:
        return Heads(number, width, (len(tasks.classes),))
    if shared:
        return Heads(number, width, (width,))
    return Heads(number, width, (*(len(task.classes) for task in tasks.tasks), len(tasks.classes)))


def outputs(learner: Learner, weights: Weights, inputs: jax.Array, head: Any) -> jax.Array:
    """Outputs (n, width) of one head; a class that the head does not have can never be predicted.

    With ``precision="bfloat16"`` the network runs in that type; what comes out is float32 again.
    """
    if learner.config.precision == "bfloat16":
        weights, inputs = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (weights, inputs))
    raw = learner.network.apply(weights, inputs)
    if learner.config.precision == "bfloat16":
        raw = raw.astype(jnp.float32)
    if learner.variance is not None:
        return raw
    heads = learner.heads
    mine = raw.reshape(len(inputs), heads.number, heads.width)
    mine = mine[:, 0] if heads.number == 1 else lax.dynamic_index_in_dim(mine, jnp.asarray(head), 1, keepdims=False)
    if set(heads.classes) == {heads.width}:
        return mine
    return jnp.where(jnp.arange(heads.width) < jnp.asarray(heads.classes)[head], mine, -1e9)


def row_losses(learner: Learner, weights: Weights, rows: Rows, head: Any, loss: Loss) -> jax.Array:
    """The loss (n,) of every row."""
    return jax.vmap(loss)(outputs(learner, weights, rows.inputs, head), rows.answers)


def task_loss(learner: Learner, weights: Weights, emphasis: jax.Array | None, batch: Rows, head: Any) -> jax.Array:
    """Σ_u softmax(emphasis)_u · loss_u over a batch; without ``emphasis`` (B,) the plain mean."""
    losses = row_losses(learner, weights, batch, head, learner.losses.task)
    return losses.mean() if emphasis is None else jnp.sum(jax.nn.softmax(emphasis) * losses)


def target_loss(learner: Learner, weights: Weights, rows: Rows) -> jax.Array:
    """Mean loss of the target's rows under the target's head."""
    return row_losses(learner, weights, rows, learner.heads.target, learner.losses.target).mean()


def marks(learner: Learner, weights: Weights, rows: Rows) -> jax.Array:
    """What each of the target's rows (n,) scores: 1 for the right class and 0 for a wrong one.

    In regression 1 − squared error / variance of the validation targets, so that predicting their mean scores 0.
    """
    read = outputs(learner, weights, rows.inputs, learner.heads.target)
    if learner.variance is None or rows.targets is None:
        return (read.argmax(axis=1) == rows.labels).astype(jnp.float32)
    return 1 - ((read - rows.targets) ** 2).sum(axis=1) / learner.variance


def average(config: TrainConfig, marks: jax.Array, labels: jax.Array, classes: int) -> jax.Array:
    """The mean mark; with ``balanced_accuracy`` the mean over classes, of those that occur, of each one's mean."""
    if not config.balanced_accuracy:
        return marks.mean()
    counts = jnp.zeros(classes).at[labels].add(1)
    sums = jnp.zeros(classes).at[labels].add(marks)
    present = counts > 0
    return jnp.sum(jnp.where(present, sums / jnp.maximum(counts, 1), 0)) / present.sum()


def score(learner: Learner, weights: Weights, rows: Rows) -> jax.Array:
    """Accuracy on the target's rows, balanced where the settings say so; in regression 1 − scaled error."""
    return average(learner.config, marks(learner, weights, rows), rows.labels, learner.heads.width)


def judge(learner: Learner, weights: Weights, rows: Rows) -> Judgement:
    """What rewards are made from; no gradient flows through it."""
    fixed = lax.stop_gradient(weights)
    return Judgement(target_loss(learner, fixed, rows), score(learner, fixed, rows))


def scaled_reward(accuracy: jax.Array, step: jax.Array) -> jax.Array:
    """The paper's time-invariant reward r = 1 − √t·(1 − accuracy); t counts batches since the initial weights."""
    return 1 - jnp.sqrt(step.astype(jnp.float32)) * (1 - accuracy)


def reward(kind: jax.Array, before: Judgement, after: Judgement, step: jax.Array) -> jax.Array:
    """What a batch was worth, by the setting ``reward`` (``kind`` numbers ``REWARDS``)."""
    worths = {
        "scaled": scaled_reward(after.score, step),
        "accuracy": after.score,
        "gain": before.loss - after.loss,
    }
    return lax.select_n(kind, *(worths[name].astype(jnp.float32) for name in REWARDS))
