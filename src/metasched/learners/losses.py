"""Losses and scores of a model's outputs."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from metasched.errors import DataError
from metasched.learners.networks import Heads, Network, Weights, heads_of
from metasched.learners.settings import LearnerSettings
from metasched.tasks import TaskSet

WORST_ERROR = 4.0
"""A row whose squared error is larger than this, in variances of the validation targets, counts as hopeless."""

Loss: TypeAlias = Callable[[jax.Array, jax.Array], jax.Array]
"""``loss(outputs (width,), answer) -> scalar`` of *one* row. The answer is a label or, in regression, targets (d,)."""


def cross_entropy(outputs: jax.Array, label: jax.Array) -> jax.Array:
    """−log softmax(outputs)[label], the paper's cross-entropy and also its multinomial logistic loss."""
    return -jax.nn.log_softmax(outputs)[label]


def squared_error(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """½·‖outputs − targets‖²."""
    return 0.5 * jnp.sum((outputs - targets) ** 2)


class Losses(NamedTuple):
    """The losses of the tasks' rows and of the target's rows."""

    task: Loss = cross_entropy
    target: Loss = cross_entropy


class Unit(NamedTuple):
    """The unit of numbers to predict: the network learns (target − centre) / scale, so their size does not matter.

    ``centre`` and ``scale`` (d,) are the mean and the standard deviation of the targets of all labelled rows, of the
    sources and of the target. ``variance`` is the variance of the validation targets, summed over their numbers. It is
    the unit of squared errors.
    """

    variance: Any
    centre: Any
    scale: Any


class Objective(NamedTuple):
    """What to learn and how to score it: the network, the resolved settings, heads and losses.

    ``unit`` is None for classification. In a compiled program it is an input (:func:`measured`), so that task sets with
    other targets share the program. With ``abstain`` the scheduler has one more arm, which draws no rows.
    """

    network: Network
    settings: LearnerSettings
    heads: Heads
    losses: Losses = Losses()
    unit: Unit | None = None
    abstain: bool = False

    @property
    def variance(self) -> Any:
        """The variance of the validation targets, the unit of squared errors in regression. None for classification."""
        return None if self.unit is None else self.unit.variance


class Rows(NamedTuple):
    """Labelled rows on the device: ``inputs`` (n, *shape), ``labels`` (n,) and, in regression, ``targets`` (n, d)."""

    inputs: jax.Array
    labels: jax.Array
    targets: jax.Array | None = None

    @property
    def answers(self) -> jax.Array:
        """The answers with which a loss compares outputs."""
        return self.labels if self.targets is None else self.targets

    def take(self, index: Any) -> "Rows":
        """The rows at ``index``."""
        targets = None if self.targets is None else self.targets[index]
        return Rows(self.inputs[index], self.labels[index], targets)


def objective_of(
    tasks: TaskSet, network: Network, settings: LearnerSettings, losses: Losses | None = None
) -> Objective:
    """The objective of a task set. By default the loss is cross-entropy or, in regression, the squared error."""
    heads = heads_of(tasks, settings.heads == "shared")
    if tasks.target_size is None or tasks.validation.targets is None:
        return Objective(network, settings, heads, losses or Losses())
    unit = unit_of(tasks)
    if unit is None or unit.variance == 0:
        raise DataError(f"{tasks.name}: the validation targets are all equal, so errors have no unit; give more rows")
    return Objective(network, settings, heads, losses or Losses(squared_error, squared_error), unit)


def unit_of(tasks: TaskSet) -> Unit | None:
    """The unit of the numbers of a task set, as Python numbers. None for classification."""
    if tasks.validation.targets is None:
        return None
    known = tasks.validation.targets.astype(np.float64)
    sources = [task.targets.astype(np.float64) for task in tasks.tasks if task.targets is not None]
    every = np.concatenate([*sources, known])
    centre, scale = every.mean(axis=0), every.std(axis=0)
    # A number that is the same everywhere, apart from the rounding of float32, cannot be scaled.
    scale = np.where(scale > 1e-6 * np.abs(centre), scale, 1.0)
    return Unit(float(np.var(known, axis=0).sum()), tuple(centre.tolist()), tuple(scale.tolist()))


def device_unit(unit: Unit | None) -> Unit | None:
    """The same unit as arrays, for a compiled program."""
    return None if unit is None else Unit(*(jnp.asarray(part, jnp.float32) for part in unit))


def measured(objective: Objective, unit: Unit | None) -> Objective:
    """The objective in this unit, or unchanged if there is none."""
    return objective if unit is None else objective._replace(unit=unit)


def deviation_of(tasks: TaskSet) -> float | None:
    """The standard deviation of the validation targets, over all their numbers. None for classification."""
    known = tasks.validation.targets
    return None if known is None else float(np.sqrt(np.var(known.astype(np.float64), axis=0).mean()))


def outputs(objective: Objective, weights: Weights, inputs: jax.Array, head: Any) -> jax.Array:
    """The outputs (n, width) of one head, or of a head for each row (n,).

    A class that a head lacks is never predicted. In regression the outputs are numbers (n, d) in the unit of the
    targets.
    """
    raw = _raw(objective, weights, inputs)
    if objective.unit is not None:
        return jnp.asarray(objective.unit.centre) + jnp.asarray(objective.unit.scale) * raw
    heads = objective.heads
    mine = raw.reshape(inputs.shape[0], heads.number, heads.width)
    if heads.number == 1:
        mine = mine[:, 0]
    elif jnp.ndim(head) == 1:
        mine = jnp.take_along_axis(mine, head[:, None, None], axis=1)[:, 0]
    else:
        mine = lax.dynamic_index_in_dim(mine, jnp.asarray(head), 1, keepdims=False)
    if set(heads.classes) == {heads.width}:
        return mine
    return jnp.where(jnp.arange(heads.width) < jnp.asarray(heads.classes)[head][..., None], mine, -1e9)


def _raw(objective: Objective, weights: Weights, inputs: jax.Array) -> jax.Array:
    """The raw outputs (n, outputs) of all heads; in regression, standardised targets.

    With ``precision="bfloat16"`` the network computes in this type. The outputs are always float32.
    """
    if objective.settings.precision == "bfloat16":
        weights, inputs = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (weights, inputs))
    raw = objective.network.apply(weights, inputs)
    if objective.settings.precision == "bfloat16":
        raw = raw.astype(jnp.float32)
    return raw


def row_losses(objective: Objective, weights: Weights, rows: Rows, head: Any, loss: Loss) -> jax.Array:
    """The loss (n,) of every row.

    In regression the default loss uses standardised targets. A user's own loss gets outputs and targets in their own
    unit, because their size may matter to it.
    """
    if objective.unit is not None and loss is squared_error:
        return jax.vmap(loss)(*_standardised(objective, objective.unit, weights, rows))
    return jax.vmap(loss)(outputs(objective, weights, rows.inputs, head), rows.answers)


def _standardised(objective: Objective, unit: Unit, weights: Weights, rows: Rows) -> tuple[jax.Array, jax.Array]:
    """Outputs and targets (n, d) in the standardised form that the network learns."""
    known = (rows.answers - jnp.asarray(unit.centre)) / jnp.asarray(unit.scale)
    return _raw(objective, weights, rows.inputs), known


def _squared_errors(objective: Objective, unit: Unit, weights: Weights, rows: Rows) -> jax.Array:
    """‖outputs − targets‖² (n,) in variances of the validation targets."""
    read, known = _standardised(objective, unit, weights, rows)
    # Differences are computed before scaling back, because large outputs and targets have few digits left.
    errors: jax.Array = (((read - known) * jnp.asarray(unit.scale)) ** 2).sum(axis=1) / unit.variance
    return errors


def task_loss(
    objective: Objective, weights: Weights, row_weights: jax.Array | None, batch: Rows, head: Any
) -> jax.Array:
    """Σ_u row_weights_u · loss_u over a batch, or the plain mean without ``row_weights`` (B,)."""
    losses = row_losses(objective, weights, batch, head, objective.losses.task)
    return losses.mean() if row_weights is None else jnp.sum(row_weights * losses)


def target_loss(objective: Objective, weights: Weights, rows: Rows) -> jax.Array:
    """The mean loss of the target's rows under the target's head."""
    return row_losses(objective, weights, rows, objective.heads.target, objective.losses.target).mean()


def row_scores(objective: Objective, weights: Weights, rows: Rows) -> jax.Array:
    """The score (n,) of each of the target's rows: 1 for the right class and 0 for a wrong one.

    In regression it is 1 − squared error / variance of the validation targets, so that predicting their mean scores 0.
    """
    if objective.unit is not None and rows.targets is not None:
        return 1 - _squared_errors(objective, objective.unit, weights, rows)
    read = outputs(objective, weights, rows.inputs, objective.heads.target)
    return (read.argmax(axis=1) == rows.labels).astype(jnp.float32)


def average(settings: LearnerSettings, row_scores: jax.Array, labels: jax.Array, classes: int) -> jax.Array:
    """The mean score. With ``balanced_accuracy``, the mean over the occurring classes of the mean of each class."""
    if not settings.balanced_accuracy:
        return row_scores.mean()
    counts = jnp.zeros(classes).at[labels].add(1)
    sums = jnp.zeros(classes).at[labels].add(row_scores)
    present = counts > 0
    return jnp.sum(jnp.where(present, sums / jnp.maximum(counts, 1), 0)) / present.sum()


def score(objective: Objective, weights: Weights, rows: Rows) -> jax.Array:
    """Accuracy on the target's rows, balanced if the settings say so; in regression 1 − scaled error."""
    return average(objective.settings, row_scores(objective, weights, rows), rows.labels, objective.heads.width)


def goodness(objective: Objective, weights: Weights, rows: Rows, head: Any) -> jax.Array:
    """a(w; rows): a smooth version of the score, so that it has a gradient.

    It is the mean probability of the right label (with ``balanced_accuracy`` averaged by class). In regression it is
    −½·squared error / variance of the validation targets, where errors beyond two standard deviations count as two.
    So rows that are already learned have hardly any gradient, and hopeless rows have none.
    """
    each = row_goodness(objective, weights, rows, head)
    if objective.variance is not None:
        return each.mean()
    return average(objective.settings, each, rows.labels, objective.heads.width)


def row_goodness(objective: Objective, weights: Weights, rows: Rows, head: Any) -> jax.Array:
    """The smooth score (n,) of each row. :func:`goodness` is their average."""
    if objective.unit is not None and rows.targets is not None:
        return -0.5 * jnp.minimum(_squared_errors(objective, objective.unit, weights, rows), WORST_ERROR)
    read = outputs(objective, weights, rows.inputs, head)
    return jnp.take_along_axis(jax.nn.softmax(read), rows.labels[:, None], axis=1)[:, 0]
