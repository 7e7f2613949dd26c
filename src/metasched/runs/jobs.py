"""Turns a request into runs that can be executed. Every name is resolved and everything is checked here, once.

A :class:`Job` holds the resolved objects. The code that runs it trusts them and checks nothing again.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metasched.errors import ConfigError, MetaschedError, RunError
from metasched.learners import reference_results, rewards
from metasched.learners.checks import checked_objective
from metasched.learners.losses import Loss, Losses, Objective, cross_entropy, deviation_of, squared_error
from metasched.learners.networks import Network
from metasched.learners.rewards import Reward
from metasched.learners.settings import Joint, LearnerSettings, settings_of
from metasched.planning.plan import make as make_plan
from metasched.runs import folder
from metasched.runs.folder import RUN, Description
from metasched.runs.outcome import About, origin, versions
from metasched.runs.spec import EARLIER, DataSpec, RunSpec, first_in_words
from metasched.schedulers import Scheduler
from metasched.schedulers.resolve import (
    AUTO,
    TARGET_ONLY,
    SchedulerSpec,
    build,
    family,
    needs_plan,
    plan_options,
    resolve,
)
from metasched.seeds import check_seed, counting
from metasched.tasks import TaskSet

OWN = "own"
"""Stands in a spec for an object that was made in Python."""


class Job(NamedTuple):
    """A run to be executed, and its folder (None: it is not stored).

    ``objective`` has the network, the resolved settings and the losses. ``scheduler`` is None if it needs a plan, which
    is computed from the initial model when the run starts.
    """

    description: Description
    tasks: TaskSet
    objective: Objective
    reward: Reward
    scheduler: Scheduler | None
    folder: Path | None = None

    @property
    def spec(self) -> RunSpec:
        """Everything that decides its numbers."""
        return self.description.spec

    @property
    def settings(self) -> LearnerSettings:
        """The resolved settings of its learner."""
        return self.objective.settings

    @property
    def reads_rewards(self) -> bool:
        """Whether its scheduler uses rewards. If not, none are computed."""
        planned_ahead = needs_plan(self.spec.scheduler) and self.spec.options.get("refresh") == 0
        return self.description.family == "active" and not planned_ahead

    @property
    def own_network(self) -> Network | None:
        """Its network, if that was made in Python."""
        return self.objective.network if "network" in self.spec.own else None


def make_jobs(
    tasks: TaskSet,
    scheduler: Scheduler | str = AUTO,
    *,
    options: Mapping[str, Any] | None = None,
    learner: LearnerSettings | str = "joint",
    network: Network | str = "auto",
    reward: Reward | str = rewards.DEFAULT,
    abstain: bool = False,
    seeds: int | Sequence[int] = 1,
    loss: Loss | None = None,
    target_loss: Loss | None = None,
    out: Path | None = None,
    together: int = 1,
    predictions: bool = False,
    **described: Any,
) -> list[Job]:
    """A job for each seed; the arguments are those of :func:`metasched.train`.

    ``together`` of them will run side by side, and must fit into memory. With ``predictions`` their outcomes have the
    final model's predictions for the test rows. ``described`` goes into the descriptions (method, role, study).
    """
    settings = settings_of(learner)
    numbers = _seeds(seeds)
    chosen, reason = _chosen(scheduler, options or {}, tasks, settings.name)
    if chosen.name == TARGET_ONLY:
        # The joint learner abstains from every batch, and so takes as many steps as with any other scheduler. Algorithm
        # 1 makes one step on the target per update whatever is drawn, and so needs no batches at all.
        if isinstance(settings, Joint):
            abstain = True
        else:
            settings = replace(settings, batches_per_update=0)
    kind = family(chosen.name) if isinstance(scheduler, str) else scheduler.family
    if isinstance(scheduler, str) and kind != "active":  # it uses no rewards, so it need not compute them
        settings = replace(settings, reward_folds=0, slope_every=1)
    losses = None
    if loss is not None or target_loss is not None:
        of_sources = loss or (cross_entropy if tasks.target_size is None else squared_error)
        losses = Losses(of_sources, target_loss or of_sources)
    parts = _validated(tasks, network, settings, losses, chosen, reward, abstain, together, scheduler)
    made_in_python = {
        "network": network,
        "scheduler": scheduler,
        "losses": "" if losses is None else losses,
        "optimiser": settings.optimiser,
        "reward": reward,
        "gradient": getattr(settings, "gradient", ""),
    }
    recipe: Mapping[str, Any] = tasks.recipe or {}
    spec: dict[str, Any] = {
        "data": DataSpec(fingerprint=tasks.fingerprint, set=recipe.get("set"), options=dict(recipe.get("options", {}))),
        "network": _word(network),
        "learner": settings.name,
        "settings": plain_settings(parts[0].settings),
        "scheduler": chosen.name,
        "options": dict(chosen.options),
        "reward": _word(reward),
        "abstain": abstain,
        "own": tuple(name for name, given in made_in_python.items() if not isinstance(given, str)),
        "versions": versions(),
    }
    common: dict[str, Any] = {
        "method": _word(scheduler),
        "family": kind,
        "about": About(
            name=tasks.name,
            simulated=tasks.simulated,
            tasks=tuple(task.name for task in tasks.tasks),
            useful=tasks.useful or (),
            classes=tuple(tasks.classes),
            source_rows=sum(tasks.sizes),
            target_rows=len(tasks.validation.labels),
            test_rows=len(tasks.test.labels),
            deviation=deviation_of(tasks),
        ),
        "origin": origin(" ".join(sys.argv)),
        "reason": reason,
        "predictions": predictions,
        **described,
    }
    folders = [None if out is None else out if len(numbers) == 1 else out / f"seed-{seed}" for seed in numbers]
    return [
        Job(Description(spec=RunSpec(seed=seed, **spec), **common), tasks, *parts, path)
        for seed, path in zip(numbers, folders, strict=True)
    ]


def stored_job(path: Path, description: Description, tasks: TaskSet) -> Job:
    """The run that a folder describes, on the rows that it names. The description may be damaged or come from
    elsewhere.
    """
    spec = description.spec
    try:
        check_seed(spec.seed)
        stored = {**EARLIER, **spec.settings}
        settings = replace(settings_of(spec.learner), **stored)
        if len(stored) != len(fields(settings)) or settings.resolve(tasks) != settings:
            raise ConfigError("its settings must be complete")
        if len(description.about.tasks) != len(tasks.tasks):
            raise ConfigError(f"it names {len(description.about.tasks)} tasks, but the data have {len(tasks.tasks)}")
        chosen = SchedulerSpec(spec.scheduler, spec.options)
        parts = _validated(tasks, spec.network, settings, None, chosen, spec.reward, spec.abstain)
    except (MetaschedError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RunError(
            f"{path / RUN}: does not describe a run ({error}); start the run again in another folder"
        ) from None
    return Job(description, tasks, *parts, path)


def claim_folders(jobs: Sequence[Job], out: Path | None) -> list[Job]:
    """The jobs with their folders. A folder that already exists must hold the same run, which continues."""
    if out is None:
        return list(jobs)
    stored = {each: folder.describe(each) for each in folder.runs_in(out)}
    asked = {job.folder: job.description for job in jobs}
    for each, description in stored.items():
        wanted = asked.get(each)
        if wanted is None:
            raise RunError(f"{out}: holds another run ({each}); choose another folder")
        differences = description.spec.differences(wanted.spec)
        found = {path: values for path, values in differences.items() if not path.startswith("versions")}
        if found:
            raise RunError(f"{each}: holds a run {first_in_words(found)}; choose another folder")
    if not stored:
        folder.refuse_content(out)
    for job in jobs:
        folder.refuse_linked(job.folder or out, out)
    folder.create({job.folder: job.description for job in jobs if job.folder and job.folder not in stored})
    return [job._replace(description=stored.get(job.folder, job.description)) for job in jobs]  # type: ignore[arg-type]


def _chosen(
    scheduler: Scheduler | str, options: Mapping[str, Any], tasks: TaskSet, learner: str
) -> tuple[SchedulerSpec, str | None]:
    """What a name for a scheduler stands for, and why if the choice was ours: it did best with the learner."""
    if not isinstance(scheduler, str):
        if not isinstance(scheduler, Scheduler):
            raise ConfigError(f"scheduler is {scheduler!r}; give a name or a Scheduler")
        if options:
            raise ConfigError(f"options {sorted(options)} need a scheduler given by name")
        return SchedulerSpec(OWN, {}), None
    best = reference_results.best(learner)
    names = [task.name for task in tasks.tasks]
    chosen = resolve(scheduler, options, names, useful=tasks.useful, auto=best)
    return chosen, reference_results.why(learner) if scheduler == AUTO else None


def _validated(
    tasks: TaskSet,
    network: Network | str,
    settings: LearnerSettings,
    losses: Losses | None,
    chosen: SchedulerSpec,
    reward: Reward | str,
    abstain: bool,
    together: int = 1,
    scheduler: Scheduler | str = "",
) -> tuple[Objective, Reward, Scheduler | None]:
    """Check a run, new or stored: learner, network, losses, memory, reward, scheduler and its options.

    Returns what all seeds have in common, in the order of the fields of :class:`Job`.
    """
    if not isinstance(abstain, bool):
        raise ConfigError(f"abstain is {abstain!r}; give True or False")
    told = rewards.find(reward)
    objective = checked_objective(tasks, network, settings, losses, abstain=abstain, replicas=together)
    if isinstance(scheduler, Scheduler):
        return objective, told, scheduler
    how: dict[str, Any] = {"batch_size": settings.rows_per_choice, "abstain": abstain}
    if not needs_plan(chosen.name):
        return objective, told, build(chosen, tasks.sizes, **how)
    # The plan itself needs the initial model of each seed. Its options are checked on a plan that computes no rewards.
    # A static schedule would ask for rewards when it is built, so another scheduler is built in its place.
    asked = plan_options(chosen.name, chosen.options)
    plan = make_plan(tasks, _no_rewards, batch_size=settings.rows_per_choice, cursor=settings.cursor, **asked)
    static = chosen.options.get("refresh") == 0 and not abstain
    tried = {**chosen.options, "refresh": 1} if static else chosen.options
    build(SchedulerSpec(chosen.name, tried), tasks.sizes, **how, plan=plan)
    return objective, told, None


def _no_rewards() -> Any:
    raise AssertionError("a check computes no rewards")


def _word(given: object) -> str:
    return given if isinstance(given, str) else OWN


def plain_settings(settings: LearnerSettings) -> dict[str, Any]:
    """Settings as a spec stores them: as JSON, with ``own`` in place of objects that were made in Python."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    plain = {name: value if isinstance(value, str | int | float | None) else OWN for name, value in values.items()}
    return {name: value for name, value in plain.items() if (name, value) not in EARLIER.items()}


def _seeds(given: int | Sequence[int]) -> list[int]:
    """A list of different seeds. A number stands for that many seeds, counted from 0."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return counting(int(given))
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise ConfigError(f"seeds is {given!r}; give a number of seeds, at least 1, or a list of seeds")
    seeds = [check_seed(seed) for seed in given]
    if not seeds or len(set(seeds)) != len(seeds):
        raise ConfigError(f"seeds are {seeds}; give one or more different whole numbers ≥ 0")
    return seeds
