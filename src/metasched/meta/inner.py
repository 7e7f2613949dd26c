"""The inner loop: scheduled batches, SGD on each, from the initial weights to the adapted ones."""

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from metasched import cursors
from metasched.errors import ConfigError
from metasched.meta.config import REWARDS, TrainConfig
from metasched.meta.networks import Network, Weights
from metasched.meta.objective import Judgement, Learner, Rows, judge, reward, task_loss
from metasched.tasks import TaskSet

Rates: TypeAlias = Any
"""One learning rate for all, or by array of the weights: scalars, or arrays of the weights' shapes."""


class Data(NamedTuple):
    """The rows a learner may see: all tasks end to end, and the target's validation rows.

    Row u of task i is ``sources`` row ``starts[i] + u``; ``starts`` and ``sizes`` are int32 (N,). ``emphasis`` (rows,)
    are log weights of the source rows, where the inner loss is balanced; ``judged`` are the validation rows that
    rewards are measured on.
    """

    sources: Rows
    starts: jax.Array
    sizes: jax.Array
    validation: Rows
    judged: Rows
    emphasis: jax.Array | None = None


class Tuned(NamedTuple):
    """What the inner loop starts from and can be differentiated by: weights, rates, log weights of the source rows."""

    weights: Weights
    rates: Rates
    emphasis: jax.Array | None = None


class Stream(NamedTuple):
    """Where the schedule stands: scheduler state, cursors int32 (N,), rows drawn by task and label int32 (N, C)."""

    scheduler: Any
    cursors: jax.Array
    drawn: jax.Array


class Knobs(NamedTuple):
    """Settings that may differ between runs of one compiled program: reward's number, factor on the outer rate."""

    reward: jax.Array
    outer: jax.Array


class Batch(NamedTuple):
    """A scheduled batch: row numbers (B,) among the sources, its task, and whether it trains anything."""

    rows: jax.Array
    task: jax.Array
    trains: jax.Array


class Adapted(NamedTuple):
    """What came of m batches: weights, the stream after them, and the tasks int32 (m,) drawn (N: none)."""

    weights: Weights
    stream: Stream
    tasks: jax.Array


def device_data(tasks: TaskSet, config: TrainConfig | None = None) -> Data:
    """Copy what the learner may see to the default device; the test rows stay behind."""
    config = config or TrainConfig()
    starts = np.concatenate([[0], np.cumsum(tasks.sizes)[:-1]])
    sources = jax.tree.map(lambda *parts: jnp.asarray(np.concatenate(parts)), *map(host_rows, tasks.tasks))
    validation = to_device(host_rows(tasks.validation))
    count = len(tasks.validation.labels)
    kept = config.reward_rows is None or config.reward_rows >= count
    judged = validation if kept else validation.take(np.random.default_rng(0).permutation(count)[: config.reward_rows])
    rarity = [-np.log(np.bincount(task.labels)[task.labels]) for task in tasks.tasks]
    return Data(
        sources,
        jnp.asarray(starts, jnp.int32),
        jnp.asarray(tasks.sizes, jnp.int32),
        validation,
        judged,
        jnp.asarray(np.concatenate(rarity), jnp.float32) if config.balanced_loss else None,
    )


def host_rows(split: Any) -> Rows:
    """The rows of a task or a split, still in host memory."""
    return Rows(split.inputs, split.labels, split.targets)


def to_device(rows: Rows) -> Rows:
    """The same rows on the default device."""
    return Rows(*(None if part is None else jnp.asarray(part) for part in rows))  # type: ignore[arg-type]


def knobs_of(config: TrainConfig) -> Knobs:
    """The settings of one run."""
    return Knobs(jnp.int32(REWARDS.index(config.reward)), jnp.float32(1))


def trained_arrays(network: Network, weights: Weights, config: TrainConfig) -> Any:
    """Which arrays of the weights the inner loop trains: bools, structured like the weights."""
    if config.inner_layers == "all":
        return jax.tree.map(lambda _: True, weights)
    if network.head is None:
        raise ConfigError("inner_layers is head, but the network does not name its head; give Network(..., head=...)")
    return network.head(weights)


def rates_by_array(rates: Rates, weights: Weights) -> Any:
    """Rates structured like the weights."""
    return jax.tree.map(lambda _: rates, weights) if isinstance(rates, jax.Array) else rates


def descend(
    learner: Learner, weights: Weights, rates: Rates, emphasis: jax.Array | None, batch: Rows, head: jax.Array
) -> Weights:
    """One SGD step w ← w − rate · ∇loss(w) on one batch; first-order modes take the gradient for a constant."""
    gradient = jax.grad(task_loss, argnums=1)(learner, weights, emphasis, batch, head)
    if learner.config.gradient in ("first-order", "reptile"):
        gradient = lax.stop_gradient(gradient)
    trained = trained_arrays(learner.network, weights, learner.config)
    by_array = rates_by_array(rates, weights)
    return jax.tree.map(lambda w, g, rate, moves: w - rate * g if moves else w, weights, gradient, by_array, trained)


def fit(learner: Learner, data: Data, tuned: Tuned, batch: Batch) -> tuple[Weights, Weights]:
    """R = ``steps_per_batch`` steps on one batch from ``tuned.weights``; also the weights before each step (R, …)."""
    rows = data.sources.take(batch.rows)
    emphasis = None if tuned.emphasis is None else tuned.emphasis[batch.rows]
    head = learner.heads.of_task(batch.task)

    def step(weights: Weights, _: None) -> tuple[Weights, Weights]:
        return descend(learner, weights, tuned.rates, emphasis, rows, head), weights

    if learner.config.steps_per_batch == 1:
        after, before = step(tuned.weights, None)
        return after, jax.tree.map(lambda leaf: leaf[None], before)
    return lax.scan(step, tuned.weights, None, length=learner.config.steps_per_batch)


def next_batch(learner: Learner, data: Data, stream: Stream) -> tuple[Batch, jax.Array]:
    """The batch that the scheduler wants now, and the task it named (N: none)."""
    labels = cursors.labels_at(data.sources.labels, data.starts, stream.cursors)
    chosen = learner.scheduler.select(stream.scheduler, labels)
    task = jnp.minimum(chosen, len(data.sizes) - 1) if learner.config.abstain else chosen
    own = cursors.batch_rows(stream.cursors[task], data.sizes[task], learner.config.batch_size)
    return Batch(data.starts[task] + own, task, chosen == task), chosen


def advance(learner: Learner, data: Data, stream: Stream, batch: Batch, chosen: jax.Array, worth: jax.Array) -> Stream:
    """The stream after one batch: the scheduler has its reward, cursors have moved, rows are counted."""
    config = learner.config
    labels = cursors.labels_at(data.sources.labels, data.starts, stream.cursors)
    drawn = jnp.arange(len(data.sizes)) == chosen
    counts = jnp.zeros(learner.heads.width, jnp.int32).at[data.sources.labels[batch.rows]].add(1)
    return Stream(
        learner.scheduler.update(stream.scheduler, labels, chosen, worth),
        cursors.advance(stream.cursors, data.sizes, chosen, config.batch_size, config.cursor),
        stream.drawn + drawn[:, None] * counts,
    )


class Walk(NamedTuple):
    """What one batch hands to the next."""

    weights: Weights
    stream: Stream
    judged: Judgement


def one_batch(
    learner: Learner, data: Data, tuned: Tuned, knobs: Knobs, walk: Walk, step: jax.Array
) -> tuple[Walk, tuple[jax.Array, Batch, Weights]]:
    """Select, train, judge, tell: one turn of the inner loop.

    After each batch the scheduler is told its reward. For a scheduler that ignores it this costs nothing: the compiler
    drops what nobody reads. With ``abstain`` the scheduler has an arm N: such a batch trains nothing, moves no cursor
    and draws no rows, and is told its reward like any other.
    """
    batch, chosen = next_batch(learner, data, walk.stream)
    weights, before = fit(learner, data, tuned._replace(weights=walk.weights), batch)
    if learner.config.abstain:
        weights = jax.tree.map(lambda new, old: jnp.where(batch.trains, new, old), weights, walk.weights)
    judged = judge(learner, weights, data.judged)
    worth = reward(knobs.reward, walk.judged, judged, step)
    stream = advance(learner, data, walk.stream, batch, chosen, worth)
    return Walk(weights, stream, judged), (chosen, batch, before)


def first_walk(learner: Learner, data: Data, tuned: Tuned, stream: Stream) -> Walk:
    """Where a meta-update begins."""
    return Walk(tuned.weights, stream, judge(learner, tuned.weights, data.judged))


def batch_numbers(config: TrainConfig) -> jax.Array:
    """T = 1 … m."""
    return jnp.arange(1, (config.batches_per_update or 0) + 1)
