"""The model before any training, as the two functions that probing asks for."""

import jax
import jax.numpy as jnp

from metasched import schedulers
from metasched.meta.config import TrainConfig
from metasched.meta.inner import Learner, Rows, device_data, heads_of, hits, loss
from metasched.meta.networks import Network, Weights, default_network
from metasched.meta.outer import first_state
from metasched.planning.rewards import Hits, Loss
from metasched.tasks import TaskSet


def initial_model(tasks: TaskSet, network: Network | str, config: TrainConfig, seed: int) -> tuple[Loss, Hits, Weights]:
    """The loss of a batch under a task, the validation rows that weights get right, and the initial weights."""
    built = default_network(tasks, network)
    learner = Learner(built, schedulers.cyclic(len(tasks.tasks)), config, heads_of(tasks))
    data = device_data(tasks)

    def batch_loss(weights: Weights, inputs: jax.Array, labels: jax.Array, task: jax.Array) -> jax.Array:
        return loss(learner, weights, Rows(inputs, labels), learner.heads.of_task(jnp.asarray(task)))

    def validation_hits(weights: Weights) -> jax.Array:
        return hits(learner, weights, data.validation)

    return batch_loss, validation_hits, first_state(learner, data, seed).parameters.weights
