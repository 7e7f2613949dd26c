"""The model before any training, as the two functions that probing asks for."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from metasched import schedulers
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
    """The loss of a batch under a task, the validation rows that weights get right, and initial weights by seed."""
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
