"""The model before any training, as the two functions that probing asks for."""

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


def initial_model(tasks: TaskSet, network: Network | str, config: TrainConfig, seed: int) -> tuple[Loss, Hits, Weights]:
    """The loss of a batch under a task, the validation rows that weights get right, and the initial weights."""
    built = default_network(tasks, network, config.heads == "shared")
    learner = Learner(built, schedulers.cyclic(len(tasks.tasks)), config, heads_of(tasks, config))
    data = device_data(tasks, config)

    def batch_loss(weights: Weights, inputs: jax.Array, labels: jax.Array, task: jax.Array) -> jax.Array:
        return task_loss(learner, weights, None, Rows(inputs, labels), learner.heads.of_task(jnp.asarray(task)))

    def validation_hits(weights: Weights) -> jax.Array:
        return marks(learner, weights, data.validation) > 0

    return batch_loss, validation_hits, first_state(learner, data, seed).parameters.weights
