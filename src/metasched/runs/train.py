"""``train`` and ``resume``: one scheduler over seeds, recorded so that it can be stopped and continued anywhere."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import optax

from metasched import datasets
from metasched.errors import ConfigError, MetaschedError, RunError
from metasched.learners.config import TrainConfig
from metasched.learners.engine import Record, find_learner
from metasched.learners.gradients import Estimator, MetaParameters
from metasched.learners.losses import Loss, Losses, cross_entropy, squared_error
from metasched.learners.model import Model
from metasched.learners.networks import Network
from metasched.learners.rewards import Reward
from metasched.runs import folder
from metasched.runs import runner as engine
from metasched.runs import trackers as tracker_room
from metasched.runs.described import stored_job
from metasched.runs.folder import Description
from metasched.runs.origin import origin, versions
from metasched.runs.outcome import About, Outcome
from metasched.runs.runner import CHECKPOINT_SECONDS, Job, Own, Result
from metasched.runs.scheduler_spec import Choice, choose
from metasched.runs.settled import settled
from metasched.runs.spec import DataSpec, RunSpec, first_in_words
from metasched.runs.trackers import Tracker
from metasched.schedulers import Scheduler
from metasched.schedulers.resolve import BEST_SINGLE, SINGLE, family
from metasched.seeds import check_seed, counting
from metasched.tasks import TaskSet

OnRecord = Callable[[Record], None]


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run: every record, and the meta-parameters and the model of each seed.

    Attributes:
        records: one for each meta-update of each seed (``seed``, ``update``, ``samples``, ``test_accuracy``, …); the
            last of a seed has ``final``, measured on all test rows.
        parameters: the meta-parameters by seed.
        tasks: the task set.
        out: the folder of the run, if it was kept.
        outcomes: one line for each seed.
        reason: why this scheduler, where the choice was left to us.
        models: what makes or reads the model of each seed; :meth:`model` calls it.

    Examples:
        >>> print(repr(run).splitlines()[0])
        Run of auto on arrays, learner joint, seed 0
        >>> len(run.records), list(run.final), run.diverged
        (2, [0], {})
        >>> run.model().classes
        ('calm', 'storm')
    """

    records: Sequence[Record]
    parameters: Mapping[int, MetaParameters]
    tasks: TaskSet
    out: Path | None = None
    outcomes: Sequence[Outcome] = ()
    reason: str | None = None
    models: Mapping[int, Callable[[], Model]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """What it was, how accurate it is, where it is, what is off with its rows: a line each."""
        place = f"in {self.out or 'memory alone (give out= to keep it)'}"
        return "\n".join([self._method(), self._accuracy(), place, *(f"! {line}" for line in self.tasks.warnings)])

    def _method(self) -> str:
        """The scheduler and the data, in words."""
        if not self.outcomes:
            return f"Run on {self.tasks.name}"
        spec, count = self.outcomes[0].spec, len(self.outcomes)
        return f"Run of {self.outcomes[0].method} on {self.tasks.name}, learner {spec.learner}, " + (
            f"seed {spec.seed}" if count == 1 else f"{count} seeds"
        )

    def _accuracy(self) -> str:
        """Final test accuracy, over seeds where there are several."""
        if not self.final:
            return "no seed ended well"
        values = [final["test_accuracy"] for final in self.final.values()]
        spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
        lost = f", {len(self.diverged)} diverged" if self.diverged else ""
        return f"test accuracy {np.mean(values):.3f}{spread} on {len(self.tasks.test.labels):,} rows{lost}"

    @property
    def final(self) -> dict[int, dict[str, Any]]:
        """Final test accuracy by seed: of the adapted model and of the initial one."""
        return {record["seed"]: record["final"] for record in self.records if "final" in record}

    @property
    def diverged(self) -> dict[int, Record]:
        """The last record of each seed whose loss was no longer finite: its ``update``, and why (``diverged``)."""
        return {record["seed"]: record for record in self.records if "diverged" in record}

    def model(self, seed: int | None = None) -> Model:
        """The model that ``final`` of a seed was measured with.

        Args:
            seed: whose; left out where there is one.

        Returns:
            The model.

        Raises:
            MetaschedError: for a seed that the run does not have, or that diverged.
        """
        told = ", ".join(map(str, self.models))
        if seed is None:
            if len(self.models) != 1:
                raise ConfigError(f"there are models of seeds {told}; say which: model(seed={next(iter(self.models))})")
            (seed,) = self.models
        if seed in self.models:
            return self.models[seed]()
        if seed in self.diverged:
            raise ConfigError(f"seed {seed} diverged and has no model; those of seeds {told} have one")
        raise ConfigError(f"there is no seed {seed!r}; this run has {told}")


def train(
    tasks: datasets.SetLike,
    network: Network | str = "auto",
    scheduler: Scheduler | str = "auto",
    config: TrainConfig | None = None,
    *,
    learner: str = "joint",
    seeds: int | Sequence[int] = 1,
    scheduler_options: Mapping[str, Any] | None = None,
    loss: Loss | None = None,
    target_loss: Loss | None = None,
    reward: Reward | str | None = None,
    gradient: Estimator | str | None = None,
    optimiser: optax.GradientTransformation | None = None,
    seeds_at_once: int | None = None,
    out: str | os.PathLike[str] | None = None,
    on_record: OnRecord | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    trackers: Sequence[str | Tracker] = (),
) -> Run:
    """Train on ``tasks`` and measure on their test rows.

    Args:
        tasks: the sources and the target, or the name or path of a data set that needs no options: ``"demo"``.
        network: a :class:`Network`, or ``"auto"``, ``"mlp"``, ``"cnn"``.
        scheduler: a :class:`Scheduler`, a name from ``ms.schedulers.names()``, ``"auto"``: the one that did best with
            the learner in our results, or a control: ``"target-only"``, no source rows; ``"single:<task>"``, one task
            by name or number from 1; ``"oracle-best-single"``, the single task that did best, known only in hindsight.
            With ``config.abstain`` a scheduler of your own chooses among one arm more than there are tasks.
        config: the settings; defaults when left out.
        learner: ``"joint"``: one model trained on source and target batches together, or ``"meta"``, Algorithm 1.
        seeds: how many, counting from 0, or a list of them. Each decides initial weights, validation batches and the
            scheduler's chance, and is a run of its own. One whose loss is no longer finite ends alone, with a record
            that says why (``diverged``).
        scheduler_options: options of a scheduler given by name; for ``gittins`` and ``mdp`` also those of
            :func:`metasched.plan`, which is then made from the initial model of each seed. Tasks (``task`` of
            ``single``, ``tasks`` of ``uniform``) are named, or numbered from 1.
        loss: of one source row, ``loss(outputs, label) -> number``; by default cross-entropy, or half the squared error
            where the tasks have ``targets``.
        target_loss: of one target row; by default the same as that of a source row.
        reward: in place of the one in ``config``: a name, or a function of an objective and a turn.
        gradient: in place of the one in ``config``: a name, or an estimator of your own.
        optimiser: an Optax transformation for the outer step, in place of the one in ``config``.
        seeds_at_once: seeds that run side by side in one program; by default one on a CPU, where side by side is
            slower, and on accelerators as many as fit, spread over all devices.
        out: folder of the run; with several seeds a folder of theirs. A run that was interrupted there continues;
            without it nothing is written.
        on_record: called after every meta-update.
        checkpoint_seconds: at least this long between checkpoints.
        trackers: where else records go: ``"tensorboard"``, ``"mlflow"``, ``"wandb"``, or a ``Tracker`` of your own.

    Returns:
        The finished run: records, final accuracies, models.

    Raises:
        MetaschedError: for tasks, names or settings that cannot run, a folder that holds something else, or if every
            seed diverged.

    Examples:
        >>> config = ms.TrainConfig(batch_size=10, meta_updates=2)
        >>> run = ms.train(tasks, scheduler="thompson", config=config, seeds=[0, 1])
        >>> [0 <= final["test_accuracy"] <= 1 for final in run.final.values()]
        [True, True]
    """
    tasks = datasets.as_tasks(tasks)
    sinks = tracker_room.make(trackers, out)
    if seeds_at_once is not None and (type(seeds_at_once) is not int or seeds_at_once < 1):
        raise ConfigError(f"seeds_at_once is {seeds_at_once!r}; give a whole number ≥ 1")
    settings = config or TrainConfig()
    if isinstance(reward, str):
        settings, reward = replace(settings, reward=reward), None
    if isinstance(gradient, str):
        settings, gradient = replace(settings, gradient=gradient), None
    own = Own(
        None if isinstance(network, str) else network,
        None if isinstance(scheduler, str) else scheduler,
        _losses(tasks, loss, target_loss),
        optimiser,
        reward,
        gradient,
    )
    where = None if out is None else Path(out)
    word = scheduler if isinstance(scheduler, str) else "own"
    name = network if isinstance(network, str) else "own"
    options = scheduler_options or {}

    def work(word: str, where: Path | None) -> Run:
        known: dict[str, Any] = {"learner": learner, "own": own, "out": where, "together": seeds_at_once or 1}
        jobs = begun(jobs_of(tasks, name, word, settings, seeds, options, **known), where)
        how = {"together": seeds_at_once, "checkpoint_seconds": checkpoint_seconds}
        return _execute(jobs, where, on_record, sinks, **how)

    if word != BEST_SINGLE:
        return work(word, where)
    singles = [f"{SINGLE}{number}" for number in range(1, len(tasks.tasks) + 1)]
    runs = [work(single, None if where is None else where / single.replace(":", "-")) for single in singles]
    return max(runs, key=lambda run: float(np.mean([final["test_accuracy"] for final in run.final.values()])))


def resume(
    where: str | os.PathLike[str], on_record: OnRecord | None = None, trackers: Sequence[str | Tracker] = ()
) -> Run:
    """Continue the run in a folder, or all runs below it, each from its last checkpoint.

    They end with the numbers they would have had anyway.

    Args:
        where: the folder.
        on_record: called after every meta-update.
        trackers: where else records go, as in :func:`train`.

    Returns:
        The finished run.

    Raises:
        MetaschedError: for a folder without a run, that of a comparison, other data than it began with, or things made
            in Python, which only :func:`train` with the same ``out`` can continue.

    Examples:
        >>> ms.datasets.save_npz(tasks, "winds.npz")
        >>> config = ms.TrainConfig(batch_size=10, meta_updates=2)
        >>> whole = ms.train(ms.datasets.load("winds.npz"), config=config, out="runs/winds")
        >>> ms.resume("runs/winds").final == whole.final
        True
    """
    place = Path(where)
    folder.refuse_comparison(place)
    sinks = tracker_room.make(trackers, place)
    folders = list(folder.runs_in(place))
    folder.refuse_unbegun(folders)
    descriptions = [folder.describe(each) for each in folders or [place]]
    loaded: dict[str, TaskSet] = {}
    for each, description in zip(folders, descriptions, strict=True):
        spec = description.spec
        if spec.own or spec.data.set is None:
            made = ", ".join(("data",) * (spec.data.set is None) + spec.own)
            raise RunError(
                f"{each}: has things made in Python ({made}); call metasched.train(..., out={str(place)!r}) again "
                "to go on"
            )
        if spec.data.fingerprint not in loaded:
            tasks = _stored_rows(each, spec.data.set, spec.data.options)
            if tasks.fingerprint != spec.data.fingerprint:
                raise RunError(f"{each}: the data '{spec.data.set}' are not those the run began with; restore them")
            loaded[spec.data.fingerprint] = tasks
    jobs = [
        stored_job(each, description, loaded[description.spec.data.fingerprint])
        for each, description in zip(folders, descriptions, strict=True)
    ]
    return _execute(jobs, place, on_record, sinks)


def _stored_rows(where: Path, name: str, options: Mapping[str, Any]) -> TaskSet:
    try:
        return datasets.load(name, **options)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, MetaschedError):
            raise
        raise RunError(
            f"{where / folder.RUN}: '{name}' with {options} is no data set ({error}); start again in another folder"
        ) from None


def jobs_of(
    tasks: TaskSet,
    network: str,
    scheduler: str,
    config: TrainConfig,
    seeds: int | Sequence[int],
    options: Mapping[str, Any],
    *,
    learner: str = "joint",
    own: Own = Own(),  # noqa: B008
    out: Path | None = None,
    together: int = 1,
    **told: Any,
) -> list[Job]:
    """A job for each seed, everything checked; ``told`` goes into the descriptions (method, role, study).

    ``together`` of them are to run side by side, and must fit.
    """
    find_learner(learner)
    seeds = _seeds(seeds)
    if own.scheduler is not None:
        if options:
            raise ConfigError(f"scheduler_options {sorted(options)} need a scheduler given by name")
        choice = Choice("own", {}, config.resolve(tasks))
    else:
        choice = choose(scheduler, options, tasks, config, learner)
    if own.scheduler is None and family(choice.name) != "active":  # it reads no rewards, so it need not pay for them
        choice = choice._replace(config=replace(choice.config, reward_folds=0, slope_every=1))
    if learner == "joint" and (own.gradient is not None or choice.config.gradient != "auto"):
        raise ConfigError("gradient is for Algorithm 1; leave it out with the joint learner, or take learner meta")
    common: dict[str, Any] = {
        "method": scheduler,
        "family": own.scheduler.family if own.scheduler is not None else family(choice.name),
        "about": about(tasks),
        "origin": origin(" ".join(sys.argv)),
        "reason": choice.reason,
        **told,
    }
    spec: dict[str, Any] = {
        "data": _data(tasks),
        "learner": learner,
        "network": network,
        "scheduler": choice.name,
        "options": choice.options,
        "config": asdict(settled(tasks, learner, network, choice.config, own, together)),
        "own": tuple(name for name, given in own._asdict().items() if given is not None),
        "versions": versions(),
    }
    where = [None if out is None else out if len(seeds) == 1 else out / f"seed-{seed}" for seed in seeds]
    return [
        Job(Description(spec=RunSpec(seed=seed, **spec), **common), tasks, own, place)
        for seed, place in zip(seeds, where, strict=True)
    ]


def _data(tasks: TaskSet) -> DataSpec:
    recipe: Mapping[str, Any] = tasks.recipe or {}
    return DataSpec(fingerprint=tasks.fingerprint, set=recipe.get("set"), options=dict(recipe.get("options", {})))


def about(tasks: TaskSet) -> About:
    """A task set in words and numbers."""
    return About(
        name=tasks.name,
        simulated=tasks.simulated,
        tasks=tuple(task.name for task in tasks.tasks),
        useful=tasks.useful or (),
        classes=tuple(tasks.classes),
        source_rows=sum(tasks.sizes),
        target_rows=len(tasks.validation.labels),
        test_rows=len(tasks.test.labels),
    )


def begun(jobs: Sequence[Job], out: Path | None) -> list[Job]:
    """The jobs with their folders made; folders that are there already must hold the same runs, and go on."""
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


def _execute(
    jobs: Sequence[Job], where: Path | None, on_record: OnRecord | None, sinks: Sequence[Tracker], **how: Any
) -> Run:
    """Run all jobs; every record goes to the trackers and to ``on_record``."""
    with tracker_room.tracking(sinks, where, [job.description for job in jobs]) as track:

        def pass_on(_: int, record: Record) -> None:
            track(record)
            if on_record:
                on_record(record)

        results = engine.run(jobs, on_record=pass_on, **how)
    return _gathered(results, jobs, where)


def _seeds(given: int | Sequence[int]) -> list[int]:
    """Different seeds; a number stands for so many, counting from 0."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return counting(int(given))
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise ConfigError(f"seeds is {given!r}; give how many, at least 1, or a list of them")
    seeds = [check_seed(seed) for seed in given]
    if not seeds or len(set(seeds)) != len(seeds):
        raise ConfigError(f"seeds are {seeds}; give one or more different whole numbers ≥ 0")
    return seeds


def _losses(tasks: TaskSet, loss: Loss | None, target_loss: Loss | None) -> Losses | None:
    """The losses asked for; None when both are left to us."""
    if loss is None and target_loss is None:
        return None
    own = loss or (cross_entropy if tasks.target_size is None else squared_error)
    return Losses(own, target_loss or own)


def _gathered(results: Sequence[Result], jobs: Sequence[Job], where: Path | None) -> Run:
    outcomes = [result.outcome for result in results]
    first = next((outcome for outcome in outcomes if outcome.diverged), None)
    if first is not None and first.diverged is not None and not any(outcome.final for outcome in outcomes):
        raise RunError(f"seed {first.spec.seed}, meta-update {first.diverged.update}: {first.diverged.cause}")
    return Run(
        [record for result in results for record in result.records],
        {outcome.spec.seed: result.state.parameters for outcome, result in zip(outcomes, results, strict=True)},
        jobs[0].tasks,
        where,
        outcomes,
        jobs[0].description.reason,
        {outcome.spec.seed: result.model for outcome, result in zip(outcomes, results, strict=True) if result.model},
    )
