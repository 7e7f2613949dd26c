"""Runs from their specs to their outcomes: what is kept on disk while the engine trains.

Runs of one shape share one compiled program, whatever their scheduler, reward, rates and seed; on accelerators they run
side by side, on a CPU one after another. What a run keeps on disk does not depend on its neighbours.
"""

import time
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import optax

from metasched import schedulers
from metasched.files import write_whole
from metasched.learners import engine, rewards, trees
from metasched.learners.config import TrainConfig
from metasched.learners.engine import Models, Program, Record
from metasched.learners.gradients import Estimator
from metasched.learners.losses import Losses
from metasched.learners.meta import seed_keys
from metasched.learners.model import Model, model_of, read_model
from metasched.learners.networks import Network, default_network
from metasched.learners.probe import planner
from metasched.learners.protocol import State
from metasched.learners.rewards import Reward
from metasched.planning.plan import Plan
from metasched.runs import checkpoint, folder, scheduler_spec
from metasched.runs import outcome as outcomes
from metasched.runs.folder import Description
from metasched.runs.lease import Lease, leased
from metasched.runs.outcome import Outcome
from metasched.runs.records import check
from metasched.schedulers import Scheduler, resolve
from metasched.tasks import TaskSet

CHECKPOINT_SECONDS = 10.0


class Own(NamedTuple):
    """What a spec cannot write down, made in Python; None where the spec says it all."""

    network: Network | None = None
    scheduler: Scheduler | None = None
    losses: Losses | None = None
    optimiser: optax.GradientTransformation | None = None
    reward: Reward | None = None
    gradient: Estimator | None = None


class Job(NamedTuple):
    """A run to be made: what it is, its rows, and where it is kept (None: nowhere)."""

    description: Description
    tasks: TaskSet
    own: Own = Own()
    folder: Path | None = None

    @property
    def config(self) -> TrainConfig:
        """Its settings."""
        return TrainConfig(**self.description.spec.config)

    @property
    def network(self) -> Network:
        """Its network, built."""
        given = self.own.network or self.description.spec.network
        return default_network(self.tasks, given, self.config.heads == "shared")


class Result(NamedTuple):
    """What came of a run: its records, its last state, the line to keep, and the model, made or read when called for.

    A run that diverged has no model.
    """

    records: list[Record]
    state: State
    outcome: Outcome
    model: Callable[[], Model] | None


OnRecord = Callable[[int, Record], None]
"""Called with the number of a job and a record of it."""
OnOutcome = Callable[[int, Outcome], None]
"""Called with the number of a job when it has finished."""


class Programs:
    """Compiled programs, kept without rows for whatever comes with the same shapes and settings; the last 16."""

    most = 16

    def __init__(self) -> None:
        self._kept: dict[Hashable, Program] = {}

    def get(self, key: Hashable, tasks: TaskSet, make: Callable[[], Program]) -> Program:
        """The program of that key, filled with those tasks."""
        kept = self._kept.pop(key, None)
        program = make() if kept is None else engine.refill(kept, tasks)
        self._kept[key] = engine.emptied(program)
        while len(self._kept) > self.most:
            del self._kept[next(iter(self._kept))]
        return program


_PROGRAMS = Programs()
"""Of this process: a second run like the first compiles nothing."""


def run(
    jobs: Sequence[Job],
    *,
    on_record: OnRecord | None = None,
    on_outcome: OnOutcome | None = None,
    together: int | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> list[Result]:
    """Run every job from where it stands to its end; an interruption leaves checkpoints behind.

    ``together`` jobs of one shape run side by side; by default one on a CPU, and on accelerators as many as fit.
    """
    finished: dict[int, Result] = {}
    with leased([job.folder for job in jobs if job.folder is not None]) as leases:
        for numbers in _by_shape(jobs):
            group = _Group([jobs[number] for number in numbers], together, leases)
            steps = group.run(checkpoint_seconds)
            try:
                for place, record, result in steps:
                    number = numbers[place]
                    if on_record:
                        on_record(number, record)
                    if result is not None:
                        finished[number] = result
                        if on_outcome:
                            on_outcome(number, result.outcome)
            except KeyboardInterrupt as stop:
                steps.throw(stop)  # it may have come between two records: the group leaves its checkpoints
    return [finished[number] for number in range(len(jobs))]


def seconds_per_update(jobs: Sequence[Job], updates: int = 5) -> list[float]:
    """Seconds of one update of each job when it runs alone, its share of measuring included, compilation aside."""
    seconds: dict[int, float] = {}
    for numbers in _by_shape(jobs):
        group = _Group([jobs[number] for number in numbers], 1)
        program = group.program
        for place, number in enumerate(numbers):
            state, (data, test, _) = group.first_state(place), group.rows[place]
            program.chunk(data, test, state, 0, 1)[1].loss.block_until_ready()
            began = time.monotonic()
            program.chunk(data, test, state, 0, updates)[1].loss.block_until_ready()
            seconds[number] = (time.monotonic() - began) / updates
    return [seconds[number] for number in range(len(jobs))]


def _by_shape(jobs: Sequence[Job]) -> list[list[int]]:
    """Numbers of the jobs that may share a program: the same sources, target rows of one shape.

    Side by side every replica computes what any replica decides by, so on accelerators those that plan have their own.
    """
    apart = jax.default_backend() != "cpu"
    groups: dict[Hashable, list[int]] = {}
    for number, job in enumerate(jobs):
        plans = apart and resolve.needs_plan(job.description.spec.scheduler)
        groups.setdefault((id(job.tasks.tasks), plans, _shape(job)), []).append(number)
    return list(groups.values())


def likeness(job: Job, alone: bool) -> Hashable:
    """Equal for jobs that share a compiled program, when each runs ``alone`` or when all run side by side."""
    return (_shape(job), _kind(job, None), job.own.reward or job.config.reward) if alone else _shape(job)


def _shape(job: Job) -> Hashable:
    """What a compiled program depends on, but for schedulers and rewards: settings and shapes, no rows, rates, seed."""
    spec, tasks = job.description.spec, job.tasks
    config = replace(job.config, inner_rate=1.0, outer_rate=1.0, reward="", abstain=False)
    rows = (
        tasks.sizes,
        tasks.shape,
        tuple(len(task.classes) for task in tasks.tasks),
        (len(tasks.classes), tasks.shared_labels),
        len(tasks.validation.labels),
        min(config.eval_rows, len(tasks.test.labels)),
        None if tasks.target_size is None else tasks.fingerprint,
    )
    return spec.learner, spec.network, config, rows, job.own._replace(scheduler=None, reward=None)


class _Group:
    """Jobs of one shape: their program, and for each job its scheduler and its place among those of the program.

    ``kinds`` are the distinct schedulers of the program. Where there are several, the state of a replica holds a state
    for each (:func:`metasched.schedulers.switch`); what is stored is only its own.
    """

    def __init__(self, jobs: Sequence[Job], together: int | None, leases: Mapping[Path, Lease] | None = None) -> None:
        self.jobs = jobs
        self.leases = leases or {}
        first = jobs[0]
        plans = _plans(jobs)
        self.schedulers = [job.own.scheduler or _scheduler(job, plan) for job, plan in zip(jobs, plans, strict=True)]
        kinds = [_kind(job, plan) for job, plan in zip(jobs, plans, strict=True)]
        distinct = dict(zip(kinds, self.schedulers, strict=True))
        self.places = [list(distinct).index(kind) for kind in kinds]
        told = [rewards.find(job.own.reward or job.config.reward) for job in jobs]
        known = tuple(dict.fromkeys(told))
        self.rewards = [known.index(reward) for reward in told]
        self.shared = len(distinct) > 1
        scheduler = schedulers.switch(list(distinct.values())) if self.shared else self.schedulers[0]
        config = replace(first.config, abstain=any(job.config.abstain for job in jobs))
        if together is None:
            together = engine.side_by_side(first.tasks, first.network, config, len(jobs))

        targets = {id(job.tasks): job.tasks for job in jobs}
        own_rows = len(targets) > 1

        def make() -> Program:
            return engine.prepare(
                *(first.tasks, first.network, scheduler, config, known),
                losses=first.own.losses,
                outer=first.own.optimiser,
                estimator=first.own.gradient,
                learner=first.description.spec.learner,
                together=together,
                own_rows=own_rows,
            )

        key = (_shape(first), tuple(distinct), known, config.abstain, together, own_rows)
        self.program = _PROGRAMS.get(key, first.tasks, make)
        rows = {number: engine.replica_rows(self.program, tasks) for number, tasks in targets.items()}
        self.rows = {place: rows[id(job.tasks)] for place, job in enumerate(jobs)}

    def run(self, checkpoint_seconds: float) -> Generator[tuple[int, Record, Result | None], None, None]:
        """Every record of every job, those of an interrupted one again; a job's last record comes with its result."""
        records: dict[int, list[Record]] = {}
        states: dict[int, State] = {}
        models: dict[int, Model] = {}
        for place in range(len(self.jobs)):
            states[place], records[place] = self._restore(place)
        begun = [place for place, known in records.items() if known]
        ended = {place for place, known in records.items() if known and "diverged" in known[-1]}
        for place in begun:
            for record in records[place]:
                yield place, record, self._result(place, records[place], states[place], None, record)
        saved = time.monotonic()
        try:
            for moved, lines in engine.run(self.program, states, ended, self.rows):
                fresh: dict[int, list[Record]] = {}
                for place, record in lines:
                    fresh.setdefault(place, []).append({"seed": self.jobs[place].description.spec.seed, **record})
                for place, mine in fresh.items():
                    records[place] += mine
                    where = self._where(place)
                    if where is not None:
                        folder.append_records(where, mine)
                for place, (state, kept) in moved().items():
                    if "final" in records[place][-1]:  # before its last checkpoint, which no model can be made from
                        models[place] = self._keep_model(place, kept)
                    states[place] = state
                done = any(_last(mine[-1]) for mine in fresh.values())
                if done or time.monotonic() - saved >= checkpoint_seconds:
                    self._save(states, list(fresh))
                    saved = time.monotonic()
                for place, mine in fresh.items():
                    for record in mine:
                        result = self._result(place, records[place], states[place], models.get(place), record)
                        yield place, record, result
        except KeyboardInterrupt:
            self._save(states, [place for place, known in records.items() if known])
            raise

    def _where(self, place: int) -> Path | None:
        """The folder that a job may write to: one whose lease is still ours."""
        where = self.jobs[place].folder
        if where is not None:
            self.leases[where].check()
        return where

    def first_state(self, place: int) -> State:
        """The state of a job before its first update."""
        job = self.jobs[place]
        hyperparameters = engine.hyperparameters_of(job.config, self.rewards[place])
        seed = np.uint32(job.description.spec.seed)
        state = self.program.start(self.rows[place].data, seed, hyperparameters)
        return self._with_own(place, state, self.schedulers[place].init(seed_keys(seed)[1]))

    def _with_own(self, place: int, state: State, own: Any) -> State:
        """A replica's state with the state of its own scheduler put in."""
        mixed = state.stream.scheduler
        if self.shared:
            states = [own if number == self.places[place] else other for number, other in enumerate(mixed.states)]
            own = mixed._replace(which=jnp.int32(self.places[place]), states=tuple(states))
        return state._replace(stream=state.stream._replace(scheduler=own))

    def _alone(self, place: int, state: State) -> State:
        """The state as the job would have it in a program of its own: what is stored.

        Hyperparameters are left out: they follow from the spec, and the reward's index from the program.
        """
        own = state.stream.scheduler.states[self.places[place]] if self.shared else state.stream.scheduler
        return state._replace(stream=state.stream._replace(scheduler=own), hyperparameters=None)

    def _restore(self, place: int) -> tuple[State, list[Record]]:
        """The state of a job and the records that led to it, as its last checkpoint has them."""
        where = self._where(place)
        fresh = self.first_state(place)
        if where is None:
            return fresh, []
        template = self._alone(place, fresh)
        stored = checkpoint.load(where, trees.size(template))
        if stored is None:
            folder.keep_records(where, [])
            return fresh, []
        tensors, update = stored
        alone = trees.unflatten(template, tensors, f"{where}: the checkpoint", "run")
        records = folder.read_records(where, update)
        check(records, update, self.jobs[place].config.meta_updates, alone.stream.drawn.shape, where / folder.METRICS)
        folder.keep_records(where, records)
        stream = alone.stream._replace(scheduler=fresh.stream.scheduler)
        state = alone._replace(stream=stream, hyperparameters=fresh.hyperparameters)
        return self._with_own(place, state, alone.stream.scheduler), records

    def _save(self, states: Mapping[int, State], places: Sequence[int]) -> None:
        for place in places:
            where = self._where(place)
            if where is None:
                continue
            folder.sync_metrics(where)
            checkpoint.save(where, trees.flatten(self._alone(place, states[place])), int(states[place].update))

    def _keep_model(self, place: int, models: Models) -> Model:
        """The model that the last measurement was of, written where the run is kept."""
        job = self.jobs[place]
        model = model_of(self.program.objective, job.tasks, models.weights)
        if job.folder is not None:
            model.save(job.folder)
        return model

    def _model(self, place: int, model: Model | None) -> Callable[[], Model]:
        """What gives the model of a run that has ended: the one at hand, or the one in its folder."""
        job = self.jobs[place]
        if model is None and job.folder is not None:
            return partial(read_model, job.folder, job.own.network)
        return lambda: model  # type: ignore[return-value]

    def _result(
        self, place: int, records: list[Record], state: State, model: Model | None, record: Record
    ) -> Result | None:
        """The result of a job whose last record this is; its line is written."""
        if not _last(record):
            return None
        job = self.jobs[place]
        outcome = outcome_of(job.description, records)
        if job.folder is not None:
            write_whole(job.folder / folder.OUTCOME, outcomes.encode(outcome))
            checkpoint.drop_previous(job.folder)
        return Result(records, self._alone(place, state), outcome, self._model(place, model) if outcome.final else None)


def _last(record: Record) -> bool:
    return "final" in record or "diverged" in record


def _plans(jobs: Sequence[Job]) -> list[Plan | None]:
    """The plan of each job that needs one: from its own initial model, with probes at its own rate."""
    makers: dict[Hashable, Callable[[int, float], Plan]] = {}
    plans: dict[Hashable, Plan] = {}
    found: list[Plan | None] = []
    for job in jobs:
        spec = job.description.spec
        if job.own.scheduler is not None or not resolve.needs_plan(spec.scheduler):
            found.append(None)
            continue
        asked = resolve.plan_options(spec.scheduler, spec.options)
        options = (tuple(sorted(asked.items())), id(job.tasks))
        if options not in makers:
            makers[options] = planner(job.tasks, job.network, job.config, **asked)
        key = (options, spec.seed, job.config.inner_rate)
        if key not in plans:
            plans[key] = makers[options](spec.seed, job.config.inner_rate)
        found.append(plans[key])
    return found


def _scheduler(job: Job, plan: Plan | None) -> Scheduler:
    spec = job.description.spec
    return scheduler_spec.build(spec.scheduler, spec.options, job.tasks.sizes, job.config, plan)


class _Itself:
    """Equal to what is of the very same object, which it keeps: the number of one that is gone may be another's."""

    def __init__(self, one: object) -> None:
        self._one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other._one is self._one

    def __hash__(self) -> int:
        return id(self._one)


def _kind(job: Job, plan: Plan | None) -> Hashable:
    """What makes two jobs share a scheduler's functions; all else that they need is in its state."""
    spec = job.description.spec
    if job.own.scheduler is not None:
        return job.own.scheduler
    name = "single" if spec.scheduler.startswith(resolve.SINGLE) else spec.scheduler
    kind = (name, repr(sorted(spec.options.items())), job.config.abstain)
    tabled = plan is None or spec.options.get("refresh", 1) != 0 or name != "mdp" or plan.policy.actions is not None
    return kind if tabled else (*kind, _Itself(plan))


def outcome_of(description: Description, records: Sequence[Record]) -> Outcome:
    """The line of a finished run: the curve, the final measurements, rows by task and label, the schedule."""
    last = records[-1]
    told: dict[str, Any] = {
        "run": description.spec.name,
        "spec": description.spec,
        "method": description.method,
        "family": description.family,
        "role": description.role,
        "study": description.study,
        "about": description.about,
        "origin": description.origin,
    }
    if "diverged" in last:
        return Outcome(**told, diverged=outcomes.Diverged(update=last["update"], cause=last["diverged"]))
    measured = [record for record in records if "test_accuracy" in record]
    arms = len(description.about.tasks) + 1
    return Outcome(
        **told,
        updates=tuple(record["update"] for record in measured),
        samples=tuple(record["samples"] for record in measured),
        test_accuracy=tuple(record["test_accuracy"] for record in measured),
        final=msgspec.convert({**last["final"], "validation_accuracy": last["validation_accuracy"]}, outcomes.Final),
        drawn=tuple(last["drawn"]),
        abstained=last["abstained"],
        schedule=tuple(tuple(np.bincount(record["tasks"], minlength=arms).tolist()) for record in records),
    )
