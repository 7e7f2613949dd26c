"""``train``, ``resume`` and ``load_model``: one scheduler over seeds, which can be stopped and continued."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from metasched import datasets
from metasched.errors import MetaschedError, RunError, whole_number
from metasched.learners.engine import Record
from metasched.learners.losses import Loss
from metasched.learners.networks import Network
from metasched.learners.predictor import Predictor
from metasched.learners.renamed import clear_arguments
from metasched.learners.rewards import DEFAULT as DEFAULT_REWARD
from metasched.learners.rewards import Reward
from metasched.learners.settings import LearnerSettings
from metasched.notebook.progress import progress
from metasched.references.mean import mean_of
from metasched.references.stored import read_predictor
from metasched.runs import folder, runner
from metasched.runs import trackers as tracker_room
from metasched.runs.folder import model_folders
from metasched.runs.jobs import Job, claim_folders, make_jobs, stored_job
from metasched.runs.run import Run
from metasched.runs.runner import CHECKPOINT_SECONDS
from metasched.runs.trackers import Tracker
from metasched.schedulers import Scheduler
from metasched.schedulers.resolve import AUTO, BEST_SINGLE, SINGLE
from metasched.tasks import TaskSet
from metasched.tasks.checks import refuse_untested

__all__ = ["OnRecord", "Run", "load_model", "resume", "train"]

OnRecord = Callable[[Record], None]


@clear_arguments
def train(
    tasks: datasets.SetLike,
    scheduler: Scheduler | str = AUTO,
    *,
    options: Mapping[str, Any] | None = None,
    learner: LearnerSettings | str = "joint",
    network: Network | str = "auto",
    reward: Reward | str = DEFAULT_REWARD,
    abstain: bool = False,
    seeds: int | Sequence[int] = 1,
    loss: Loss | None = None,
    target_loss: Loss | None = None,
    out: str | os.PathLike[str] | None = None,
    on_record: OnRecord | None = None,
    trackers: Sequence[str | Tracker] = (),
    seeds_at_once: int | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Run:
    """Train a model on ``tasks`` and evaluate it on their test rows.

    Args:
        tasks: the task set, or the name or path of a data set that needs no options, such as ``"demo"``.
        scheduler: a name from ``ms.schedulers.names()``, a :class:`Scheduler` of your own, or ``"auto"``, the one that
            did best in our results. Three controls are for comparison: ``"target-only"`` draws no source rows,
            ``"single:<task>"`` draws from one task (by name or number from 1), and ``"oracle-best-single"`` is the
            single task that turned out best. With ``abstain``, your own scheduler needs one more arm than there are
            tasks.
        options: options of a scheduler that is given by name. For ``gittins`` and ``mdp`` also those of
            :func:`metasched.plan`. Give tasks (``task`` of ``single``, ``tasks`` of ``uniform``) by name, or by number
            from 1.
        learner: :class:`Joint` or :class:`AlgorithmOne` with their settings. ``"joint"`` and ``"meta"`` are the same
            with default settings.
        network: ``"auto"``, ``"mlp"``, ``"cnn"``, or a :class:`Network` of your own.
        reward: what the scheduler is told about a row or batch: a name from ``ms.rewards.names()``, or a function of an
            objective and a turn.
        abstain: whether the scheduler may also choose no source at all.
        seeds: the number of seeds, counted from 0, or a list of them. A seed determines the initial weights, the
            target's batches and the scheduler's random draws. If the loss of a seed is no longer finite, this seed ends
            with a record that says why (``diverged``).
        loss: the loss of one source row, ``loss(outputs, label) -> number``. By default cross-entropy, or half the
            squared error in regression.
        target_loss: the loss of one target row; by default the same.
        out: the folder of the run or, with several seeds, of all runs. An interrupted run in it continues. Without
            ``out`` nothing is written.
        on_record: called with every record. By default a notebook shows a line with the progress, and a script shows
            nothing.
        trackers: also send records to ``"tensorboard"``, ``"mlflow"``, ``"wandb"``, or a ``Tracker`` of your own.
        seeds_at_once: how many seeds run side by side. By default one on a CPU, where more would be slower, and on
            accelerators as many as fit.
        checkpoint_seconds: the least time between checkpoints.

    Returns:
        The finished run: records, final accuracies, models.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=2)
        >>> run = ms.train(tasks, "thompson", learner=learner, seeds=[0, 1])
        >>> [0 <= final["test_accuracy"] <= 1 for final in run.final.values()]
        [True, True]
    """
    tasks = datasets.as_tasks(tasks)
    refuse_untested(tasks)
    sinks = tracker_room.make(trackers, out)
    if seeds_at_once is not None:
        whole_number("seeds_at_once", seeds_at_once, 1)

    def work(scheduler: Scheduler | str, path: Path | None) -> Run:
        jobs = make_jobs(
            *(tasks, scheduler),
            options=options,
            learner=learner,
            network=network,
            reward=reward,
            abstain=abstain,
            seeds=seeds,
            loss=loss,
            target_loss=target_loss,
            out=path,
            together=seeds_at_once or 1,
        )
        how = {"together": seeds_at_once, "checkpoint_seconds": checkpoint_seconds}
        return _run(claim_folders(jobs, path), path, on_record, sinks, **how)

    path = None if out is None else Path(out)
    if scheduler != BEST_SINGLE:
        return work(scheduler, path)
    singles = [f"{SINGLE}{number}" for number in range(1, len(tasks.tasks) + 1)]
    runs = [work(single, path and path / single.replace(":", "-")) for single in singles]
    return max(runs, key=lambda run: float(np.mean([final["test_accuracy"] for final in run.final.values()])))


def resume(
    where: str | os.PathLike[str], on_record: OnRecord | None = None, trackers: Sequence[str | Tracker] = ()
) -> Run:
    """Continue the run in a folder, or all runs in its subfolders, each from its last checkpoint.

    The results are the same as without the interruption.

    Args:
        where: the folder.
        on_record: called with every record, including those before the interruption.
        trackers: where else to send records, as in :func:`train`.

    Returns:
        The finished run.

    Examples:
        >>> ms.datasets.save_npz(tasks, "winds.npz")
        >>> learner = ms.Joint(batch_size=10, updates=2)
        >>> whole = ms.train(ms.datasets.load("winds.npz"), learner=learner, out="runs/winds")
        >>> ms.resume("runs/winds").final == whole.final
        True
    """
    path = Path(where)
    folder.refuse_comparison(path)
    sinks = tracker_room.make(trackers, path)
    folders = list(folder.runs_in(path))
    folder.refuse_unbegun(folders)
    described = {each: folder.describe(each) for each in folders or [path]}
    loaded: dict[str, TaskSet] = {}
    for each, description in described.items():
        spec = description.spec
        if spec.own or spec.data.set is None:
            made = ", ".join(("data",) * (spec.data.set is None) + spec.own)
            again = f"metasched.train(..., out={str(path)!r})"
            raise RunError(f"{each}: has objects made in Python ({made}); call {again} again to continue")
        if spec.data.fingerprint not in loaded:
            tasks = _stored_rows(each, spec.data.set, spec.data.options)
            if tasks.fingerprint != spec.data.fingerprint:
                raise RunError(
                    f"{each}: the data '{spec.data.set}' are not those with which the run started; restore them"
                )
            loaded[spec.data.fingerprint] = tasks
    jobs = [stored_job(each, about, loaded[about.spec.data.fingerprint]) for each, about in described.items()]
    return _run(jobs, path, on_record, sinks)


def load_model(folder: str | os.PathLike[str], network: Network | None = None, *, seed: int | None = None) -> Predictor:
    """Load a model that :meth:`Predictor.save`, a run or a comparison has written. This runs no code from the folder.

    Args:
        folder: the folder of a saved model, a run, several seeds, or a comparison (for its final model).
        network: your own network, if the model was trained with one.
        seed: use only the model of this seed; by default the mean of all seeds is returned.

    Returns:
        The model; a :class:`Model` if it is a network.

    Examples:
        >>> run.model().save("winds")
        >>> again = ms.load_model("winds")
        >>> bool((again.predict(tasks.test.inputs) == run.model().predict(tasks.test.inputs)).all())
        True
    """
    members = [read_predictor(each, network) for each in model_folders(Path(folder), seed)]
    return members[0] if len(members) == 1 else mean_of(members)


def _stored_rows(path: Path, name: str, options: Mapping[str, Any]) -> TaskSet:
    """The rows that a description names. If it is damaged, its options may have any type."""
    try:
        return datasets.load_stored(name, options)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, MetaschedError):
            raise
        raise RunError(
            f"{path / folder.RUN}: '{name}' with {options} is not a data set ({error}); start again in another folder"
        ) from None


def _run(
    jobs: Sequence[Job], out: Path | None, on_record: OnRecord | None, sinks: Sequence[Tracker], **how: Any
) -> Run:
    """Run all jobs. Every record goes to the trackers, and to ``on_record`` or a line in a notebook."""
    updates = sum(job.settings.updates for job in jobs)
    with (
        tracker_room.tracking(sinks, out, [job.description for job in jobs]) as track,
        nullcontext() if on_record else progress("train", "updates") as show,
    ):
        done = 0

        def pass_on(_: int, record: Record) -> None:
            nonlocal done
            track(record)
            if on_record:
                on_record(record)
            elif show:
                done += 1
                show(done, updates, f"loss {record['loss']:.3g}" if "loss" in record else "diverged")

        results = runner.run(jobs, on_record=pass_on, **how)
    outcomes = [result.outcome for result in results]
    first = outcomes[0]
    if first.diverged and not any(outcome.final for outcome in outcomes):
        raise RunError(f"seed {first.spec.seed}, update {first.diverged.update}: {first.diverged.cause}")
    return Run(
        [record for result in results for record in result.records],
        {outcome.spec.seed: result.state.parameters for outcome, result in zip(outcomes, results, strict=True)},
        jobs[0].tasks,
        out,
        outcomes,
        jobs[0].description.reason,
        {outcome.spec.seed: result.model for outcome, result in zip(outcomes, results, strict=True) if result.model},
    )
