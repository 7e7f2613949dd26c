"""``compare``: which method is best on these tasks, how sure that is, which model is best, and what each source is
worth.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from metasched.comparison.answer import answered
from metasched.comparison.asked import Asked, check_seeds, fitted_to
from metasched.comparison.bench import OnProgress
from metasched.comparison.budget import seconds_of
from metasched.comparison.methods import methods_of
from metasched.comparison.prepare import OnNote, prepared
from metasched.comparison.result import PAGE, Comparison
from metasched.comparison.splits import split
from metasched.datasets import SetLike, as_tasks
from metasched.errors import ConfigError
from metasched.learners import rewards
from metasched.learners.metrics import MetricName
from metasched.learners.networks import Network
from metasched.learners.renamed import clear_arguments
from metasched.learners.settings import LearnerSettings, settings_of
from metasched.notebook.progress import progress
from metasched.runs.executors import AUTO, Machines
from metasched.runs.sweep import Method, Setup

__all__ = ["PAGE", "Comparison", "compare"]


@clear_arguments
def compare(
    tasks: SetLike,
    methods: Sequence[str | Method] | None = None,
    *,
    learner: LearnerSettings | str = "joint",
    metric: MetricName | None = None,
    reward: str = rewards.DEFAULT,
    abstain: bool = False,
    seeds: int | Sequence[int] = 10,
    network: Network | str = "auto",
    tune: bool = True,
    references: bool = True,
    budget: str | float | None = None,
    out: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    on_note: OnNote | None = None,
    executor: str = AUTO,
    workers: int | None = None,
    address: str | None = None,
    schedulers: Sequence[str] | None = None,
) -> Comparison:
    """Fit methods on the same rows; say whether choosing helps, which model is best and what each source is worth.

    Args:
        tasks: the sources and the target, or the name or path of a data set that needs no options.
        methods: names of schedulers as in ``ms.train``, :class:`Method` objects, or both. ``"best-single"`` is the
            single source that does best on folds of the target's labelled rows. By default ``thompson`` (ours),
            ``uniform`` and ``target-only``. The verdict is about the method with the role ``"ours"``, otherwise about
            ``thompson``, otherwise about the first method. ``uniform`` and ``target-only``, with which it is compared,
            are always included.
        learner: :class:`Joint` or :class:`AlgorithmOne` with their settings, or a name, as in :func:`train`.
        metric: what models are judged by: ``"accuracy"``, ``"balanced-accuracy"``, ``"auc"``, ``"f1"``, ``"log-loss"``,
            or, if numbers are predicted, ``"r2"`` or ``"mae"``.
        reward: what schedulers are told after each batch, unless a :class:`Method` has its own reward.
        abstain: whether schedulers that are given by name may also draw no source.
        seeds: the number of seeds, or a list of them. Every seed draws its own labelled rows, if there are more rows
            than it needs.
        network: a :class:`Network`, or ``"auto"``, ``"mlp"``, ``"cnn"``.
        tune: whether every method is the mean of networks with several learning rates. Otherwise all networks have the
            rate of the settings.
        references: whether models of other kinds (linear, forest, boosting) are fitted beside the networks.
        budget: the longest time that it may take, such as ``"2m"`` or a number of seconds; runs then have fewer steps.
        out: folder for everything. A comparison that was interrupted there continues, and ends with the same numbers.
            With more seeds than before, only the new ones are run.
        on_progress: called with what is being done, the fits finished and all fits. By default a notebook shows a
            line that says so, and a script shows nothing.
        on_note: called with a line that says how much there is to do, and about how long it takes.
        executor: where runs are executed: ``"in-process"``, ``"local"`` (other processes on this machine) or ``"ray"``
            (a Ray cluster). ``"auto"`` is ``"local"`` if that is faster. The numbers are the same.
        workers: how many runs are executed at once; by default one per core or accelerator.
        address: the address of a Ray cluster, ``"host:6379"`` or ``"auto"``. Without it, ``"ray"`` starts a cluster on
            this machine.
        schedulers: the old name of ``methods``.

    Returns:
        The comparison.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=2, batches_per_update=2)
        >>> comparison = ms.compare(tasks, seeds=4, learner=learner)
        >>> comparison.decision.case in ("helps", "hurts", "as good", "no use for sources", "too few seeds")
        True
        >>> len(comparison.model.predict(tasks.test.inputs)) == len(tasks.test.labels)
        True
    """
    if schedulers is not None:
        warnings.warn("compare(schedulers=…) is now compare(methods=…)", DeprecationWarning, stacklevel=2)
        if methods is not None:
            raise ConfigError("schedulers is the old name of methods; give methods alone")
        methods = schedulers
    tasks = as_tasks(tasks)
    settings = settings_of(learner)
    if metric is not None:
        settings = replace(settings, metric=metric)
    numbers = check_seeds(seeds)
    found = methods_of(methods, reward, abstain)
    splits = split(tasks, numbers)
    machines = Machines(executor, workers, address)
    seconds = seconds_of(budget)
    setup = Setup(fitted_to(settings, splits.official), network)
    asked = Asked(tasks, setup, found, numbers, tune, references, seconds, settings.batch_size)
    with (
        _folder(out) as path,
        _shown(on_progress) as show,
        prepared(asked, splits, machines, path, show, on_note) as bench,
    ):
        return replace(answered(asked, bench), out=None if out is None else path)


@contextmanager
def _folder(out: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder of the comparison, or a temporary folder if nothing should be kept."""
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="metasched-") as folder:
        yield Path(folder) / "comparison"


@contextmanager
def _shown(on_progress: OnProgress | None) -> Iterator[OnProgress | None]:
    """The user's function for progress or, by default, a line in a notebook."""
    if on_progress is not None:
        yield on_progress
        return
    with progress("compare", "fits") as step:
        yield None if step is None else lambda what, done, total: step(done, total, what)
