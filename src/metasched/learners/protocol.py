"""What the engine needs from a learner: two pure functions, much as a scheduler has three."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from metasched.learners.inner import Schedule
from metasched.learners.losses import Objective
from metasched.learners.networks import Weights
from metasched.learners.stream import Data


class Hyperparameters(NamedTuple):
    """Settings that may differ between runs of one compiled program.

    Attributes:
        reward_index: which of the program's rewards the scheduler gets, int32 ().
        inner_rate: the initial rate of SGD on scheduled batches in Algorithm 1.
        outer_rate: the optimiser's rate at the first step, for every learner.
    """

    reward_index: jax.Array
    inner_rate: jax.Array
    outer_rate: jax.Array


State: TypeAlias = Any
"""A NamedTuple of arrays with at least ``stream`` (:class:`Stream`), ``update`` (the number of updates, int32 ()) and
``hyperparameters``. Without the last, it is a checkpoint.
"""


class Update(NamedTuple):
    """The result of one update.

    Attributes:
        loss: the loss of the target's rows that it trained on.
        validation_accuracy: the accuracy on all of the target's labelled rows.
        tasks: int32 (m,), the task of each scheduled batch; N if none was drawn. Empty if batches are mixed.
        rate: the learning rate, a scalar.
        weights: the model to evaluate and return.
        initial: the model before the update.
    """

    loss: jax.Array
    validation_accuracy: jax.Array
    tasks: jax.Array
    rate: jax.Array
    weights: Weights
    initial: Weights


def batch_tasks(tasks: jax.Array) -> jax.Array:
    """The tasks of batches (m,). Empty for mixed batches (m, B), whose rows are counted by task instead."""
    return tasks if tasks.ndim == 1 else jnp.zeros(0, jnp.int32)


class Learner(NamedTuple):
    """Learns from the batches that a scheduler chooses.

    Attributes:
        init: ``init(data, seed, hyperparameters) -> state``. All random numbers of a run follow from the seed.
        update: ``update(data, state) -> state, update``: m scheduled batches, and one outer step if there is one.
    """

    init: Callable[[Data, Any, Hyperparameters], State]
    update: Callable[[Data, State], tuple[State, Update]]


MakeLearner: TypeAlias = Callable[[Objective, Schedule], Learner]
"""``make(objective, schedule) -> learner``. The objective contains the learner's settings."""
