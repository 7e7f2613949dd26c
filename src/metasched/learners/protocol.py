"""What the engine asks of a learner: two pure functions, as a scheduler has three."""

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
        reward_index: which of the program's rewards the scheduler is told, int32 ().
        inner_rate: the rate of SGD on scheduled batches that Algorithm 1 begins with.
        outer_rate: the optimiser's rate at the first step, of any learner.
    """

    reward_index: jax.Array
    inner_rate: jax.Array
    outer_rate: jax.Array


State: TypeAlias = Any
"""A NamedTuple of arrays with at least ``stream`` (:class:`Stream`), ``update`` (updates made, int32 ()) and
``hyperparameters``. All but the last is a checkpoint."""


class Update(NamedTuple):
    """What one update did.

    Attributes:
        loss: of the target's rows that it trained on.
        validation_accuracy: on all of the target's labelled rows.
        tasks: int32 (m,), the task of each scheduled batch; N where none was drawn. Empty where batches are mixed.
        rate: the learning rate that was used, a scalar.
        weights: the model to evaluate and to hand out.
        initial: the model that the update started from.
    """

    loss: jax.Array
    validation_accuracy: jax.Array
    tasks: jax.Array
    rate: jax.Array
    weights: Weights
    initial: Weights


def batch_tasks(tasks: jax.Array) -> jax.Array:
    """The tasks of batches (m,); none of mixed ones (m, B), whose rows are counted by task instead."""
    return tasks if tasks.ndim == 1 else jnp.zeros(0, jnp.int32)


class Learner(NamedTuple):
    """Learns from the batches that a scheduler chooses.

    Attributes:
        init: ``init(data, seed, hyperparameters) -> state``; every random number of a run follows from the seed.
        update: ``update(data, state) -> state, update``: m scheduled batches, and one outer step where there is one.
    """

    init: Callable[[Data, Any, Hyperparameters], State]
    update: Callable[[Data, State], tuple[State, Update]]


MakeLearner: TypeAlias = Callable[[Objective, Schedule], Learner]
"""``make(objective, schedule) -> learner``; the objective has the learner's settings."""
