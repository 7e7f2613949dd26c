"""The outer step: the target's loss after the inner loop, differentiated back to the meta-parameters."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from metasched.meta.config import TrainConfig
from metasched.meta.gradients import adapt
from metasched.meta.inner import Adapted, Data, Knobs, Stream, Tuned, knobs_of, rates_by_array
from metasched.meta.networks import Weights
from metasched.meta.objective import Learner, Rows, score, target_loss
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms


class MetaParameters(NamedTuple):
    """λ: the initial weights, and the logarithm of the inner learning rate, so that the rate stays positive.

    ``log_rate`` is one number, or a tree like the weights with one number for each array or each weight.
    ``emphasis`` (rows of all sources,) are meta-learned log weights of the rows, where ``row_weights`` asks for them.
    """

    weights: Weights
    log_rate: Any
    emphasis: jax.Array | None = None


class ClassBandit(NamedTuple):
    """UCB over the target's classes: rewards so far, the class last taken, validation accuracy then."""

    arms: Arms
    taken: jax.Array
    accuracy: jax.Array


class MetaState(NamedTuple):
    """All that one meta-update hands to the next; storing it is a checkpoint."""

    parameters: MetaParameters
    optimiser: Any
    stream: Stream
    key: jax.Array
    update: jax.Array
    knobs: Knobs
    classes: ClassBandit | None = None


class Outcome(NamedTuple):
    """What one meta-update did: outer loss, validation accuracy, the tasks (m,) drawn, the adapted weights."""

    loss: jax.Array
    validation_accuracy: jax.Array
    tasks: jax.Array
    adapted: Weights


def optimiser(config: TrainConfig, given: optax.GradientTransformation | None = None) -> optax.GradientTransformation:
    """``given``, or the one named in the settings, its rate falling geometrically from the first update to the last.

    With ``outer_clip`` the meta-gradient is shortened to that norm first. No weight decay.
    """
    if given is None:
        rate = optax.exponential_decay(config.outer_rate, max(config.meta_updates - 1, 1), config.outer_decay)
        plain = {"weight_decay": 0.0} if config.optimiser in ("adamw", "lion") else {}
        given = getattr(optax, config.optimiser)(rate, **plain)
    return given if config.outer_clip is None else optax.chain(optax.clip_by_global_norm(config.outer_clip), given)


def first_state(
    learner: Learner, data: Data, seed: int, outer: optax.GradientTransformation | None = None
) -> MetaState:
    """The state before any meta-update; every random number of the run follows from ``seed``."""
    config = learner.config
    weights_key, scheduler_key, outer_key = jax.random.split(jax.random.key(seed), 3)
    weights = learner.network.init(weights_key, data.validation.inputs[:1])
    parameters = MetaParameters(
        weights,
        _first_rates(config, weights),
        jnp.zeros(len(data.sources.labels)) if config.row_weights else None,
    )
    nothing_drawn = jnp.zeros((len(data.sizes), learner.heads.width), jnp.int32)
    bandit = ClassBandit(
        arms.first(learner.heads.width, jax.random.fold_in(outer_key, 1)), jnp.int32(-1), jnp.float32(0)
    )
    return MetaState(
        parameters,
        (outer or optimiser(config)).init(parameters),
        Stream(learner.scheduler.init(scheduler_key), jnp.zeros_like(data.sizes), nothing_drawn),
        jax.random.key_data(outer_key),
        jnp.int32(0),
        knobs_of(config),
        bandit if config.validation_batch == "ucb" else None,
    )


def _first_rates(config: TrainConfig, weights: Weights) -> Any:
    start = jnp.log(jnp.float32(config.inner_rate))
    if config.inner_rates == "scalar":
        return start
    whole = config.inner_rates == "parameter"
    return jax.tree.map(lambda leaf: jnp.full(leaf.shape if whole else (), start), weights)


def tuned(data: Data, parameters: MetaParameters) -> Tuned:
    """What the inner loop starts from, given λ."""
    rates = jax.tree.map(jnp.exp, parameters.log_rate)
    known = [part for part in (data.emphasis, parameters.emphasis) if part is not None]
    return Tuned(parameters.weights, rates, sum(known[1:], known[0]) if known else None)


def meta_loss(
    learner: Learner, data: Data, batch: Rows, parameters: MetaParameters, stream: Stream, knobs: Knobs
) -> tuple[jax.Array, Adapted]:
    """ℓ(f_w(x), y) on the target's rows ``batch``, with w adapted from ``parameters`` by the scheduled inner loop.

    Its derivative with respect to ``parameters`` is the full second-order meta-gradient: the inner gradients are part
    of the graph. ``initial_share`` mixes in the loss of the initial model.
    """
    adapted = adapt(learner, data, tuned(data, parameters), stream, knobs)
    value = target_loss(learner, adapted.weights, batch)
    share = learner.config.initial_share
    if share > 0:
        value = (1 - share) * value + share * target_loss(learner, parameters.weights, batch)
    return value, adapted


def reptile(
    learner: Learner, data: Data, batch: Rows, parameters: MetaParameters, stream: Stream, knobs: Knobs
) -> tuple[tuple[jax.Array, Adapted], MetaParameters]:
    """Reptile's direction w₀ − w: w has seen the scheduled batches and then took one step on the target's rows.

    Reference: Nichol, Achiam, Schulman, *On First-Order Meta-Learning Algorithms*, arXiv:1803.02999. The inner rate
    is not learned.
    """
    start = tuned(data, parameters)
    adapted = adapt(learner, data, start, stream, knobs)
    value, slope = jax.value_and_grad(target_loss, argnums=1)(learner, adapted.weights, batch)
    rates = rates_by_array(start.rates, slope)
    final = jax.tree.map(lambda w, rate, g: w - rate * g, adapted.weights, rates, slope)
    still = jax.tree.map(jnp.zeros_like, parameters)
    return (value, adapted), still._replace(weights=jax.tree.map(jnp.subtract, parameters.weights, final))


def meta_update(
    learner: Learner, data: Data, outer: optax.GradientTransformation, state: MetaState
) -> tuple[MetaState, Outcome]:
    """Step k of Algorithm 1: schedule and adapt, then λ ← optimiser(λ, ∇_λ ℓ)."""
    batch, bandit = validation_batch(learner, data.validation, state)
    find = jax.value_and_grad(meta_loss, argnums=3, has_aux=True)
    if learner.config.gradient == "reptile":
        find = reptile
    (value, adapted), gradient = find(learner, data, batch, state.parameters, state.stream, state.knobs)
    change, optimiser_state = outer.update(gradient, state.optimiser, state.parameters)
    change = jax.tree.map(lambda step: step * state.knobs.outer, change)
    accuracy = score(learner, adapted.weights, data.validation)
    following = state._replace(
        parameters=optax.apply_updates(state.parameters, change),
        optimiser=optimiser_state,
        stream=adapted.stream,
        update=state.update + 1,
        classes=None if bandit is None else _told(bandit, accuracy),
    )
    return following, Outcome(value, accuracy, adapted.tasks, adapted.weights)


def validation_batch(learner: Learner, validation: Rows, state: MetaState) -> tuple[Rows, ClassBandit | None]:
    """The validation rows of one outer step: B drawn without replacement, or all when there are no more than B.

    With ``ucb`` the rows are those of the class with the highest upper confidence bound, then of the next, in random
    order within a class; the class is told by how much validation accuracy had risen one meta-update later.
    """
    config, rows = learner.config, len(validation.labels)
    if config.validation_batch == "all" or rows <= config.batch_size:
        return validation, state.classes
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.update)
    if config.validation_batch == "uniform" or state.classes is None:
        return validation.take(jax.random.choice(key, rows, (config.batch_size,), replace=False)), None
    present = jnp.zeros(learner.heads.width).at[validation.labels].add(1) > 0
    time = jnp.maximum(state.classes.arms.turn, 1).astype(jnp.float32)
    bounds = jnp.where(present, arms.upper_bound(state.classes.arms, time, 1.0, 1.1, "spread"), -jnp.inf)
    rank = jnp.argsort(jnp.argsort(bounds))[validation.labels]
    _, chosen = jax.lax.top_k(rank + jax.random.uniform(key, (rows,)), config.batch_size)
    return validation.take(chosen), state.classes._replace(taken=arms.best(bounds))


def _told(bandit: ClassBandit, accuracy: jax.Array) -> ClassBandit:
    """The bandit with the reward of the class it took; the first measurement has nothing to compare with."""
    first = bandit.arms.turn == 0
    gain = jnp.where(first, 0.0, accuracy - bandit.accuracy)
    return ClassBandit(arms.observe(bandit.arms, bandit.taken, gain), bandit.taken, accuracy)
