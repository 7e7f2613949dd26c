"""Algorithm 1 with held-out folds: copies of the learner walk the inner loop in step and so decide the schedule."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from metasched.learners.folds import Folds
from metasched.learners.gradients import MetaParameters, start_of
from metasched.learners.inner import Schedule, Walk, batch_numbers, first_walk, learn
from metasched.learners.losses import Objective
from metasched.learners.replicas import each_copy, mean_reward
from metasched.learners.stream import Data, Stream, advance, next_batch, without
from metasched.schedulers.base import Scheduler


def rehearse(
    objective: Objective,
    schedule: Schedule,
    data: Data,
    copies: tuple[MetaParameters, ...],
    stream: Stream,
    reward_index: jax.Array,
) -> tuple[jax.Array, Stream]:
    """The tasks int32 (m,) of an update's batches, and the stream after them.

    ``copies`` are stacked like ``data.folds``. The scheduler is told the mean of the rewards that a batch earns from
    all of them.
    """
    settings = objective.settings

    def step(carry: tuple[tuple[Walk, ...], Stream], number: jax.Array) -> tuple[Any, jax.Array]:
        walks, stream = carry
        batch = next_batch(schedule.scheduler, objective, data, stream)

        def one(fold: Folds, copy: tuple[Walk, MetaParameters]) -> tuple[Walk, jax.Array]:
            walk, start = copy[0], start_of(copy[1])
            known = without(data, fold)
            walk, reward, _ = learn(objective, schedule.rewards, known, start, reward_index, walk, batch, number)
            return walk, reward

        walks, reward = mean_reward(each_copy(one, data.folds, tuple(zip(walks, copies, strict=True))))
        return (walks, advance(schedule.scheduler, settings, data, stream, batch, reward)), batch.chosen

    def begin(fold: Folds, parameters: MetaParameters) -> Walk:
        return first_walk(objective, without(data, fold), start_of(parameters))

    walks = tuple(each_copy(begin, data.folds, copies))
    (_, after), tasks = lax.scan(step, (walks, stream), batch_numbers(settings))
    return tasks, after


def follow(tasks: jax.Array) -> tuple[Scheduler, Any]:
    """A schedule that is settled: the scheduler that draws ``tasks`` (m,) in turn, and its first state."""

    def select(state: Any, labels: jax.Array) -> jax.Array:
        del labels
        turn, order = state
        task: jax.Array = order[turn]
        return task

    def update(state: Any, labels: jax.Array, task: jax.Array, reward: jax.Array) -> Any:
        del labels, task, reward
        return state[0] + 1, state[1]

    first = (jnp.int32(0), tasks)
    return Scheduler(lambda key: first, select, update, family="static"), first  # noqa: ARG005
