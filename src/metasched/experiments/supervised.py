"""The ceiling: the same network trained on all rows at once, sources and target together."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from metasched.learners.evaluation import full_scorer, read_score
from metasched.learners.losses import Rows, cross_entropy, objective_of, outputs
from metasched.learners.networks import Weights, default_network
from metasched.learners.one_thread import one_thread
from metasched.learners.settings import LearnerSettings
from metasched.learners.stream import device_data, host_rows
from metasched.tasks import TaskSet

RATE = 1e-3
BATCH = 100


class Supervised(NamedTuple):
    """The final test accuracy, balanced accuracy (seeds,) and accuracy by class, and the rows that each network saw."""

    accuracy: list[float]
    balanced: list[float]
    by_class: list[list[float | None]]
    rows: int


@one_thread()
def supervised(
    tasks: TaskSet, network: str, config: LearnerSettings, seeds: list[int], steps: int = 2000
) -> Supervised:
    """Adam on batches of 100 rows, drawn uniformly from all source and validation rows, each under its own head. With
    ``balanced_loss`` the probability of a row is one over the frequency of its label.
    """
    built = default_network(tasks, network, config.heads == "shared")
    objective = objective_of(tasks, built, config)
    data = device_data(tasks, config)
    rows = Rows(
        jnp.concatenate([data.sources.inputs, data.validation.inputs]),
        jnp.concatenate([data.sources.labels, data.validation.labels]),
    )
    owner = np.repeat(np.arange(len(tasks.sizes) + 1), [*tasks.sizes, len(tasks.validation.labels)])
    head = jnp.asarray(np.minimum(owner, objective.heads.number - 1))
    chance = jnp.log(jnp.asarray(_chances(tasks, config), jnp.float32))
    adam = optax.adam(RATE)

    def loss(weights: Weights, batch: jax.Array) -> jax.Array:
        def one(row: jax.Array) -> jax.Array:
            read = outputs(objective, weights, rows.inputs[row][None], head[row])[0]
            return cross_entropy(read, rows.labels[row])

        return jax.vmap(one)(batch).mean()

    def fit(seed: jax.Array) -> Weights:
        first, stream = jax.random.split(jax.random.key(seed))
        weights = built.init(first, rows.inputs[:1])

        def step(number: int, state: tuple[Weights, optax.OptState]) -> tuple[Weights, optax.OptState]:
            weights, moments = state
            batch = jax.random.categorical(jax.random.fold_in(stream, number), chance, shape=(BATCH,))
            change, moments = adam.update(jax.grad(loss)(weights, batch), moments, weights)
            return optax.apply_updates(weights, change), moments

        trained: Weights = jax.lax.fori_loop(0, steps, step, (weights, adam.init(weights)))[0]
        return trained

    counts = np.bincount(tasks.test.labels, minlength=objective.heads.width)
    fitted = jax.jit(lambda seeds: jax.lax.map(fit, seeds))(jnp.asarray(seeds))
    sums = full_scorer(objective)(fitted, host_rows(tasks.test), None)
    scores = [read_score(objective, one, counts) for one in sums]
    return Supervised(
        [score.main for score in scores],
        [score.balanced for score in scores],
        [list(score.by_class) for score in scores],
        len(owner),
    )


def _chances(tasks: TaskSet, config: LearnerSettings) -> NDArray[np.float64]:
    """How often each row is drawn, relative to the others."""
    labels = [*(task.labels for task in tasks.tasks), tasks.validation.labels]
    if not config.balanced_loss:
        return np.ones(sum(map(len, labels)))
    return np.concatenate([1 / np.bincount(part)[part] for part in labels])
