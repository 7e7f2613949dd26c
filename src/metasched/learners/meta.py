"""Algorithm 1: schedule batches and adapt to them, then change the initial weights and the inner rate by the target's
loss.
"""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jax import lax

from metasched.learners import gradients
from metasched.learners.folds import Folds, copies_of, each_copy, mean_reward
from metasched.learners.gradients import MetaParameters, start_of
from metasched.learners.inner import Adapted, Scene, Schedule, Walk, batch_numbers, first_walk, learn
from metasched.learners.losses import Objective, Rows, score
from metasched.learners.protocol import Hyperparameters, Learner, Update, batch_tasks
from metasched.learners.settings import AlgorithmOne, LearnerSettings
from metasched.learners.stream import Data, Stream, advance, first_stream, next_batch, target_batch, without
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler
from metasched.schedulers.rows import Cursors, RowScheduler


class ClassBandit(NamedTuple):
    """UCB over the target's classes: the rewards so far, the class that was taken last, and the validation accuracy
    then.
    """

    arms: Arms
    taken: jax.Array
    accuracy: jax.Array


class Copy(NamedTuple):
    """What is learned by copies of the learner, each without one fold of the target's rows."""

    parameters: MetaParameters
    optimiser: Any


class MetaState(NamedTuple):
    """Everything that one meta-update passes on to the next. Storing it makes a checkpoint."""

    parameters: MetaParameters
    optimiser: Any
    stream: Stream
    key: jax.Array
    update: jax.Array
    hyperparameters: Hyperparameters
    classes: ClassBandit | None = None
    copies: tuple[Copy, ...] = ()


def meta(objective: Objective, schedule: Schedule) -> Learner:
    """Algorithm 1 as a learner. λ starts with the network's initial weights and the inner rate of the run."""
    settings, width = cast(AlgorithmOne, objective.settings), objective.heads.width

    def outer(hyperparameters: Hyperparameters) -> optax.GradientTransformation:
        return optimiser(settings, hyperparameters.outer_rate, settings.updates)

    def init(data: Data, seed: Any, hyperparameters: Hyperparameters) -> MetaState:
        weights_key, scheduler_key, outer_key = seed_keys(seed)
        weights = objective.network.init(weights_key, data.validation.inputs[:1])
        parameters = MetaParameters(weights, jnp.log(hyperparameters.inner_rate))
        bandit = ClassBandit(arms.first(width, jax.random.fold_in(outer_key, 1)), jnp.int32(-1), jnp.float32(0))
        moments = outer(hyperparameters).init(parameters)
        return MetaState(
            parameters,
            moments,
            first_stream(schedule.scheduler, data, width, scheduler_key, schedule.sums),
            jax.random.key_data(outer_key),
            jnp.int32(0),
            hyperparameters,
            bandit if settings.target_batch == "ucb" else None,
            copies_of(Copy(parameters, moments), data.folds),
        )

    def update(data: Data, state: MetaState) -> tuple[MetaState, Update]:
        return meta_update(objective, schedule, outer(state.hyperparameters), data, state)

    return Learner(init, update)


def optimiser(settings: LearnerSettings, rate: Any, steps: int) -> optax.GradientTransformation:
    """The optimiser of the settings.

    An optimiser given by name has no weight decay, and its rate falls geometrically from ``rate`` over the given number
    of steps. With ``clip_norm`` a longer gradient is first scaled down to this norm.
    """
    made = settings.optimiser
    if isinstance(made, str):
        plain = {"weight_decay": 0.0} if made in ("adamw", "lion") else {}
        falling = optax.exponential_decay(rate, max(steps - 1, 1), settings.rate_decay)
        made = cast(optax.GradientTransformation, getattr(optax, made)(falling, **plain))
    return made if settings.clip_norm is None else optax.chain(optax.clip_by_global_norm(settings.clip_norm), made)


def seed_keys(seed: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The keys of the initial weights, of the scheduler and of the target's batches: all random numbers of a run."""
    weights, scheduler, target = jax.random.split(jax.random.key(seed), 3)
    return weights, scheduler, target


def meta_update(
    objective: Objective, schedule: Schedule, outer: optax.GradientTransformation, data: Data, state: MetaState
) -> tuple[MetaState, Update]:
    """Step k of Algorithm 1: schedule and adapt, then λ ← optimiser(λ, ∇_λ ℓ).

    With folds, the copies find the schedule. Then they and the learner itself adapt along it.
    """
    estimator = gradients.find(cast(AlgorithmOne, objective.settings).gradient)
    batch, bandit = validation_batch(objective, data.validation, state)
    scene = Scene(objective, schedule, data, batch, state.stream, state.hyperparameters.reward_index)
    after = None
    if data.folds:
        # Rewards must come from rows that a model has not seen, and every model must see the same source batches. So
        # the copies go through the inner loop first, without derivatives, and the learner then follows their choices.
        tasks, after = held_out_schedule(scene, tuple(copy.parameters for copy in state.copies))
        follower, first = follow(tasks)
        stream = state.stream._replace(scheduler=first, rewards=None)  # the copies have already added them up
        scene = scene._replace(schedule=schedule._replace(scheduler=follower), stream=stream)

    def outer_step(scene: Scene, copy: Copy) -> tuple[Copy, jax.Array, Adapted]:
        (value, adapted), gradient = estimator.find(scene, copy.parameters)
        change, moments = outer.update(gradient, copy.optimiser, copy.parameters)
        return Copy(optax.apply_updates(copy.parameters, change), moments), value, adapted

    def copy_step(fold: Folds, copy: Copy) -> Copy:
        own = validation_batch(objective, fold.kept, state)[0]
        return outer_step(scene._replace(data=without(data, fold), batch=own), copy)[0]

    copies = tuple(each_copy(copy_step, data.folds, state.copies))
    learned, value, adapted = outer_step(scene, Copy(state.parameters, state.optimiser))
    accuracy = score(objective, adapted.weights, data.validation)
    following = state._replace(
        parameters=learned.parameters,
        optimiser=learned.optimiser,
        stream=adapted.stream if after is None else after,
        update=state.update + 1,
        classes=None if bandit is None else _rewarded(bandit, accuracy),
        copies=copies,
    )
    rate = jnp.exp(state.parameters.log_rate)
    tasks = batch_tasks(adapted.tasks)
    return following, Update(value, accuracy, tasks, rate, adapted.weights, state.parameters.weights)


def held_out_schedule(scene: Scene, copies: tuple[MetaParameters, ...]) -> tuple[jax.Array, Stream]:
    """The tasks int32 (m,) or (m, B) of an update's batches, and the stream after them.

    ``copies`` are stacked like the folds, and go through the inner loop together. After each batch the scheduler gets
    the mean, over the copies, of the reward on the fold that the copy does not train on.
    """
    objective, schedule, data, *_ = scene

    def step(carry: tuple[tuple[Walk, ...], Stream], number: jax.Array) -> tuple[Any, jax.Array]:
        walks, stream = carry
        batch = next_batch(schedule.scheduler, objective, data, stream)

        def one(fold: Folds, copy: tuple[Walk, MetaParameters]) -> tuple[Walk, jax.Array]:
            known = scene._replace(data=without(data, fold))
            walk, reward, _ = learn(known, start_of(copy[1]), copy[0], batch, number)
            return walk, reward

        walks, reward = mean_reward(each_copy(one, data.folds, tuple(zip(walks, copies, strict=True))))
        return (walks, advance(schedule.scheduler, objective.settings, data, stream, batch, reward)), batch.chosen

    def begin(fold: Folds, parameters: MetaParameters) -> Walk:
        return first_walk(scene._replace(data=without(data, fold)), start_of(parameters))

    walks = tuple(each_copy(begin, data.folds, copies))
    (_, after), tasks = lax.scan(step, (walks, scene.stream), batch_numbers(scene))
    return tasks, after


def follow(tasks: jax.Array) -> tuple[Scheduler | RowScheduler, Any]:
    """A scheduler that draws ``tasks`` (m,) or (m, B) in this order, whatever it is told, and its first state."""

    def choose(state: Any, cursors: Cursors, count: int) -> tuple[jax.Array, jax.Array]:
        labels = cursors.labels_at(cursors.position)  # at the first row, because nobody reads them
        return state[1][state[0]], jnp.broadcast_to(labels, (count, *labels.shape))

    def select(state: Any, labels: jax.Array) -> jax.Array:
        del labels
        task: jax.Array = state[1][state[0]]
        return task

    def update(state: Any, labels: jax.Array, task: jax.Array, reward: jax.Array) -> Any:
        del labels, task, reward
        return state[0] + 1, state[1]

    # The tasks are part of the state and not of the functions, which may not close over traced arrays.
    first = (jnp.int32(0), tasks)
    if tasks.ndim == 2:
        return RowScheduler(lambda key: first, choose, update), first  # noqa: ARG005
    return Scheduler(lambda key: first, select, update, family="static"), first  # noqa: ARG005


def validation_batch(objective: Objective, validation: Rows, state: MetaState) -> tuple[Rows, ClassBandit | None]:
    """The validation rows of one outer step: B rows drawn without replacement, or all if there are no more than B.

    With ``ucb`` these are the rows of the class with the highest upper confidence bound, then of the next class, in
    random order within a class. The reward of a class is the rise of the validation accuracy one meta-update later.
    """
    settings, rows = objective.settings, len(validation.labels)
    if state.classes is None or rows <= settings.batch_size:
        return target_batch(settings, validation, state.key, state.update), state.classes
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.update)
    present = jnp.zeros(objective.heads.width).at[validation.labels].add(1) > 0
    time = jnp.maximum(state.classes.arms.turn, 1).astype(jnp.float32)
    bounds = jnp.where(present, arms.upper_bound(state.classes.arms, time, 1.0, 1.1, "spread"), -jnp.inf)
    rank = jnp.argsort(jnp.argsort(bounds))[validation.labels]
    _, chosen = jax.lax.top_k(rank + jax.random.uniform(key, (rows,)), settings.batch_size)
    return validation.take(chosen), state.classes._replace(taken=arms.best(bounds))


def _rewarded(bandit: ClassBandit, accuracy: jax.Array) -> ClassBandit:
    """The bandit with the reward of the class that was taken. The first accuracy has no predecessor."""
    first = bandit.arms.turn == 0
    gain = jnp.where(first, 0.0, accuracy - bandit.accuracy)
    return ClassBandit(arms.observe(bandit.arms, bandit.taken, gain), bandit.taken, accuracy)
