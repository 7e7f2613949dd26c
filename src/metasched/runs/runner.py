"""Runs jobs to their outcomes, and stores them on disk so that they can be stopped and continued at any point.

Jobs of one shape share one compiled program, whatever their scheduler, reward, rates and seed. On accelerators they run
side by side, as replicas of the program; on a CPU they run one after another. What a run stores does not depend on the
others.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from metasched import schedulers
from metasched.errors import RunError
from metasched.files import write_whole
from metasched.learners import engine, model_file
from metasched.learners.engine import Chunk, Models, Program, Record
from metasched.learners.evaluation import judged_rows, predictions
from metasched.learners.inner import Schedule
from metasched.learners.meta import seed_keys
from metasched.learners.model import Model, model_of, read_model
from metasched.learners.one_thread import one_thread
from metasched.learners.probe import planner
from metasched.learners.protocol import State
from metasched.learners.stream import Stream, host_rows
from metasched.planning.plan import Plan
from metasched.runs import checkpoint, folder
from metasched.runs import outcome as outcomes
from metasched.runs import records as metrics
from metasched.runs.folder import Description
from metasched.runs.jobs import Job
from metasched.runs.lease import Lease, leased
from metasched.runs.outcome import Outcome
from metasched.schedulers import Scheduler
from metasched.schedulers.resolve import SINGLE, SchedulerSpec, build, needs_plan, plan_options
from metasched.schedulers.rows import RowScheduler, by_rows, switch_rows
from metasched.tasks import TaskSet

NOT_IN_OUTCOMES = ("reason", "predictions")
"""Fields of a description that its outcome does not have."""
CHECKPOINT_SECONDS = 10.0
"""The least number of seconds between checkpoints."""
APART_STEPS = 30_000
"""On a CPU, this many steps with one kind of scheduler are worth a separate program. Compiling it takes about five
seconds.
"""


class Result(NamedTuple):
    """The result of a run: its records, its last state, its outcome, and a function that makes or reads its model.

    A run that diverged has no model.
    """

    records: list[Record]
    state: State
    outcome: Outcome
    model: Callable[[], Model] | None


OnJobRecord = Callable[[int, Record], None]
"""Called with the number of a job and a record of it."""
OnOutcome = Callable[[int, Outcome], None]
"""Called with the number of a job when it has finished."""


def run(
    jobs: Sequence[Job],
    *,
    on_record: OnJobRecord | None = None,
    on_outcome: OnOutcome | None = None,
    together: int | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> list[Result]:
    """Run every job from its present state to its end. An interruption leaves checkpoints.

    ``together`` jobs of one shape run side by side. By default this is one on a CPU, and on accelerators as many as
    fit.
    """
    finished: dict[int, Result] = {}
    with one_thread(), leased([job.folder for job in jobs if job.folder is not None]) as leases:
        for numbers in _by_shape(jobs):
            group = _Group(Compiled([jobs[number] for number in numbers], together), leases)
            steps = group.run(checkpoint_seconds)
            try:
                for index, record, result in steps:
                    number = numbers[index]
                    if on_record:
                        on_record(number, record)
                    if result is not None:
                        finished[number] = result
                        if on_outcome:
                            on_outcome(number, result.outcome)
            except KeyboardInterrupt as stop:
                # Ctrl-C may come during a callback, outside the group's own code. The group then saves checkpoints.
                steps.throw(stop)
    return [finished[number] for number in range(len(jobs))]


@one_thread()
def seconds_per_update(jobs: Sequence[Job], updates: int = 5) -> list[float]:
    """Measure the seconds of one update of each job when it runs alone, with its share of evaluation, without
    compilation.
    """
    seconds: dict[int, float] = {}
    for numbers in _by_shape(jobs):
        compiled = Compiled([jobs[number] for number in numbers], 1)
        program = compiled.program
        for index, number in enumerate(numbers):
            state, (data, test, _) = compiled.first_state(index), compiled.rows[index]
            program.chunk(data, test, state, 0, 1)[1].loss.block_until_ready()
            began = time.monotonic()
            program.chunk(data, test, state, 0, updates)[1].loss.block_until_ready()
            seconds[number] = (time.monotonic() - began) / updates
    return [seconds[number] for number in range(len(jobs))]


# Which jobs share a program


def _by_shape(jobs: Sequence[Job]) -> list[list[int]]:
    """The numbers of the jobs that may share a program: they have the same sources and target rows of the same shape.

    Side by side, every replica computes whatever any replica needs for its decisions. So on accelerators, jobs that
    plan, which are slow, have their own program.
    """
    apart = jax.default_backend() != "cpu"
    groups: dict[Hashable, list[int]] = {}
    for number, job in enumerate(jobs):
        plans = apart and needs_plan(job.spec.scheduler)
        groups.setdefault((id(job.tasks.tasks), plans, _shape(job)), []).append(number)
    if apart:
        return list(groups.values())
    return [part for group in groups.values() for part in _by_kind(jobs, group)]


def _by_kind(jobs: Sequence[Job], numbers: Sequence[int]) -> list[list[int]]:
    """On a CPU, separate the kinds of schedulers that have many steps.

    A step with one scheduler takes half as long as a switch among several. Kinds with few steps stay together, because
    each additional program has to be compiled.
    """
    kinds: dict[Hashable, list[int]] = {}
    for number in numbers:
        kinds.setdefault((_kind(jobs[number], None), jobs[number].reward), []).append(number)
    found: list[list[int]] = []
    rest: list[int] = []
    for members in kinds.values():
        settings = jobs[members[0]].settings
        steps = settings.updates * (settings.batches_per_update or 1) * settings.inner_steps * len(members)
        if steps >= APART_STEPS:
            found.append(members)
        else:
            rest += members
    return [*found, rest] if rest else found


def likeness(job: Job, alone: bool) -> Hashable:
    """Equal for jobs that share a compiled program, either one after another (``alone``) or side by side."""
    return (_shape(job), _kind(job, None), job.reward) if alone else _shape(job)


def _shape(job: Job) -> Hashable:
    """What a compiled program depends on, apart from schedulers and rewards: settings and shapes.

    Rates and the seed are inputs of the program, and so are the rows and, in regression, their unit.
    """
    tasks, settings = job.tasks, job.settings
    rows = (
        tasks.sizes,
        tasks.shape,
        tuple(len(task.classes) for task in tasks.tasks),
        (len(tasks.classes), tasks.shared_labels),
        len(tasks.validation.labels),
        min(settings.eval_rows, len(tasks.test.labels)),
        tasks.target_size,
    )
    without_rates = settings.with_rates((1.0,) * len(settings.rates))
    return without_rates, job.spec.network, job.own_network, job.objective.losses, rows


def _kind(job: Job, plan: Plan | None) -> Hashable:
    """Equal for jobs whose schedulers have the same functions. All other differences are in the scheduler's state."""
    spec = job.spec
    if "scheduler" in spec.own:
        return job.scheduler
    name = "single" if spec.scheduler.startswith(SINGLE) else spec.scheduler
    kind = (name, repr(sorted(spec.options.items())), spec.abstain)
    # A static MDP schedule without a table of actions has the plan itself compiled in.
    tabled = plan is None or spec.options.get("refresh", 1) != 0 or name != "mdp" or plan.policy.actions is not None
    return kind if tabled else (*kind, _Identity(plan))


class _Identity:
    """Equal only for keys made from the same object. It holds a reference, because a freed id can be reused."""

    def __init__(self, one: object) -> None:
        self._one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other._one is self._one

    def __hash__(self) -> int:
        return id(self._one)


class Programs:
    """Compiled programs, without rows, for later jobs with the same shapes and settings. The latest 16 are kept."""

    most = 16

    def __init__(self) -> None:
        self._programs: dict[Hashable, Program] = {}

    def get(self, key: Hashable, tasks: TaskSet, make: Callable[[], Program]) -> Program:
        """The program of this key, filled with these tasks."""
        known = self._programs.pop(key, None)
        program = make() if known is None else engine.refill(known, tasks)
        # Without its rows, it takes hardly any memory. It becomes the last one, so the least recently used one is the
        # first.
        self._programs[key] = program._replace(rows=None)  # type: ignore[arg-type]
        while len(self._programs) > self.most:
            del self._programs[next(iter(self._programs))]
        return program


_PROGRAMS = Programs()
"""The programs of this process. A second run like the first one compiles nothing."""


def _plans(jobs: Sequence[Job]) -> list[Plan | None]:
    """The plan of each job that needs one, from its own initial model, with probes at its own rate."""
    makers: dict[Hashable, Callable[[int, float], Plan]] = {}

    def plan(job: Job) -> Plan:
        asked = plan_options(job.spec.scheduler, job.spec.options)
        key = (tuple(sorted(asked.items())), id(job.tasks))
        if key not in makers:
            makers[key] = cache(planner(job.tasks, job.objective.network, job.settings, **asked))
        return makers[key](job.spec.seed, job.settings.probe_rate)

    return [plan(job) if job.scheduler is None else None for job in jobs]


def _scheduler(job: Job, plan: Plan | None) -> Scheduler:
    """The scheduler of a job, made from its plan if it needs one."""
    if job.scheduler is not None:
        return job.scheduler
    spec = SchedulerSpec(job.spec.scheduler, job.spec.options)
    batch_size, abstain = job.settings.rows_per_choice, job.spec.abstain
    return build(spec, job.tasks.sizes, batch_size=batch_size, abstain=abstain, plan=plan)


def _chooser(job: Job, plan: Plan | None) -> Scheduler | RowScheduler:
    """The scheduler of a job, or its row scheduler if batches are mixed."""
    scheduler = _scheduler(job, plan)
    if job.settings.batching == "per_source":
        return scheduler
    return by_rows(scheduler, len(job.tasks.tasks) + job.spec.abstain)


def _one_of(choosers: Sequence[Any]) -> Any:
    """One scheduler that does what the scheduler with the number of the replica would do."""
    if len(choosers) == 1:
        return choosers[0]
    return switch_rows(choosers) if isinstance(choosers[0], RowScheduler) else schedulers.switch(choosers)


class Computation(ABC):
    """What jobs of one shape compute; jobs go by their index in the group. :class:`_Group` keeps all of it on disk.

    :class:`Compiled` is the one that trains. The campaign has another one, which only counts, so that it can stop runs
    many thousand times.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs

    @abstractmethod
    def first_state(self, index: int) -> State:
        """The state of a job before its first update."""

    @abstractmethod
    def alone(self, index: int, state: State) -> State:
        """The state as the job would have it in a program of its own: what is stored."""

    @abstractmethod
    def among_others(self, index: int, alone: State, fresh: State) -> State:
        """The state as the program needs it, of one that was stored; ``fresh`` is the job's first."""

    @abstractmethod
    def run(self, states: Mapping[int, State], ended: Collection[int]) -> Iterator[Chunk[int]]:
        """All updates that are left to jobs that have not ended (:func:`metasched.learners.engine.run`)."""

    @abstractmethod
    def unit(self, index: int) -> Any:
        """In regression the unit that a job's network learns in, otherwise None."""

    @abstractmethod
    def model(self, index: int, models: Models) -> Model:
        """The model that was evaluated last."""

    @abstractmethod
    def predictions(self, index: int, model: Model) -> bytes:
        """What the model says of the test rows, as an outcome has it."""


class Compiled(Computation):
    """Jobs of one shape in one compiled program.

    ``kinds`` has the number of each job's scheduler among the distinct ones. If there are several, the state of a
    replica holds a state for each (:func:`metasched.schedulers.switch`), but only the job's own state is stored.
    """

    def __init__(self, jobs: Sequence[Job], together: int | None) -> None:
        super().__init__(jobs)
        first = jobs[0]
        plans = _plans(jobs)
        self.schedulers = [_chooser(job, plan) for job, plan in zip(jobs, plans, strict=True)]
        kinds = [_kind(job, plan) for job, plan in zip(jobs, plans, strict=True)]
        distinct = dict(zip(kinds, self.schedulers, strict=True))
        self.kinds = [list(distinct).index(kind) for kind in kinds]
        self.shared = len(distinct) > 1
        rewards = tuple(dict.fromkeys(job.reward for job in jobs))
        self.rewards = [rewards.index(job.reward) for job in jobs]
        scheduler = _one_of(list(distinct.values()))
        objective = first.objective._replace(abstain=any(job.spec.abstain for job in jobs))
        if together is None:
            together = engine.side_by_side(first.tasks, objective, len(jobs))
        targets = {id(job.tasks): job.tasks for job in jobs}
        own_rows = len(targets) > 1
        sums = any(job.reads_rewards for job in jobs)

        def make() -> Program:
            schedule = Schedule(scheduler, rewards, sums)
            return engine.prepare(first.tasks, objective, schedule, together, own_rows)

        key = (_shape(first), tuple(distinct), rewards, sums, objective.abstain, together, own_rows)
        self.program = _PROGRAMS.get(key, first.tasks, make)
        rows = {number: engine.replica_rows(self.program, tasks) for number, tasks in targets.items()}
        self.rows = {index: rows[id(job.tasks)] for index, job in enumerate(jobs)}

    def first_state(self, index: int) -> State:
        """It follows from the job's seed and rates."""
        job = self.jobs[index]
        hyperparameters = engine.hyperparameters_of(job.settings, self.rewards[index])
        seed = np.uint32(job.spec.seed)
        state = self.program.start(self.rows[index].data, seed, hyperparameters)
        return self._with_scheduler(index, state, self.schedulers[index].init(seed_keys(seed)[1]))

    def alone(self, index: int, state: State) -> State:
        """Without what others in the program need.

        Hyperparameters are left out: they follow from the spec, and the reward's index from the program. So are the
        sums of rewards that others of the program asked for.
        """
        stream = state.stream
        own = stream.scheduler.states[self.kinds[index]] if self.shared else stream.scheduler
        sums = stream.rewards if self.jobs[index].reads_rewards else None
        return state._replace(stream=stream._replace(scheduler=own, rewards=sums), hyperparameters=None)

    def among_others(self, index: int, alone: State, fresh: State) -> State:
        """With what others in the program need."""
        stream = alone.stream._replace(scheduler=fresh.stream.scheduler)
        if not self.jobs[index].reads_rewards:
            stream = stream._replace(rewards=fresh.stream.rewards)
        state = alone._replace(stream=stream, hyperparameters=fresh.hyperparameters)
        return self._with_scheduler(index, state, alone.stream.scheduler)

    def run(self, states: Mapping[int, State], ended: Collection[int]) -> Iterator[Chunk[int]]:
        """As many jobs side by side as the program is made for."""
        return engine.run(self.program, states, ended, self.rows)

    def unit(self, index: int) -> Any:
        """It comes with the job's rows."""
        return self.rows[index].data.unit

    def model(self, index: int, models: Models) -> Model:
        """The network of the job with its last weights."""
        job = self.jobs[index]
        return model_of(job.objective, job.tasks, models.weights)

    def predictions(self, index: int, model: Model) -> bytes:
        """Little-endian float32, row by row."""
        tasks = self.jobs[index].tasks
        stack = jax.tree.map(lambda leaf: leaf[None], model.weights)
        (read,) = self.program.read(stack, host_rows(tasks.test).take(judged_rows(tasks)), self.unit(index))
        return predictions(self.program.objective, read).astype("<f4").tobytes()

    def _with_scheduler(self, index: int, state: State, own: Any) -> State:
        """A replica's state with the state of the job's own scheduler put in."""
        mixed = state.stream.scheduler
        if self.shared:
            states = [own if number == self.kinds[index] else other for number, other in enumerate(mixed.states)]
            own = mixed._replace(which=jnp.int32(self.kinds[index]), states=tuple(states))
        return state._replace(stream=state.stream._replace(scheduler=own))


class _Group:
    """Jobs whose computation is kept on disk; jobs go by their index in the group."""

    def __init__(self, computation: Computation, leases: Mapping[Path, Lease]) -> None:
        self.computation = computation
        self.jobs = computation.jobs
        self.leases = leases

    def run(self, checkpoint_seconds: float) -> Generator[tuple[int, Record, Result | None], None, None]:
        """Yield all records of every job, repeating those of an interrupted run. The last record of a job comes with
        its result.
        """
        records: dict[int, list[Record]] = {}
        states: dict[int, State] = {}
        models: dict[int, Model] = {}
        for index in range(len(self.jobs)):
            states[index], records[index] = self._restore(index)
        ended = {index for index, known in records.items() if known and "diverged" in known[-1]}
        for index, known in records.items():
            for record in known:
                yield index, record, self._result(index, known, states[index], None, record)
        saved = time.monotonic()
        try:
            for moved, lines in self.computation.run(states, ended):
                # The order of writes is what makes a kill harmless. Records come first: those beyond the last
                # checkpoint are cut off on resume and computed again, but a checkpoint cannot continue without its
                # records.
                fresh: dict[int, list[Record]] = {}
                for index, record in lines:
                    fresh.setdefault(index, []).append({"seed": self.jobs[index].spec.seed, **record})
                for index, mine in fresh.items():
                    records[index] += mine
                    path = self._leased_folder(index)
                    if path is not None:
                        metrics.append(path, mine)
                # Then the model of a run that has ended. Its last checkpoint says that it is done, and the model that
                # was evaluated cannot be made from the checkpoint.
                for index, (state, kept) in moved().items():
                    if "final" in records[index][-1]:
                        models[index] = self._keep_model(index, kept)
                    states[index] = state
                # Then the checkpoint, which declares all of that valid.
                if any(map(_is_last, (mine[-1] for mine in fresh.values()))) or (
                    time.monotonic() - saved >= checkpoint_seconds
                ):
                    self._save(states, list(fresh))
                    saved = time.monotonic()
                # The outcome comes last. If it exists, everything else is there.
                for index, mine in fresh.items():
                    for record in mine:
                        result = self._result(index, records[index], states[index], models.get(index), record)
                        yield index, record, result
        except KeyboardInterrupt:
            self._save(states, [index for index, known in records.items() if known])
            raise

    def _leased_folder(self, index: int) -> Path | None:
        """The folder of a job. An error if the lease on it was lost, because another process may then write there."""
        path = self.jobs[index].folder
        if path is not None:
            self.leases[path].check()
        return path

    def _restore(self, index: int) -> tuple[State, list[Record]]:
        """The state of a job and the records that led to it, from its last checkpoint."""
        path = self._leased_folder(index)
        fresh = self.computation.first_state(index)
        if path is None:
            return fresh, []
        template = self.computation.alone(index, fresh)
        stored = checkpoint.load(path, model_file.size(template))
        if stored is None:
            metrics.keep(path, [])
            return fresh, []
        tensors, update = stored
        tensors = {**_unknown_rewards(template), **tensors}  # an earlier version did not add them up
        alone = model_file.unflatten(template, tensors, f"{path}: the checkpoint", "run")
        records = metrics.read(path, update)
        shape, total = alone.stream.drawn.shape, self.jobs[index].settings.updates
        metrics.check(records, update, total, shape, path / metrics.METRICS)
        ended = bool(records) and _is_last(records[-1])
        if not ended and any(name not in tensors for name in self._unit_tensors(index)):
            raise RunError(
                f"{path}: was started by an earlier version, which did not standardise the numbers to predict; "
                "start the run again in another folder"
            )
        metrics.keep(path, records)
        return self.computation.among_others(index, alone, fresh), records

    def _save(self, states: Mapping[int, State], indices: Sequence[int]) -> None:
        """Write a checkpoint of each of these jobs, after its records are on the disk."""
        for index in indices:
            path = self._leased_folder(index)
            if path is not None:
                metrics.flush(path)
                tensors = model_file.flatten(self.computation.alone(index, states[index])) | self._unit_tensors(index)
                checkpoint.save(path, tensors, int(states[index].update))

    def _unit_tensors(self, index: int) -> model_file.Tensors:
        """In regression what a checkpoint has beside the state: the unit that its network learns in."""
        unit = self.computation.unit(index)
        return {} if unit is None else model_file.flatten({"unit": unit})

    def _keep_model(self, index: int, models: Models) -> Model:
        """The model that was evaluated last, written where the run is kept."""
        model, path = self.computation.model(index, models), self.jobs[index].folder
        if path is not None:
            model.save(path)
        return model

    def _result(
        self, index: int, records: list[Record], state: State, model: Model | None, record: Record
    ) -> Result | None:
        """The result of a job, if this is its last record. Its outcome is written."""
        if not _is_last(record):
            return None
        job, alone = self.jobs[index], self.computation.alone(index, state)
        get_model: Callable[[], Model] = lambda: model  # type: ignore[return-value,assignment]  # noqa: E731
        if model is None and job.folder is not None:
            get_model = partial(read_model, job.folder, job.own_network)
        outcome = outcome_of(job.description, records)
        if outcome.final is not None:
            # Neither is among the records: one follows from the model, the other from the state.
            said = self.computation.predictions(index, get_model()) if job.description.predictions else None
            final = msgspec.structs.replace(outcome.final, outputs=said)
            rewards = mean_rewards(alone.stream, job.settings.rows_per_choice)
            outcome = msgspec.structs.replace(outcome, final=final, rewards=rewards)
        if job.folder is not None:
            write_whole(job.folder / folder.OUTCOME, outcomes.encode(outcome))
            checkpoint.remove(job.folder / checkpoint.PREVIOUS)
        return Result(records, alone, outcome, get_model if outcome.final else None)


def _is_last(record: Record) -> bool:
    return "final" in record or "diverged" in record


def outcome_of(description: Description, records: Sequence[Record]) -> Outcome:
    """The outcome of a finished run: the curve, the final scores, rows by task and label, the schedule."""
    last = records[-1]
    shared = {name: getattr(description, name) for name in Description.__struct_fields__ if name not in NOT_IN_OUTCOMES}
    about: dict[str, Any] = {"run": description.spec.name, **shared}
    if "diverged" in last:
        return Outcome(**about, diverged=outcomes.Diverged(update=last["update"], cause=last["diverged"]))
    evaluated = [record for record in records if "test_accuracy" in record]
    return Outcome(
        **about,
        updates=tuple(record["update"] for record in evaluated),
        samples=tuple(record["samples"] for record in evaluated),
        test_accuracy=tuple(record["test_accuracy"] for record in evaluated),
        final=msgspec.convert({**last["final"], "validation_accuracy": last["validation_accuracy"]}, outcomes.Final),
        drawn=tuple(last["drawn"]),
        abstained=last["abstained"],
        schedule=_schedule(records, len(description.about.tasks) + 1),
    )


def mean_rewards(stream: Stream, rows_per_choice: int) -> tuple[float | None, ...] | None:
    """The mean reward by task over all choices of a run; None for a task without rewards, or altogether if sums are
    unknown.

    It has four digits, because the last bits of a reward depend on the other jobs of the program, and what a run stores
    must not.
    """
    if stream.rewards is None or not np.isfinite(stream.rewards).all():
        return None
    choices = np.asarray(stream.drawn).sum(axis=1) // rows_per_choice
    sums = np.asarray(stream.rewards, np.float64)
    return tuple(float(f"{total / count:.4g}") if count else None for total, count in zip(sums, choices, strict=True))


def _unknown_rewards(template: State) -> model_file.Tensors:
    """Unknown sums of rewards, under the name that they have in a checkpoint."""
    rewards = template.stream.rewards
    return {} if rewards is None else {".stream.rewards": np.full_like(rewards, np.nan)}


def _schedule(records: Sequence[Record], arms: int) -> tuple[tuple[int, ...], ...]:
    """The batches of each task and of none in each update, or rows if batches are mixed."""
    if "tasks" in records[-1]:
        return tuple(tuple(np.bincount(record["tasks"], minlength=arms).tolist()) for record in records)
    so_far = np.array([[0] * arms, *([*record["drawn"], record["abstained"]] for record in records)])
    return tuple(tuple(row) for row in np.diff(so_far, axis=0).tolist())
