"""The inner loop: SGD on scheduled batches, from the initial weights to the adapted weights."""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from metasched.learners.losses import Objective, Rows, task_loss
from metasched.learners.networks import Weights
from metasched.learners.rewards import Evaluation, Reward, Turn, evaluate, one_of, target_slope
from metasched.learners.settings import LearnerSettings
from metasched.learners.stream import Batch, Data, Stream, advance, loss_arguments, next_batch
from metasched.schedulers.base import Scheduler
from metasched.schedulers.rows import RowScheduler


class Schedule(NamedTuple):
    """The scheduler, and the rewards among which a run chooses its own.

    Mixed batches have a :class:`RowScheduler`. With ``sums`` the stream adds up rewards by source. They are then
    computed for every scheduler, even for one that ignores them.
    """

    scheduler: Scheduler | RowScheduler
    rewards: tuple[Reward, ...]
    sums: bool = False


class Scene(NamedTuple):
    """What a meta-update needs in addition to λ.

    ``batch`` has the target's rows of the outer loss. ``reward_index`` says which of the schedule's rewards the
    scheduler gets, so that runs with different rewards share one compiled program.
    """

    objective: Objective
    schedule: Schedule
    data: Data
    batch: Rows
    stream: Stream
    reward_index: jax.Array


class Start(NamedTuple):
    """The start of the inner loop, with respect to which it is differentiated."""

    weights: Weights
    rate: jax.Array


class Adapted(NamedTuple):
    """The result of m batches: weights, the stream after them, and the drawn tasks int32 (N: none).

    The tasks are (m,), or (m, B) if batches are mixed.
    """

    weights: Weights
    stream: Stream
    tasks: jax.Array


class Walk(NamedTuple):
    """What one batch passes on to the next: the weights, and ``slope`` if it is kept for several batches."""

    weights: Weights
    evaluation: Evaluation
    slope: Weights | None


Journey: TypeAlias = tuple[Walk, Stream]
"""The present model and the stream."""


def fit(objective: Objective, data: Data, start: Start, batch: Batch) -> tuple[Weights, Weights]:
    """R = ``steps_per_batch`` steps w ← w − ρ·∇loss(w) on one batch. Also returns the weights (R, …) before each."""
    scheduled = loss_arguments(objective, data, batch)

    def step(weights: Weights, _: None) -> tuple[Weights, Weights]:
        gradient = jax.grad(task_loss, argnums=1)(objective, weights, *scheduled)
        return jax.tree.map(lambda w, g: w - start.rate * g, weights, gradient), weights

    if objective.settings.inner_steps == 1:  # the usual case, without a loop
        after, before = step(start.weights, None)
        return after, jax.tree.map(lambda leaf: leaf[None], before)
    return lax.scan(step, start.weights, None, length=objective.settings.inner_steps)


def one_batch(scene: Scene, start: Start, journey: Journey, number: jax.Array) -> tuple[Journey, tuple[Batch, Weights]]:
    """Select, train, evaluate, tell: one iteration of the inner loop, T = ``number``.

    If a scheduler ignores rewards they cost nothing, because the compiler drops values that are not used. With
    ``abstain`` the scheduler has an arm N. Such a batch trains nothing, moves no cursor and draws no rows, and the
    scheduler gets its reward as after any other batch.
    """
    walk, stream = journey
    batch = next_batch(scene.schedule.scheduler, scene.objective, scene.data, stream)
    walk, reward, before = learn(scene, start, walk, batch, number)
    stream = advance(scene.schedule.scheduler, scene.objective.settings, scene.data, stream, batch, reward)
    return (walk, stream), (batch, before)


def learn(scene: Scene, start: Start, walk: Walk, batch: Batch, number: jax.Array) -> tuple[Walk, jax.Array, Weights]:
    """Train a model on a batch. Returns the model, the reward of the batch, and the weights (R, …) before each step."""
    objective, schedule, data, *_ = scene
    weights, before = fit(objective, data, start._replace(weights=walk.weights), batch)
    if objective.abstain and not batch.trains.ndim:  # in a mixed batch, rows that do not train have weight 0
        # A select and not a condition, because replicas side by side may differ here.
        weights = jax.tree.map(lambda new, old: jnp.where(batch.trains, new, old), weights, walk.weights)
    evaluation = evaluate(objective, weights, data.reward_rows)
    _, rows, head = loss_arguments(objective, data, batch)
    # A reward informs the scheduler, whose choices have no derivative, so no gradient may flow through it.
    old, new = lax.stop_gradient((walk.weights, weights))
    slope = slope_now(objective, data, old, walk.slope, number)
    turn = Turn(number, old, new, walk.evaluation, evaluation, rows, head, batch.trains, data.reward_rows, slope)
    reward = lax.stop_gradient(one_of(schedule.rewards, scene.reward_index, objective, turn))
    return Walk(weights, evaluation, None if walk.slope is None else slope), reward, before


def first_slope(settings: LearnerSettings, weights: Weights) -> Weights | None:
    """Space for a slope that is kept for several batches. A slope that is computed for each batch needs none."""
    return None if settings.slope_every == 1 else jax.tree.map(jnp.zeros_like, lax.stop_gradient(weights))


def slope_now(objective: Objective, data: Data, weights: Weights, before: Weights | None, number: jax.Array) -> Weights:
    """The target's slope for batch ``number`` ≥ 1. It is computed every ``slope_every`` batches and kept in between."""
    if before is None:
        return target_slope(objective, weights, data.reward_rows)
    due = (number - 1) % objective.settings.slope_every == 0
    return lax.cond(due, lambda: target_slope(objective, weights, data.reward_rows), lambda: before)


def first_walk(scene: Scene, start: Start) -> Walk:
    """The beginning of a meta-update."""
    evaluation = evaluate(scene.objective, start.weights, scene.data.reward_rows)
    return Walk(start.weights, evaluation, first_slope(scene.objective.settings, start.weights))


def batch_numbers(scene: Scene) -> jax.Array:
    """T = 1 … m."""
    return jnp.arange(1, (scene.objective.settings.batches_per_update or 0) + 1)
