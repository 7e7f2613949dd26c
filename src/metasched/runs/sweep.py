"""Methods × seeds × rates: the runs behind ``compare``, ``demo`` and ``paper``.

Rates are tuned in the same way for every method. Each method is run with every candidate on the tuning rows, and the
candidate with the best mean final score wins; of equal ones, the first. No row with reported results takes part.
Finished runs are stored and never run again, so an interrupted sweep continues to the same numbers.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from metasched.files import append, make_folder, without_cut_line
from metasched.learners import rewards
from metasched.learners.networks import Network
from metasched.learners.settings import Batching, LearnerSettings
from metasched.runs import folder
from metasched.runs import outcome as outcomes
from metasched.runs.executors import Counts, Executor
from metasched.runs.jobs import Job, make_jobs
from metasched.runs.outcome import Outcome, Study
from metasched.schedulers import Scheduler
from metasched.schedulers.base import Family
from metasched.schedulers.resolve import SINGLE, family
from metasched.tasks import TaskSet

SINGLE_BEST = "best-single"
"""The scheduler that draws from a single source: the one that does best on the tuning rows."""
Rates = tuple[float, ...]
"""The learning rates of a learner, in the order of its ``rate_names``."""
GRIDS: dict[str, tuple[Rates, ...]] = {
    "meta": tuple((inner, outer) for inner in (0.01, 0.03, 0.1) for outer in (1e-3, 3e-3)),
    "joint": ((3e-4,), (1e-3,), (3e-3,)),
}
"""The candidates for each learner, the same for every method."""
Rows = Sequence[tuple[int, TaskSet]]
"""Seeds, each with its task set."""
OnFinished = Callable[[int, str], None]
"""Called with the number of finished runs, and a few words about the others."""


@dataclass(frozen=True)
class Method:
    """A method of a comparison: a scheduler with its options and reward, under a name that you choose.

    Attributes:
        name: the name in tables.
        scheduler: a name as in :func:`metasched.train`, or a :class:`Scheduler`. In a comparison also
            ``"best-single"``, the single source that does best on folds of the target's labelled rows.
        options: the options of a scheduler that is given by name.
        reward: the reward. None means the reward of the whole comparison.
        abstain: whether the scheduler may choose "no source this time".
        batching: ``"mixed"`` or ``"per_source"``. None means the batching of the whole comparison.
        role: a few words about the method. ``"ours"`` marks the method that the verdict is about.

    Examples:
        >>> wide = ms.Method("wide", "ucb", {"upper": 2.0})
        >>> wide.name, wide.scheduler, wide.options
        ('wide', 'ucb', {'upper': 2.0})
    """

    name: str
    scheduler: Scheduler | str
    options: Mapping[str, Any] = field(default_factory=dict)
    reward: str | None = None
    abstain: bool = False
    role: str = ""
    batching: Batching | None = None

    @property
    def family(self) -> Family:
        """Static, active or a control."""
        return family(self.scheduler) if isinstance(self.scheduler, str) else self.scheduler.family


class Setup(NamedTuple):
    """What all runs of a sweep share: the learner with its settings, and the network."""

    learner: LearnerSettings
    network: Network | str = "auto"

    def jobs(
        self,
        method: Method,
        rows: Rows,
        rates: Rates,
        study: Study | None = None,
        out: Path | None = None,
        predictions: bool = False,
    ) -> list[Job]:
        """Make a job for each seed. Jobs that cannot run are refused."""
        learner = self.learner.with_rates(rates)
        if method.batching is not None:
            learner = replace(learner, batching=method.batching)
        # Seeds that share a task set are made together, so that it is checked and fingerprinted once.
        sets = {id(tasks): tasks for _, tasks in rows}
        return [
            job
            for tasks in sets.values()
            for job in make_jobs(
                *(tasks, method.scheduler),
                options=method.options,
                learner=learner,
                network=self.network,
                reward=method.reward or rewards.DEFAULT,
                abstain=method.abstain,
                seeds=[seed for seed, own in rows if own is tasks],
                out=out,
                method=method.name,
                role=method.role,
                study=study,
                predictions=predictions,
            )
        ]


class Tuned(NamedTuple):
    """A method with its rates, and their mean final score on the tuning rows if there was tuning."""

    method: Method
    rates: Rates
    score: float | None = None


Finish = Callable[[list[Job]], list[Outcome]]
"""Runs jobs, and returns their outcomes in the same order."""


def tune(setup: Setup, methods: Sequence[Method], rows: Rows, grid: Sequence[Rates], finish: Finish) -> list[Tuned]:
    """Every method with the rates of ``grid`` that do best on ``rows``; of equal ones, the first."""
    jobs = [job for method in methods for rates in grid for job in setup.jobs(method, rows, rates)]
    scores = _mean_finals(finish(jobs), len(rows)).reshape(len(methods), len(grid))
    best = scores.argmax(axis=1)
    return [
        Tuned(method, grid[best], float(own[best])) for method, own, best in zip(methods, scores, best, strict=True)
    ]


def chosen_rates(results: Sequence[Tuned], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """The chosen rates of every tuned method by ``names``, and their score as ``accuracy``."""
    return {
        method.name: {**dict(zip(names, rates, strict=True)), "accuracy": round(score, 4)}
        for method, rates, score in results
        if score is not None
    }


def best_single(setup: Setup, method: Method, rows: Rows, finish: Finish) -> Method:
    """Replace ``best-single`` by the source that does best on ``rows`` with the rates of the settings."""
    tasks = rows[0][1].tasks
    words = [f"{SINGLE}{number}" for number in range(1, len(tasks) + 1)]
    singles = [replace(method, name=word, scheduler=word) for word in words]
    jobs = [job for single in singles for job in setup.jobs(single, rows, setup.learner.rates)]
    best = int(_mean_finals(finish(jobs), len(rows)).argmax())
    return replace(singles[best], name=f"best single: {tasks[best].name}")


def _mean_finals(finished: Sequence[Outcome], repeats: int) -> NDArray[np.float64]:
    """The mean final score of every ``repeats`` neighbouring runs.

    A run that diverged counts as −1, or as less than any other run, because scores of errors and losses may be far
    below −1.
    """
    worst = min((outcome.final.test_accuracy - 1 for outcome in finished if outcome.final), default=-1.0)
    finals = [min(-1.0, worst) if outcome.final is None else outcome.final.test_accuracy for outcome in finished]
    return np.asarray(np.reshape(finals, (-1, repeats)).mean(axis=1), np.float64)


class Finished:
    """Finished runs, by the names of their specs. Each is a line of a file, if there is one.

    A job with a folder is stored there instead. If an executor needs folders, all other jobs get temporary ones.
    """

    def __init__(self, executor: Executor, path: Path | None = None) -> None:
        self.executor = executor
        self.path = path
        if path is not None:
            make_folder(path.parent)
        self._outcomes: dict[str | Path, Outcome] = {one.run: one for one in _whole_lines(path)} if path else {}

    def run(self, jobs: Sequence[Job], on_finished: OnFinished | None = None) -> list[Outcome]:
        """Run the jobs and return their outcomes, in order. Finished runs are not run again, and each spec runs only
        once.
        """
        keys = [job.folder or job.spec.name for job in jobs]
        missing = {key: job for key, job in zip(keys, jobs, strict=True) if key not in self._outcomes}
        waiting = list(missing.items())
        if self.executor.needs_folders:
            waiting = _with_folders(waiting, self.path.with_suffix("") if self.path else self.executor.folder / "runs")
        finished, standing = len(jobs) - len(waiting), ""

        def report() -> None:
            if on_finished:
                on_finished(finished, standing)

        def on_outcome(number: int, outcome: Outcome) -> None:
            nonlocal finished
            finished += 1
            key, job = waiting[number]
            self._outcomes[key] = outcome
            if isinstance(key, str):
                # First the line, then the folder. A kill in between leaves both, and the line counts.
                if self.path is not None:
                    append(self.path, outcomes.encode(outcome), durable=True)
                if job.folder is not None:
                    shutil.rmtree(job.folder, ignore_errors=True)
            report()

        def on_counts(counts: Counts) -> None:
            nonlocal standing
            standing = str(counts)
            report()

        report()
        self.executor.run([job for _, job in waiting], on_outcome, on_counts)
        # Two methods may be the same run under two names.
        return [
            msgspec.structs.replace(self._outcomes[key], method=job.description.method, role=job.description.role)
            for key, job in zip(keys, jobs, strict=True)
        ]


def _with_folders(jobs: Sequence[tuple[str | Path, Job]], path: Path) -> list[tuple[str | Path, Job]]:
    """The jobs, with a folder named after the spec for those without one. A run that was started there continues."""
    placed = [(key, job if job.folder else job._replace(folder=path / key)) for key, job in jobs]
    new = {job.folder: job.description for key, job in placed if isinstance(key, str) and job.folder}
    folder.create({each: about for each, about in new.items() if not (each / folder.RUN).exists()})
    return placed


def _whole_lines(path: Path) -> list[Outcome]:
    """The outcomes of a file. A last line that was cut short is removed, so that others can be appended."""
    if not path.exists():
        return []
    without_cut_line(path, outcomes.content(path))
    return list(outcomes.read(path))
