"""The model before any training, as the two functions that probing asks for."""

from collections.abc import Callable
from typing import NoReturn

import jax
import jax.numpy as jnp

from metasched import schedulers
from metasched.errors import ConfigError
from metasched.meta.config import TrainConfig
from metasched.meta.inner import device_data
from metasched.meta.networks import Network, Weights, default_network
from metasched.meta.objective import Learner, Rows, heads_of, marks, task_loss
from metasched.meta.outer import first_state
from metasched.planning.rewards import Hits, Loss
from metasched.tasks import TaskSet

Start = Callable[[int], Weights]
"""Initial weights by seed."""


def initial_model(tasks: TaskSet, network: Network | str, config: TrainConfig) -> tuple[Loss, Hits, Start]:
    """The loss of a batch under a task, the validation rows that weights get right, and initial weights by seed.

    None of this is for numbers to predict: there are no rows that a model gets right.
    """
    if tasks.target_size is not None:
        return _no_labels, _no_labels, _no_labels
    built = default_network(tasks, network, config.heads == "shared")
    learner = Learner(built, schedulers.cyclic(len(tasks.tasks)), config, heads_of(tasks, config))
    data = device_data(tasks, config)

    def batch_loss(weights: Weights, inputs: jax.Array, labels: jax.Array, task: jax.Array) -> jax.Array:
        return task_loss(learner, weights, None, Rows(inputs, labels), learner.heads.of_task(jnp.asarray(task)))

    def validation_hits(weights: Weights) -> jax.Array:
        return marks(learner, weights, data.validation) > 0

    def start(seed: int) -> Weights:
        return first_state(learner, data, seed).parameters.weights

    return batch_loss, validation_hits, start


def _no_labels(*_: object) -> NoReturn:
    raise ConfigError(
        "the initial model is probed by the labels it predicts, and these tasks have numbers; "
        "use a scheduler that learns while training (gittins and mdp with refresh of 1 or more, ucb, …)"
    )
