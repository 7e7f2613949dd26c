"""Runs any learner from the first update to the last: chunks of updates as one compiled program, many runs side by
side.

Read it from top to bottom. A *program* is one compiled learner. A *replica* is one run in it. Python only decides how
many updates the next chunk has, and reads the results.
"""

import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import ArrayLike, NDArray

from metasched.learners.checks import replicas_that_fit
from metasched.learners.evaluation import (
    Outputs,
    Reader,
    Score,
    Scorer,
    ScoreSums,
    evaluation_subset,
    full_reader,
    full_scorer,
    judge,
    read_score,
    score_sums,
    target_outputs,
)
from metasched.learners.folds import over_replicas
from metasched.learners.inner import Schedule
from metasched.learners.joint import joint
from metasched.learners.losses import Objective, Rows, Unit, measured, unit_of
from metasched.learners.meta import meta
from metasched.learners.networks import Weights
from metasched.learners.protocol import Hyperparameters, Learner, MakeLearner, State, Update
from metasched.learners.settings import AlgorithmOne, Joint, LearnerSettings, why_diverged
from metasched.learners.stream import Data, device_data, host_rows, target_rows
from metasched.tasks import TaskSet

LEARNERS: Mapping[type[LearnerSettings], MakeLearner] = {AlgorithmOne: meta, Joint: joint}
"""Makes the learner for given settings."""
CHUNK = 64
"""The most updates of one call to the compiled program."""
LOGGED_NUMBERS = 2**24
"""The most outputs on test rows that one call records for a replica. If necessary, a chunk has fewer updates."""
CHUNK_SECONDS = 1.0
"""About how many seconds one call should take, so that progress is visible and little work is lost."""

Record = dict[str, Any]
"""The events of one update, as JSON types."""
Replica = TypeVar("Replica", bound=Hashable)
"""The caller's name for a run."""


# The program: scheduler, learner and evaluation, compiled as one


class Log(NamedTuple):
    """What a chunk records, one row for each update (CHUNK, …).

    ``drawn`` has the rows by task so far. ``outputs`` on the test subset are recorded if the metric is not a mean over
    rows.
    """

    loss: jax.Array
    validation_accuracy: jax.Array
    tasks: jax.Array
    drawn: jax.Array
    rate: jax.Array
    score_sums: ScoreSums
    outputs: Outputs | None


class Models(NamedTuple):
    """The models before and after the latest update."""

    initial: Weights
    weights: Weights


class ReplicaRows(NamedTuple):
    """The rows that a replica learns from and is evaluated on, on the device, and their task set."""

    data: Data
    test: Rows
    tasks: TaskSet


class Program(NamedTuple):
    """A learner with its rows and compiled loop. :func:`prepare` makes a program, and any number of runs use it.

    ``together`` replicas run side by side; 1 means one after another. With ``own_rows`` every replica has its own
    target rows, of the same shapes. The sources are the same for all.
    """

    objective: Objective
    rows: ReplicaRows
    together: int
    start: Callable[[Data, Any, Hyperparameters], State]
    chunk: Callable[[Data, Rows, State, Any, Any], tuple[State, Log, Models]]
    full_score: Scorer
    read: Reader
    own_rows: bool = False


def prepare(
    tasks: TaskSet, objective: Objective, schedule: Schedule, together: int = 1, own_rows: bool = False
) -> Program:
    """Copy the rows to the device and set up the compilation. ``objective`` was already checked against the tasks."""
    settings = objective.settings
    make = LEARNERS[type(settings)]
    built = make(objective, schedule)
    chunk: Callable[..., Any] = partial(_chunk, objective, lambda own: make(own, schedule))
    if together > 1 and own_rows:
        data_axes = Data(None, None, None, 0, 0, None, 0, 0)  # type: ignore[arg-type]
        chunk = jax.vmap(chunk, in_axes=(data_axes, 0, 0, None, None))
    elif together > 1:
        chunk = over_replicas(chunk, (None, None, 0, None, None))
    rows = ReplicaRows(device_data(tasks, settings), evaluation_subset(tasks, settings.eval_rows), tasks)
    # An accelerator would start hundreds of small kernels. On a CPU, compiling costs more than it saves.
    start = built.init if jax.default_backend() == "cpu" else jax.jit(built.init)
    scored, read = full_scorer(objective), full_reader(objective)
    return Program(objective, rows, together, start, jax.jit(chunk), scored, read, own_rows)


def replica_rows(program: Program, tasks: TaskSet) -> ReplicaRows:
    """The target's rows of a task set whose sources are those of the program. The program's own are on the device
    already.
    """
    if tasks is program.rows.tasks:
        return program.rows
    settings = program.objective.settings
    data = program.rows.data._replace(**target_rows(tasks, settings))
    return ReplicaRows(data, evaluation_subset(tasks, settings.eval_rows), tasks)


def refill(program: Program, tasks: TaskSet) -> Program:
    """The same program with other rows of the same shapes. Nothing is compiled again."""
    objective = program.objective._replace(unit=unit_of(tasks))
    settings = objective.settings
    rows = ReplicaRows(device_data(tasks, settings), evaluation_subset(tasks, settings.eval_rows), tasks)
    return program._replace(objective=objective, rows=rows)


def side_by_side(tasks: TaskSet, objective: Objective, replicas: int, most: int = 128) -> int:
    """How many replicas of a program run side by side: one on a CPU, on accelerators equal groups that fit on each
    device.
    """
    if jax.default_backend() == "cpu":
        return 1
    devices = len(jax.devices())
    room = min(most, replicas_that_fit(tasks, objective) * devices)
    each = -(-replicas // -(-replicas // room))
    return devices * -(-each // devices)


def hyperparameters_of(settings: LearnerSettings, reward_index: int = 0) -> Hyperparameters:
    """The settings that may differ between runs of a program."""
    return Hyperparameters(jnp.int32(reward_index), jnp.float32(settings.probe_rate), jnp.float32(settings.rates[-1]))


def _chunk(
    objective: Objective,
    make: Callable[[Objective], Learner],
    data: Data,
    test: Rows,
    state: State,
    first: Any,
    count: Any,
) -> tuple[State, Log, Models]:
    """Make ``count`` updates, at most a chunk, after the first ``first``. Evaluate the test subset when that is due.

    ``first`` equals ``state.update``. It is a separate argument, so that it is one number for all replicas: under
    ``vmap`` a condition on the number of a replica would become a select, which always evaluates.
    """
    # The unit of numbers to predict is an input, like the rows. So the learner is made from it during compilation.
    objective = measured(objective, data.unit)
    learner, settings = make(objective), objective.settings
    every = settings.eval_every or 1
    by_row = judge(objective).by_row

    def evaluated(update: Update) -> tuple[ScoreSums, Outputs | None]:
        adapted, initial = update.weights, update.initial
        sums = ScoreSums(score_sums(objective, adapted, test), score_sums(objective, initial, test))
        if by_row:
            return sums, None
        return sums, Outputs(target_outputs(objective, adapted, test), target_outputs(objective, initial, test))

    def entry(state: State, update: Update, found: tuple[ScoreSums, Outputs | None]) -> Log:
        drawn = state.stream.drawn.sum(axis=1)
        return Log(update.loss, update.validation_accuracy, update.tasks, drawn, update.rate, *found)

    def one(number: jax.Array, carry: tuple[State, Log, Models]) -> tuple[State, Log, Models]:
        state, log, _ = carry
        state, update = learner.update(data, state)
        done = first + number + 1
        found = jax.lax.cond(
            (done % every == 0) | (done == settings.updates),
            lambda: evaluated(update),
            lambda: jax.tree.map(lambda part: jnp.full(part.shape, jnp.nan, part.dtype), nothing),
        )
        log = jax.tree.map(lambda column, value: column.at[number].set(value), log, entry(state, update, found))
        return state, log, Models(update.initial, update.weights)

    # The log has the same number of rows for any ``count``, so one compiled program serves chunks of every length.
    _, like = jax.eval_shape(learner.update, data, state)
    nothing = jax.eval_shape(evaluated, like)
    row = jax.eval_shape(entry, state, like, nothing)
    blank = jax.tree.map(lambda part: jnp.zeros((_longest_chunk(objective, test), *part.shape), part.dtype), row)
    models = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), Models(like.initial, like.weights))
    done: tuple[State, Log, Models] = jax.lax.fori_loop(0, count, one, (state, blank, models))
    return done


def _longest_chunk(objective: Objective, test: Rows) -> int:
    """The most updates of one call: CHUNK, or fewer if outputs on the test subset are recorded."""
    if judge(objective).by_row:
        return CHUNK
    width = objective.heads.width if test.targets is None else test.targets.shape[-1]
    return max(1, min(CHUNK, LOGGED_NUMBERS // (2 * len(test.labels) * width)))


# The loop: chunk after chunk, group after group of replicas

Chunk = tuple[Callable[[], dict[Replica, tuple[State, Models]]], list[tuple[Replica, Record]]]
"""The state and models of every replica after a chunk, made on request, and a record for each update of each replica.
"""


def run(
    program: Program,
    states: Mapping[Replica, State],
    ended: Collection[Replica] = (),
    rows: Mapping[Replica, ReplicaRows] | None = None,
) -> Iterator[Chunk[Replica]]:
    """Make all remaining updates of ``states``, with at most ``together`` replicas at a time.

    The last record of a replica has ``final``. If the loss of a replica is no longer finite, it ends with a record that
    has ``diverged``, and the others continue. Replicas that ``ended`` earlier stay as they are. ``rows`` are the
    replicas' own rows, if the program was made for that.
    """
    for group in _groups(program, states):
        own = [rows[replica] if rows else program.rows for replica in group]
        yield from _run_together(program, group, [states[replica] for replica in group], own, ended)


def _groups(program: Program, states: Mapping[Replica, State]) -> Iterator[list[Replica]]:
    """Neighbouring replicas with the same number of updates, at most ``together`` of them."""
    group: list[Replica] = []
    for replica, state in states.items():
        if group and (len(group) == program.together or int(state.update) != int(states[group[0]].update)):
            yield group
            group = []
        group.append(replica)
    if group:
        yield group


def _run_together(
    program: Program,
    replicas: Sequence[Replica],
    states: Sequence[State],
    rows: Sequence[ReplicaRows],
    ended: Collection[Replica],
) -> Iterator[Chunk[Replica]]:
    updates = program.objective.settings.updates
    data, test = _stack_rows(program, rows)
    most = _longest_chunk(program.objective, rows[0].test)
    done, count = int(states[0].update), 1
    stacked = _stack_states(program, states)
    alive = {replica: replica not in ended for replica in replicas}
    while done < updates and any(alive.values()):
        count = min(count, most, updates - done)
        start = time.monotonic()
        stacked, log, models = program.chunk(data, test, stacked, done, count)
        log = jax.tree.map(np.asarray, log)
        seconds = time.monotonic() - start
        records: list[tuple[Replica, Record]] = []
        for index, replica in enumerate(replicas):
            if alive[replica]:
                own = _replica(program, log, index)
                new = _records(program, states[index].hyperparameters, own, rows[index].test, done, count)
                alive[replica] = "diverged" not in new[-1]
                records += [(replica, record) for record in new]
        done += count
        if done == updates:
            last = dict(records)
            for index, final in enumerate(_final(program, rows, stacked, models)):
                if alive[replicas[index]]:
                    last[replicas[index]]["final"] = final
        yield partial(_by_replica, program, (stacked, models), replicas), records
        # Each chunk has at most four times as many updates as the last, starting with one, because the first time
        # includes compilation.
        count = max(1, min(4 * count, int(count * CHUNK_SECONDS / max(seconds, 1e-3))))


def _stack_rows(program: Program, rows: Sequence[ReplicaRows]) -> tuple[Data, Rows]:
    """The rows for the compiled program: one set for all replicas, or their own rows, stacked like the states."""
    if program.together == 1 or not program.own_rows:
        return rows[0].data, rows[0].test
    names = ("validation", "reward_rows", "folds", "unit")
    own = [({name: getattr(each.data, name) for name in names}, each.test) for each in _full(program, rows)]
    stacked, test = jax.tree.map(lambda *leaves: jnp.stack(leaves), *own)
    return rows[0].data._replace(**stacked), test


def _stack_states(program: Program, states: Sequence[State]) -> State:
    """States stacked along a first axis and spread over all devices."""
    if program.together == 1:
        return states[0]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *_full(program, states))
    devices = jax.devices()
    if len(devices) == 1 or program.together % len(devices):
        return stacked
    by_replica = PartitionSpec("replicas")  # type: ignore[no-untyped-call]
    return jax.device_put(stacked, NamedSharding(Mesh(np.asarray(devices), ("replicas",)), by_replica))


def _full(program: Program, each: Sequence[Any]) -> list[Any]:
    """Fill up a short group with copies of its last replica, because the program takes exactly ``together``."""
    return [*each, *[each[-1]] * (program.together - len(each))]


def _replica(program: Program, stacked: Any, index: int) -> Any:
    return stacked if program.together == 1 else jax.tree.map(lambda leaf: leaf[index], stacked)


def _by_replica(program: Program, stacked: Any, replicas: Sequence[Replica]) -> dict[Replica, Any]:
    return {replica: _replica(program, stacked, index) for index, replica in enumerate(replicas)}


# The records: what the compiled loop logged, for people and files


def _records(program: Program, began: Hyperparameters, log: Log, test: Rows, done: int, count: int) -> list[Record]:
    """The records of one replica and chunk, after ``done`` updates. A record with a loss that is not finite is the
    last.
    """
    counts = _class_counts(program, test.labels)
    records: list[Record] = []
    for number in range(count):
        row: Log = jax.tree.map(lambda column, number=number: column[number], log)
        update = done + number + 1
        if not np.isfinite(row.loss):
            rates = float(began.inner_rate), float(began.outer_rate), float(row.rate)
            cause = why_diverged(program.objective.settings, *rates)
            return [*records, {"update": update, "diverged": cause}]
        records.append(_record(program, row, update, counts, test))
    return records


def _record(program: Program, row: Log, update: int, counts: NDArray[np.int64], test: Rows) -> Record:
    """The record of one update. ``counts`` (width,) are the rows by class of ``test``, the subset for evaluation during
    training.
    """
    objective, settings = program.objective, program.objective.settings
    drawn = int(row.drawn.sum())
    record: Record = {
        "update": update,
        "samples": drawn,
        "drawn": row.drawn.tolist(),
        "abstained": (update * (settings.batches_per_update or 0) * settings.batch_size - drawn)
        // settings.rows_per_choice,
        "loss": float(row.loss),
        "validation_accuracy": float(row.validation_accuracy),
        settings.logged_rate: float(row.rate),
    }
    if settings.batching == "per_source":
        record["tasks"] = row.tasks.tolist()
    if np.isfinite(row.score_sums.adapted).all():
        outputs = (None, None) if row.outputs is None else tuple(map(np.asarray, row.outputs))
        adapted, initial = (
            read_score(objective, np.asarray(sums, np.float64), counts, read, test)
            for sums, read in zip(row.score_sums, outputs, strict=True)
        )
        record |= {
            "test_accuracy": adapted.main,
            "initial_test_accuracy": initial.main,
            "test_accuracy_by_class": adapted.by_class,
            "test_rows": int(counts.sum()),
        }
    return record


def _class_counts(program: Program, labels: ArrayLike) -> NDArray[np.int64]:
    """How many of the labels are in each class (width,)."""
    return np.bincount(np.asarray(labels), minlength=program.objective.heads.width)


def _final(program: Program, rows: Sequence[ReplicaRows], stacked: State, models: Models) -> list[Record]:
    """For every replica: the scores of its last models on all test rows, and the source rows by task and label."""
    by_task_set: dict[int, list[int]] = {}
    for index, each in enumerate(rows):
        by_task_set.setdefault(id(each.tasks), []).append(index)
    drawn = np.asarray(stacked.stream.drawn).reshape(-1, *stacked.stream.drawn.shape[-2:])
    stack = jax.tree.map(lambda leaf: leaf[None], models) if program.together == 1 else models
    finals: dict[int, Record] = {}
    for indices in by_task_set.values():
        own = rows[indices[0]]
        test = host_rows(own.tasks.test)
        # Most programs have a single task set. Then all models are scored as they are, and nothing is copied.
        some = stack
        if len(indices) < len(rows):
            some = jax.tree.map(lambda leaf, indices=indices: leaf[np.array(indices)], stack)
        adapted, initial = (
            _full_scores(program, weights, test, own.data.unit) for weights in (some.weights, some.initial)
        )
        for place, index in enumerate(indices):
            score, first = adapted[place], initial[place]
            finals[index] = {
                "test_accuracy": score.main,
                "balanced_test_accuracy": score.balanced,
                "test_accuracy_by_class": score.by_class,
                "initial_test_accuracy": first.main,
                "test_rows": len(test.labels),
                "drawn_by_label": drawn[index].tolist(),
            }
    return [finals[index] for index in range(len(rows))]


def _full_scores(program: Program, stack: Weights, test: Rows, unit: Unit | None) -> list[Score]:
    """The scores of stacked models on all test rows, in host memory."""
    objective, counts = program.objective, _class_counts(program, test.labels)
    sums = program.full_score(stack, test, unit)
    outputs = [None] * len(sums) if judge(objective).by_row else program.read(stack, test, unit)
    return [read_score(objective, own, counts, read, test) for own, read in zip(sums, outputs, strict=True)]
