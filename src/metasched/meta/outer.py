"""The outer step: the target's loss after the inner loop, differentiated back to the meta-parameters."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from metasched.meta.config import TrainConfig
from metasched.meta.inner import Data, Learner, Rows, Stream, adapt, hits, loss
from metasched.meta.networks import Weights


class MetaParameters(NamedTuple):
    """λ: the initial weights, and the logarithm of the inner learning rate, so that the rate stays positive."""

    weights: Weights
    log_rate: jax.Array


class MetaState(NamedTuple):
    """All that one meta-update hands to the next; storing it is a checkpoint."""

    parameters: MetaParameters
    optimiser: Any
    stream: Stream
    key: jax.Array
    update: jax.Array


class Outcome(NamedTuple):
    """What one meta-update did: outer loss, validation accuracy, the tasks (m,) drawn, the adapted weights."""

    loss: jax.Array
    validation_accuracy: jax.Array
    tasks: jax.Array
    adapted: Weights


def optimiser(config: TrainConfig) -> optax.GradientTransformation:
    """Adam whose rate falls geometrically from ``outer_rate`` to ``outer_rate · outer_decay`` at the last update."""
    return optax.adam(optax.exponential_decay(config.outer_rate, max(config.meta_updates - 1, 1), config.outer_decay))


def first_state(learner: Learner, data: Data, seed: int) -> MetaState:
    """The state before any meta-update; every random number of the run follows from ``seed``."""
    weights_key, scheduler_key, outer_key = jax.random.split(jax.random.key(seed), 3)
    parameters = MetaParameters(
        learner.network.init(weights_key, data.validation.inputs[:1]),
        jnp.log(jnp.float32(learner.config.inner_rate)),
    )
    nothing_drawn = jnp.zeros((len(data.sizes), learner.heads.width), jnp.int32)
    stream = Stream(learner.scheduler.init(scheduler_key), jnp.zeros_like(data.sizes), nothing_drawn)
    return MetaState(
        parameters,
        optimiser(learner.config).init(parameters),
        stream,
        jax.random.key_data(outer_key),
        jnp.int32(0),
    )


def meta_loss(
    learner: Learner, data: Data, batch: Rows, parameters: MetaParameters, stream: Stream
) -> tuple[jax.Array, tuple[Weights, Stream, jax.Array]]:
    """ℓ(f_w(x), y) on the target's rows ``batch``, with w adapted from ``parameters`` by the scheduled inner loop.

    Its derivative with respect to ``parameters`` is the full second-order meta-gradient: the inner gradients are part
    of the graph.
    """
    adapted, stream, tasks = adapt(learner, data, parameters.weights, jnp.exp(parameters.log_rate), stream)
    return loss(learner, adapted, batch, learner.heads.target), (adapted, stream, tasks)


def meta_update(learner: Learner, data: Data, state: MetaState) -> tuple[MetaState, Outcome]:
    """Step k of Algorithm 1: schedule and adapt, then λ ← Adam(λ, ∇_λ ℓ)."""
    batch = validation_batch(learner.config, data.validation, state)
    (value, (adapted, stream, tasks)), gradient = jax.value_and_grad(meta_loss, argnums=3, has_aux=True)(
        learner, data, batch, state.parameters, state.stream
    )
    change, optimiser_state = optimiser(learner.config).update(gradient, state.optimiser, state.parameters)
    following = MetaState(
        optax.apply_updates(state.parameters, change), optimiser_state, stream, state.key, state.update + 1
    )
    return following, Outcome(value, hits(learner, adapted, data.validation).mean(), tasks, adapted)


def validation_batch(config: TrainConfig, validation: Rows, state: MetaState) -> Rows:
    """The validation rows of one outer step: B drawn without replacement, or all when there are no more than B."""
    rows = len(validation.labels)
    if config.validation_batch == "all" or rows <= config.batch_size:
        return validation
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.update)
    chosen = jax.random.choice(key, rows, (config.batch_size,), replace=False)
    return Rows(validation.inputs[chosen], validation.labels[chosen])
