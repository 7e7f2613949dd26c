"""Algorithm 1: schedule and adapt, then a step of the initial weights and the inner rate on the target's loss."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax

from metasched.learners import gradients
from metasched.learners.folds import Folds
from metasched.learners.gradients import Estimator, MetaParameters, Scene
from metasched.learners.held_out_schedule import follow, rehearse
from metasched.learners.inner import Adapted, Schedule
from metasched.learners.losses import Objective, Rows, score
from metasched.learners.networks import Weights
from metasched.learners.protocol import Hyperparameters, Learner, Update
from metasched.learners.replicas import copies_of, each_copy
from metasched.learners.settings import AlgorithmOne, LearnerSettings
from metasched.learners.stream import Data, Stream, first_stream, without
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms


class ClassBandit(NamedTuple):
    """UCB over the target's classes: rewards so far, the class last taken, validation accuracy then."""

    arms: Arms
    taken: jax.Array
    accuracy: jax.Array


class Copy(NamedTuple):
    """What is learned by copies of the learner, each without one fold of the target's rows."""

    parameters: MetaParameters
    optimiser: Any


class MetaState(NamedTuple):
    """All that one meta-update hands to the next; storing it is a checkpoint."""

    parameters: MetaParameters
    optimiser: Any
    stream: Stream
    key: jax.Array
    update: jax.Array
    hyperparameters: Hyperparameters
    classes: ClassBandit | None = None
    copies: tuple[Copy, ...] = ()


def meta(objective: Objective, schedule: Schedule) -> Learner:
    """Algorithm 1 as a learner: λ starts as the network's initial weights and the inner rate of the run."""
    settings = cast(AlgorithmOne, objective.settings)

    def stepper(rate: Any) -> optax.GradientTransformation:
        return optimiser(settings, rate, settings.updates)

    def init(data: Data, seed: Any, hyperparameters: Hyperparameters) -> MetaState:
        return first_state(objective, schedule, stepper(hyperparameters.outer_rate), data, seed, hyperparameters)

    def update(data: Data, state: MetaState) -> tuple[MetaState, Update]:
        estimator = gradients.find(settings.gradient)
        return meta_update(objective, schedule, estimator, stepper(state.hyperparameters.outer_rate), data, state)

    return Learner(init, update)


def optimiser(settings: LearnerSettings, rate: Any, steps: int) -> optax.GradientTransformation:
    """The optimiser of the settings. One given by name has no weight decay, and its rate falls from ``rate``.

    It falls geometrically, over so many steps. With ``clip_norm`` a longer gradient is scaled down to that norm first.
    """
    made = settings.optimiser
    if isinstance(made, str):
        plain = {"weight_decay": 0.0} if made in ("adamw", "lion") else {}
        falling = optax.exponential_decay(rate, max(steps - 1, 1), settings.rate_decay)
        made = cast(optax.GradientTransformation, getattr(optax, made)(falling, **plain))
    return made if settings.clip_norm is None else optax.chain(optax.clip_by_global_norm(settings.clip_norm), made)


def seed_keys(seed: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The keys of the initial weights, of the scheduler and of the target's batches: every chance of a run."""
    weights, scheduler, target = jax.random.split(jax.random.key(seed), 3)
    return weights, scheduler, target


def first_state(
    objective: Objective,
    schedule: Schedule,
    outer: optax.GradientTransformation,
    data: Data,
    seed: Any,
    hyperparameters: Hyperparameters,
) -> MetaState:
    """The state before any meta-update; every random number of the run follows from ``seed``."""
    settings, width = cast(AlgorithmOne, objective.settings), objective.heads.width
    weights_key, scheduler_key, outer_key = seed_keys(seed)
    weights = objective.network.init(weights_key, data.validation.inputs[:1])
    parameters = MetaParameters(weights, first_rates(settings, hyperparameters.inner_rate, weights))
    bandit = ClassBandit(arms.first(width, jax.random.fold_in(outer_key, 1)), jnp.int32(-1), jnp.float32(0))
    moments = outer.init(parameters)
    return MetaState(
        parameters,
        moments,
        first_stream(schedule.scheduler, data, width, scheduler_key),
        jax.random.key_data(outer_key),
        jnp.int32(0),
        hyperparameters,
        bandit if settings.target_batch == "ucb" else None,
        copies_of(Copy(parameters, moments), data.folds),
    )


def first_rates(settings: AlgorithmOne, rate: jax.Array, weights: Weights) -> Any:
    """The logarithm of the inner rate, once or for each array or weight."""
    start = jnp.log(rate)
    if settings.inner_rates == "scalar":
        return start
    whole = settings.inner_rates == "parameter"
    return jax.tree.map(lambda leaf: jnp.full(leaf.shape if whole else (), start), weights)


def meta_update(
    objective: Objective,
    schedule: Schedule,
    estimator: Estimator,
    outer: optax.GradientTransformation,
    data: Data,
    state: MetaState,
) -> tuple[MetaState, Update]:
    """Step k of Algorithm 1: schedule and adapt, then λ ← optimiser(λ, ∇_λ ℓ).

    With folds the copies find the schedule; then they and the learner itself adapt along it.
    """

    def outer_step(data: Data, batch: Rows, stream: Stream, copy: Copy) -> tuple[Copy, jax.Array, Adapted]:
        scene = Scene(objective, schedule, data, batch, stream, state.hyperparameters.reward_index)
        (value, adapted), gradient = estimator.find(scene, copy.parameters)
        change, moments = outer.update(gradient, copy.optimiser, copy.parameters)
        return Copy(optax.apply_updates(copy.parameters, change), moments), value, adapted

    def copy_step(fold: Folds, copy: Copy) -> Copy:
        return outer_step(without(data, fold), validation_batch(objective, fold.kept, state)[0], stream, copy)[0]

    stream, after = state.stream, None
    if data.folds:
        parameters = tuple(copy.parameters for copy in state.copies)
        tasks, after = rehearse(objective, schedule, data, parameters, stream, state.hyperparameters.reward_index)
        follower, first = follow(tasks)
        schedule, stream = schedule._replace(scheduler=follower), stream._replace(scheduler=first)
    copies = tuple(each_copy(copy_step, data.folds, state.copies))
    batch, bandit = validation_batch(objective, data.validation, state)
    learned, value, adapted = outer_step(data, batch, stream, Copy(state.parameters, state.optimiser))
    accuracy = score(objective, adapted.weights, data.validation)
    following = state._replace(
        parameters=learned.parameters,
        optimiser=learned.optimiser,
        stream=adapted.stream if after is None else after,
        update=state.update + 1,
        classes=None if bandit is None else _told(bandit, accuracy),
        copies=copies,
    )
    rate = jnp.exp(_mean(state.parameters.log_rate))
    return following, Update(value, accuracy, adapted.tasks, rate, adapted.weights, state.parameters.weights)


def _mean(tree: Any) -> jax.Array:
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)]).mean()


def validation_batch(objective: Objective, validation: Rows, state: MetaState) -> tuple[Rows, ClassBandit | None]:
    """The validation rows of one outer step: B drawn without replacement, or all when there are no more than B.

    With ``ucb`` the rows are those of the class with the highest upper confidence bound, then of the next, in random
    order within a class; the class is told by how much validation accuracy had risen one meta-update later.
    """
    settings, rows = objective.settings, len(validation.labels)
    if settings.target_batch == "all" or rows <= settings.batch_size:
        return validation, state.classes
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.update)
    if settings.target_batch == "uniform" or state.classes is None:
        return validation.take(jax.random.choice(key, rows, (settings.batch_size,), replace=False)), None
    present = jnp.zeros(objective.heads.width).at[validation.labels].add(1) > 0
    time = jnp.maximum(state.classes.arms.turn, 1).astype(jnp.float32)
    bounds = jnp.where(present, arms.upper_bound(state.classes.arms, time, 1.0, 1.1, "spread"), -jnp.inf)
    rank = jnp.argsort(jnp.argsort(bounds))[validation.labels]
    _, chosen = jax.lax.top_k(rank + jax.random.uniform(key, (rows,)), settings.batch_size)
    return validation.take(chosen), state.classes._replace(taken=arms.best(bounds))


def _told(bandit: ClassBandit, accuracy: jax.Array) -> ClassBandit:
    """The bandit with the reward of the class it took; the first measurement has nothing to compare with."""
    first = bandit.arms.turn == 0
    gain = jnp.where(first, 0.0, accuracy - bandit.accuracy)
    return ClassBandit(arms.observe(bandit.arms, bandit.taken, gain), bandit.taken, accuracy)
