"""Any learner from the first update to the last: chunks of updates as one compiled program, many runs side by side.

Read it top to bottom: a *program* holds one learner, compiled; a *lane* is one run in it. Python only decides how many
updates the next chunk has, and reads what came of them.
"""

import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import ArrayLike, NDArray

from metasched.errors import ConfigError, unknown
from metasched.learners import gradients
from metasched.learners.checks import check_losses, check_network, lanes_that_fit, settle_memory
from metasched.learners.config import TrainConfig
from metasched.learners.evaluation import Measured, Scorer, full_scorer, measure, measured_subset, read_score
from metasched.learners.gradients import Estimator
from metasched.learners.inner import Schedule
from metasched.learners.joint import joint
from metasched.learners.losses import Losses, Objective, Rows, objective_of, variance_of
from metasched.learners.meta import meta
from metasched.learners.networks import Network, Weights
from metasched.learners.protocol import Knobs, Learner, State, Update
from metasched.learners.replicas import over_lanes
from metasched.learners.rewards import Reward
from metasched.learners.stream import Data, device_data, host_rows, target_rows
from metasched.schedulers.base import Scheduler
from metasched.tasks import TaskSet

LEARNERS = ("meta", "joint")
CHUNK = 64
"""Most updates of one call to the compiled program."""
CHUNK_SECONDS = 1.0
"""About how long one call should take, so that progress is seen and little is lost."""

Record = dict[str, Any]
"""What happened in one update, as JSON types."""
Lane = TypeVar("Lane", bound=Hashable)
"""How the caller names a run."""


# The program: scheduler, learner and measuring, compiled as one.


class Log(NamedTuple):
    """What a chunk writes down, one row for each update (CHUNK, …); ``drawn`` are rows by task so far."""

    loss: jax.Array
    validation_accuracy: jax.Array
    tasks: jax.Array
    drawn: jax.Array
    rate: jax.Array
    measured: Measured


class Models(NamedTuple):
    """The models of the latest update: the one it started from, and the one it is measured by."""

    initial: Weights
    weights: Weights


class Program(NamedTuple):
    """A learner with its data and compiled loop; :func:`prepare` makes one, any number of runs use it.

    ``together`` lanes run side by side; 1 means one after another. With ``own_rows`` every lane has target rows of its
    own (:class:`LaneRows`), of the same shapes; the sources are the same for all.
    """

    objective: Objective
    tasks: TaskSet
    data: Data
    test: Rows
    together: int
    start: Callable[[Data, Any, Knobs], State]
    chunk: Callable[[Data, Rows, State, Any, Any], tuple[State, Log, Models]]
    further: Callable[[Data, State, Weights], Weights]
    full_score: Scorer
    own_rows: bool = False


class LaneRows(NamedTuple):
    """The rows that a lane learns from and is measured on: on the device, and the task set they come from."""

    data: Data
    test: Rows
    tasks: TaskSet


def lane_rows(program: Program, tasks: TaskSet) -> LaneRows:
    """The target's rows of a task set whose sources are the program's; its own are on the device already."""
    if tasks is program.tasks:
        return LaneRows(program.data, program.test, tasks)
    config = program.objective.config
    data = program.data._replace(**target_rows(tasks, config))
    return LaneRows(data, measured_subset(tasks, config.eval_rows), tasks)


def prepare(
    tasks: TaskSet,
    network: Network,
    scheduler: Scheduler,
    config: TrainConfig,
    rewards: Sequence[Reward],
    *,
    losses: Losses | None = None,
    outer: optax.GradientTransformation | None = None,
    estimator: Estimator | None = None,
    learner: str = "meta",
    together: int = 1,
    own_rows: bool = False,
) -> Program:
    """Check the settings against the tasks, copy the data to the device and set up compilation."""
    config = config.resolve(tasks)
    check_network(tasks, network, config)
    config = settle_memory(tasks, network, config, together, estimator)
    objective = objective_of(tasks, network, config, losses)
    check_losses(tasks, objective.losses)
    built = make_learner(learner, objective, Schedule(scheduler, tuple(rewards)), estimator, outer)
    chunk: Callable[..., Any] = partial(_chunk, objective, built)
    further: Callable[..., Any] = built.further
    if together > 1 and own_rows:
        data_axes = Data(None, None, None, 0, 0, None, 0)  # type: ignore[arg-type]
        chunk = jax.vmap(chunk, in_axes=(data_axes, 0, 0, None, None))
        further = jax.vmap(further, in_axes=(data_axes, 0, 0))
    elif together > 1:
        chunk = over_lanes(chunk, (None, None, 0, None, None))
        further = over_lanes(further, (None, 0, 0))
    return Program(
        objective,
        tasks,
        device_data(tasks, config),
        measured_subset(tasks, config.eval_rows),
        together,
        built.init if jax.default_backend() == "cpu" else jax.jit(built.init),
        jax.jit(chunk),
        jax.jit(further),
        full_scorer(objective),
        own_rows,
    )


def check_learner(name: str) -> None:
    """Refuse a learner that does not exist."""
    if name not in LEARNERS:
        raise unknown("learner", str(name), LEARNERS)


def make_learner(
    name: str,
    objective: Objective,
    schedule: Schedule,
    estimator: Estimator | None = None,
    outer: optax.GradientTransformation | None = None,
) -> Learner:
    """The learner of that name."""
    check_learner(name)
    if name == "meta":
        return meta(objective, schedule, estimator or gradients.find(objective.config.gradient), outer)
    return joint(objective, schedule, outer)


def emptied(program: Program) -> Program:
    """A program without rows, which takes no memory but for what is compiled; :func:`refill` gives it some."""
    return program._replace(tasks=None, data=None, test=None)  # type: ignore[arg-type]


def refill(program: Program, tasks: TaskSet) -> Program:
    """The same program with other rows of the same shapes; nothing is compiled again.

    In regression the unit of errors is compiled in, so there it takes target rows of the same variance only.
    """
    config, variance = program.objective.config, program.objective.variance
    if variance is not None and variance_of(tasks) != variance:
        raise ConfigError("a program for numbers to predict has their variance compiled in; prepare another")
    return program._replace(tasks=tasks, data=device_data(tasks, config), test=measured_subset(tasks, config.eval_rows))


def side_by_side(tasks: TaskSet, network: Network, config: TrainConfig, lanes: int, most: int = 128) -> int:
    """Lanes to run in one program: one on a CPU; on accelerators equal groups that fit, a multiple of the devices."""
    if jax.default_backend() == "cpu":
        return 1
    devices = len(jax.devices())
    room = min(most, lanes_that_fit(tasks, network, config.resolve(tasks)) * devices)
    each = -(-lanes // -(-lanes // room))
    return devices * -(-each // devices)


def knobs_of(config: TrainConfig, reward: int = 0) -> Knobs:
    """What a run with these settings has of its own."""
    return Knobs(jnp.int32(reward), jnp.float32(config.inner_rate), jnp.float32(config.outer_rate))


def _chunk(
    objective: Objective, learner: Learner, data: Data, test: Rows, state: State, first: Any, count: Any
) -> tuple[State, Log, Models]:
    """``count`` ≤ CHUNK updates after the first ``first``; test rows are measured when their turn comes.

    ``first`` is the number that ``state.update`` has; given apart, it is one number for all lanes, and measuring is
    skipped for real where it is not due.
    """
    config = objective.config
    every = config.eval_every or 1

    def entry(state: State, update: Update, measured: Measured) -> Log:
        drawn = state.stream.drawn.sum(axis=1)
        return Log(update.loss, update.validation_accuracy, update.tasks, drawn, update.rate, measured)

    def one(number: jax.Array, carry: tuple[State, Log, Models]) -> tuple[State, Log, Models]:
        state, log, _ = carry
        state, update = learner.update(data, state)
        done = first + number + 1
        measured = jax.lax.cond(
            (done % every == 0) | (done == config.meta_updates),
            lambda: measure(objective, update.weights, update.initial, test),
            lambda: jax.tree.map(lambda part: jnp.full(part.shape, jnp.nan), nothing),
        )
        log = jax.tree.map(lambda column, value: column.at[number].set(value), log, entry(state, update, measured))
        return state, log, Models(update.initial, update.weights)

    nothing = Measured(jnp.zeros(objective.heads.width), jnp.zeros(objective.heads.width))
    _, like = jax.eval_shape(learner.update, data, state)
    row = jax.eval_shape(entry, state, like, nothing)
    blank = jax.tree.map(lambda part: jnp.zeros((CHUNK, *part.shape), part.dtype), row)
    models = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), Models(like.initial, like.weights))
    done: tuple[State, Log, Models] = jax.lax.fori_loop(0, count, one, (state, blank, models))
    return done


# The loop: chunk after chunk, group after group of lanes.

Chunk = tuple[Callable[[], dict[Lane, tuple[State, Models]]], list[tuple[Lane, Record]]]
"""State and models of every lane after a chunk, made when asked for; and a record for each update of each lane."""


def run(
    program: Program,
    states: Mapping[Lane, State],
    ended: Collection[Lane] = (),
    rows: Mapping[Lane, LaneRows] | None = None,
) -> Iterator[Chunk[Lane]]:
    """All updates that are left to ``states``, at most ``together`` lanes at a time.

    The last record of a lane has ``final``. One whose loss is no longer finite ends with a record that has
    ``diverged``; the others go on. Lanes that ``ended`` so before stay as they are. ``rows`` are the lanes' own, for a
    program made for that.
    """
    usual = lane_rows(program, program.tasks)
    for group in _groups(program, states):
        mine = [rows[lane] if rows else usual for lane in group]
        yield from _run_together(program, group, [states[lane] for lane in group], mine, ended)


def _groups(program: Program, states: Mapping[Lane, State]) -> Iterator[list[Lane]]:
    """Neighbouring lanes that have made as many updates, at most ``together`` of them."""
    group: list[Lane] = []
    for lane, state in states.items():
        if group and (len(group) == program.together or int(state.update) != int(states[group[0]].update)):
            yield group
            group = []
        group.append(lane)
    if group:
        yield group


def _run_together(
    program: Program, lanes: Sequence[Lane], states: Sequence[State], rows: Sequence[LaneRows], ended: Collection[Lane]
) -> Iterator[Chunk[Lane]]:
    config = program.objective.config
    data, test = _rows_of_all(program, rows)
    done = int(states[0].update)
    stacked, began = _stack(program, states), [state.knobs for state in states]
    alive = {lane: lane not in ended for lane in lanes}
    count = 1
    while done < config.meta_updates and any(alive.values()):
        count = min(count, CHUNK, config.meta_updates - done)
        start = time.monotonic()
        stacked, log, models = program.chunk(data, test, stacked, done, count)
        log = jax.tree.map(np.asarray, log)
        seconds = time.monotonic() - start
        records = _records(program, lanes, rows, began, alive, log, done, count)
        done += count
        if done == config.meta_updates:
            _add_final(program, lanes, rows, data, alive, stacked, models, records)
        yield partial(_by_lane, program, (stacked, models), lanes), records
        count = max(1, min(4 * count, int(count * CHUNK_SECONDS / max(seconds, 1e-3))))


def _rows_of_all(program: Program, rows: Sequence[LaneRows]) -> tuple[Data, Rows]:
    """What the program is given: the rows of its one lane, or of all; lanes' own are stacked like their states."""
    if program.together == 1 or not program.own_rows:
        return rows[0].data, rows[0].test
    full = [*rows, *[rows[-1]] * (program.together - len(rows))]
    own = [(each.data.validation, each.data.judged, each.data.folds, each.test) for each in full]
    validation, judged, folds, test = jax.tree.map(lambda *leaves: jnp.stack(leaves), *own)
    return rows[0].data._replace(validation=validation, judged=judged, folds=folds), test


def _stack(program: Program, states: Sequence[State]) -> State:
    """States along a first axis, spread over all devices; a short group is filled up with its last lane."""
    if program.together == 1:
        return states[0]
    full = [*states, *[states[-1]] * (program.together - len(states))]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *full)
    devices = jax.devices()
    if len(devices) == 1 or program.together % len(devices):
        return stacked
    by_lane = PartitionSpec("lanes")  # type: ignore[no-untyped-call]
    return jax.device_put(stacked, NamedSharding(Mesh(np.asarray(devices), ("lanes",)), by_lane))


def _by_lane(program: Program, stacked: Any, lanes: Sequence[Lane]) -> dict[Lane, Any]:
    if program.together == 1:
        return {lanes[0]: stacked}
    return {lane: jax.tree.map(lambda leaf, place=place: leaf[place], stacked) for place, lane in enumerate(lanes)}


# The records: what the compiled loop logged, for people and files.


def _records(
    program: Program,
    lanes: Sequence[Lane],
    rows: Sequence[LaneRows],
    began: Sequence[Knobs],
    alive: dict[Lane, bool],
    log: Log,
    done: int,
    count: int,
) -> list[tuple[Lane, Record]]:
    """Records of one chunk, lane after lane; one that diverges is struck from ``alive``."""
    records: list[tuple[Lane, Record]] = []
    for place, lane in enumerate(lanes):
        counts = _class_counts(program, rows[place].test.labels)
        mine = log if program.together == 1 else jax.tree.map(lambda column, place=place: column[place], log)
        for number in range(count):
            if not alive[lane]:
                break
            row: Log = jax.tree.map(lambda column, number=number: column[number], mine)
            update = done + number + 1
            if np.isfinite(row.loss):
                records.append((lane, _record(program, row, update, counts)))
                continue
            alive[lane] = False
            cause = _cause(began[place], float(row.rate))
            records.append((lane, {"update": update, "diverged": cause}))
    return records


def _cause(began: Knobs, rate: float) -> str:
    """The likely reason of a loss that is no longer finite, and what to do about it."""
    inner, outer = float(began.inner), float(began.outer)
    if not np.isfinite(rate) or rate > 2 * inner:
        return (
            f"the loss is no longer finite: the inner rate grew from {inner:g} to {rate:.3g}; "
            f"lower outer_rate (now {outer:g}) or give outer_clip"
        )
    return (
        f"the loss is no longer finite: the inner loop overflowed at rate {rate:.3g}; "
        f"lower inner_rate (now starts at {inner:g}) or give outer_clip"
    )


def _record(program: Program, row: Log, update: int, counts: NDArray[np.int64]) -> Record:
    """One update; ``counts`` (width,) are the rows by class of the test subset that is measured meanwhile."""
    objective, config = program.objective, program.objective.config
    drawn = int(row.drawn.sum())
    record: Record = {
        "update": update,
        "samples": drawn,
        "drawn": row.drawn.tolist(),
        "abstained": update * (config.batches_per_update or 0) - drawn // config.batch_size,
        "tasks": row.tasks.tolist(),
        "loss": float(row.loss),
        "validation_accuracy": float(row.validation_accuracy),
        "inner_rate": float(row.rate),
    }
    if np.isfinite(row.measured.adapted).all():
        adapted = read_score(objective, np.asarray(row.measured.adapted, np.float64), counts)
        initial = read_score(objective, np.asarray(row.measured.initial, np.float64), counts)
        record |= {
            "test_accuracy": adapted.accuracy,
            "initial_test_accuracy": initial.accuracy,
            "test_accuracy_by_class": adapted.by_class,
            "test_rows": int(counts.sum()),
        }
    return record


def _class_counts(program: Program, labels: ArrayLike) -> NDArray[np.int64]:
    """How many of the labels there are of each class (width,)."""
    return np.bincount(np.asarray(labels), minlength=program.objective.heads.width)


def _add_final(
    program: Program,
    lanes: Sequence[Lane],
    rows: Sequence[LaneRows],
    data: Data,
    alive: Mapping[Lane, bool],
    stacked: State,
    models: Models,
    records: Sequence[tuple[Lane, Record]],
) -> None:
    """Measure the last models on all test rows and put the result into each lane's last record."""
    objective = program.objective

    def scores(weights: Weights) -> list[NDArray[np.float64]]:
        """Sums of marks (width,) of every lane, on its own test rows."""
        stack = jax.tree.map(lambda leaf: leaf[None], weights) if program.together == 1 else weights
        found: dict[int, NDArray[np.float64]] = {}
        for tasks in {id(each.tasks): each.tasks for each in rows}.values():
            mine = np.array([place for place, each in enumerate(rows) if each.tasks is tasks])
            own = stack if len(mine) == len(rows) else jax.tree.map(lambda leaf, mine=mine: leaf[mine], stack)
            found |= dict(zip(mine.tolist(), program.full_score(own, host_rows(tasks.test)), strict=False))
        return [found[place] for place in range(len(rows))]

    adapted, initial = scores(models.weights), scores(models.initial)
    further = None
    if objective.config.adapt_on_target:
        further = scores(program.further(data, stacked, models.weights))
    drawn = np.asarray(stacked.stream.drawn).reshape(-1, *stacked.stream.drawn.shape[-2:])
    last = dict(records)
    for place, lane in enumerate(lanes):
        if not alive[lane]:
            continue
        counts = _class_counts(program, rows[place].tasks.test.labels)
        score = read_score(objective, adapted[place], counts)
        last[lane]["final"] = {
            "test_accuracy": score.accuracy,
            "balanced_test_accuracy": score.balanced,
            "test_accuracy_by_class": score.by_class,
            "initial_test_accuracy": read_score(objective, initial[place], counts).accuracy,
            "test_rows": int(counts.sum()),
            "drawn_by_label": drawn[place].tolist(),
        }
        if further is not None:
            accuracy = read_score(objective, further[place], counts).accuracy
            last[lane]["final"]["target_adapted_test_accuracy"] = accuracy
