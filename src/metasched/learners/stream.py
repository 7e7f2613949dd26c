"""The rows that a learner may see, and the position of the schedule in them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metasched.learners.folds import Folds, folds_of
from metasched.learners.losses import Objective, Rows, Unit, device_unit, unit_of
from metasched.learners.settings import Joint, LearnerSettings
from metasched.schedulers.base import Scheduler
from metasched.schedulers.rows import Cursors, RowScheduler
from metasched.tasks import TaskSet, cursors


class Data(NamedTuple):
    """All tasks end to end, and the target's validation rows.

    Row u of task i is row ``starts[i] + u`` of ``sources``; ``starts`` and ``sizes`` are int32 (N,). ``reward_rows``
    are the validation rows that rewards are computed on. ``log_weights`` (rows,) weigh the source rows if the inner
    loss is balanced. ``folds`` are used if rewards come from held-out rows, and ``unit`` in regression.
    """

    sources: Rows
    starts: jax.Array
    sizes: jax.Array
    validation: Rows
    reward_rows: Rows
    log_weights: jax.Array | None = None
    folds: tuple[Folds, ...] = ()
    unit: Unit | None = None


class Stream(NamedTuple):
    """The position of the schedule: scheduler state, cursors int32 (N,), rows drawn by task and label int32 (N, C).

    ``rewards`` float32 (N,) are the sums of rewards by task so far: of each row, or of each batch of one source. They
    exist if some scheduler reads rewards.
    """

    scheduler: Any
    cursors: jax.Array
    drawn: jax.Array
    rewards: jax.Array | None = None


class Batch(NamedTuple):
    """A scheduled batch: the labels (N,) at the cursors when it was drawn, the chosen task (N: none), its rows.

    ``rows`` (B,) are row numbers among the sources, from ``task``. If no task was chosen, ``task`` is the last one, and
    the batch does not train (``trains``). In a mixed batch every row has its own labels, task and ``trains``, so all
    fields have an axis B in front.
    """

    labels: jax.Array
    chosen: jax.Array
    task: jax.Array
    rows: jax.Array
    trains: jax.Array


def device_data(tasks: TaskSet, settings: LearnerSettings | None = None) -> Data:
    """Copy everything that the learner may see to the default device. The test rows stay on the host."""
    settings = settings or Joint()
    starts = cursors.starts_of(np.asarray(tasks.sizes))
    sources = jax.tree.map(lambda *parts: jnp.asarray(np.concatenate(parts)), *map(host_rows, tasks.tasks))
    rarity = [-np.log(np.bincount(task.labels)[task.labels]) for task in tasks.tasks]
    return Data(
        sources,
        jnp.asarray(starts, jnp.int32),
        jnp.asarray(tasks.sizes, jnp.int32),
        log_weights=jnp.asarray(np.concatenate(rarity), jnp.float32) if settings.balanced_loss else None,
        **target_rows(tasks, settings),
    )


def target_rows(tasks: TaskSet, settings: LearnerSettings) -> dict[str, Any]:
    """The target's part of :class:`Data`: labelled rows, the rows that rewards are computed on, folds and unit."""
    validation = to_device(host_rows(tasks.validation))
    reward_rows, count = validation, len(tasks.validation.labels)
    if settings.reward_rows is not None and settings.reward_rows < count:
        reward_rows = validation.take(np.random.default_rng(0).permutation(count)[: settings.reward_rows])
    folds = folds_of(validation, settings.reward_folds)
    unit = device_unit(unit_of(tasks))
    return {"validation": validation, "reward_rows": reward_rows, "folds": folds, "unit": unit}


def host_rows(split: Any) -> Rows:
    """The rows of a task or a split, still in host memory."""
    return Rows(split.inputs, split.labels, split.targets)


def to_device(rows: Rows) -> Rows:
    """The same rows on the default device."""
    return Rows(*(None if part is None else jnp.asarray(part) for part in rows))  # type: ignore[arg-type]


def without(data: Data, fold: Folds) -> Data:
    """What a copy of the learner sees. It never trains on ``fold``, and its rewards are computed there."""
    return data._replace(validation=fold.kept, reward_rows=fold.held)


def first_stream(
    scheduler: Scheduler | RowScheduler, data: Data, width: int, key: jax.Array, sums: bool = False
) -> Stream:
    """The initial stream: all cursors at the first row, nothing drawn. With ``sums`` rewards are added up by task."""
    nothing = jnp.zeros((len(data.sizes), width), jnp.int32)
    rewards = jnp.zeros(len(data.sizes), jnp.float32) if sums else None
    return Stream(scheduler.init(key), jnp.zeros_like(data.sizes), nothing, rewards)


def next_batch(scheduler: Scheduler | RowScheduler, objective: Objective, data: Data, stream: Stream) -> Batch:
    """The next batch that the scheduler wants."""
    if isinstance(scheduler, RowScheduler):
        return _mixed_batch(scheduler, objective.settings, data, stream)
    labels = cursors.labels_at(data.sources.labels, data.starts, stream.cursors)
    chosen = scheduler.select(stream.scheduler, labels)
    task = jnp.minimum(chosen, len(data.sizes) - 1) if objective.abstain else chosen
    rows = data.starts[task] + cursors.batch_rows(stream.cursors[task], data.sizes[task], objective.settings.batch_size)
    return Batch(labels, chosen, task, rows, chosen == task)


def _mixed_batch(scheduler: RowScheduler, settings: LearnerSettings, data: Data, stream: Stream) -> Batch:
    places = Cursors(
        stream.cursors,
        lambda position: cursors.labels_at(data.sources.labels, data.starts, position),
        lambda position, task: cursors.advance(position, data.sizes, task, 1, settings.cursor),
    )
    chosen, labels = scheduler.choose(stream.scheduler, places, settings.batch_size)
    task = jnp.minimum(chosen, len(data.sizes) - 1)
    trains = chosen == task
    # How far the cursor of a row's task has moved within this batch. Comparing rows costs B², whatever N is.
    moves = (chosen[:, None] == chosen) if settings.cursor == "rested" else jnp.broadcast_to(trains, (len(chosen),) * 2)
    before = jnp.tril(moves, -1).sum(axis=1)
    rows = data.starts[task] + (stream.cursors[task] + before) % data.sizes[task]
    return Batch(labels, chosen, task, rows, trains)


def loss_arguments(objective: Objective, data: Data, batch: Batch) -> tuple[jax.Array | None, Rows, jax.Array]:
    """The arguments of :func:`~metasched.learners.losses.task_loss` from a batch: row weights (B,), rows, head."""
    rows, head = data.sources.take(batch.rows), objective.heads.of_task(batch.task)
    mixed = batch.trains.ndim == 1
    if data.log_weights is None:
        # Also if nobody may abstain, because a run must not depend on which other runs share its program.
        return batch.trains / len(batch.rows) if mixed else None, rows, head
    log_weights = data.log_weights[batch.rows]
    if not mixed:
        return jax.nn.softmax(log_weights), rows, head
    # Whether a label is rare is decided among the rows of its own task, whatever the size of the task.
    log_weights = log_weights + jnp.log(data.sizes[batch.task])
    return jax.nn.softmax(log_weights) * batch.trains, rows, head


def target_batch(settings: LearnerSettings, validation: Rows, key: jax.Array, number: jax.Array) -> Rows:
    """The target's rows of step ``number``: B rows drawn without replacement, or all if there are no more than B."""
    count = len(validation.labels)
    if settings.target_batch == "all" or count <= settings.batch_size:
        return validation
    chance = jax.random.fold_in(jax.random.wrap_key_data(key), number)
    return validation.take(jax.random.choice(chance, count, (settings.batch_size,), replace=False))


def advance(
    scheduler: Scheduler | RowScheduler,
    settings: LearnerSettings,
    data: Data,
    stream: Stream,
    batch: Batch,
    reward: jax.Array,
) -> Stream:
    """The stream after one batch: the scheduler got its reward, cursors have moved, rows are counted."""
    # A batch or row without a source has the number N, which is out of range and dropped.
    rewards = None if stream.rewards is None else stream.rewards.at[batch.chosen].add(reward, mode="drop")
    if isinstance(scheduler, RowScheduler):
        drawn = stream.drawn.at[batch.chosen, data.sources.labels[batch.rows]].add(1, mode="drop")
        by_task = jnp.zeros_like(data.sizes).at[batch.chosen].add(1, mode="drop")
        moved = by_task if settings.cursor == "rested" else batch.trains.sum(dtype=data.sizes.dtype)
        return Stream(
            scheduler.tell(stream.scheduler, batch.labels, batch.chosen, reward),
            (stream.cursors + moved) % data.sizes,
            drawn,
            rewards,
        )
    drawn = jnp.arange(len(data.sizes)) == batch.chosen
    labels = jnp.zeros(stream.drawn.shape[1], jnp.int32).at[data.sources.labels[batch.rows]].add(1)
    return Stream(
        scheduler.update(stream.scheduler, batch.labels, batch.chosen, reward),
        cursors.advance(stream.cursors, data.sizes, batch.chosen, settings.batch_size, settings.cursor),
        stream.drawn + drawn[:, None] * labels,
        rewards,
    )
