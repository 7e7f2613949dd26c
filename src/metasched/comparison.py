"""``compare``: does choosing help on these tasks? Runs, and what they say."""

import io
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from metasched.datasets import SetLike, as_tasks
from metasched.errors import ConfigError
from metasched.learners.baseline import Baseline, baseline
from metasched.learners.networks import Network
from metasched.learners.renamed import clear_arguments
from metasched.learners.settings import LearnerSettings, settings_of
from metasched.report import compare as statistics
from metasched.report import methods, remarks, tables
from metasched.report.cells import CellRuns
from metasched.report.remarks import Remarks
from metasched.report.results import of_outcomes
from metasched.report.verdict import Verdict, decide
from metasched.runs import diagnostics
from metasched.runs.compare import DEFAULT, SINGLE_BEST, Grid, OnProgress, named_first, run_methods, runs_of
from metasched.runs.executors import AUTO, Machines
from metasched.runs.outcome import Outcome, by_cell
from metasched.schedulers.resolve import BASELINE, BEST_SINGLE, TARGET_ONLY, check_word
from metasched.seeds import counting
from metasched.tasks import TaskSet

PAGE = "page.html"


@dataclass(frozen=True)
class Comparison:
    """Finished runs of several methods on one task set: the verdict, a table, a page, and what is off.

    Attributes:
        tasks: the task set.
        outcomes: a line for every method and seed.
        baseline: the score of a linear model on the target's labelled rows alone.
        warnings: a line for each thing that is off.
        ours: the method that the verdict is on.
        out: the folder of all runs, if they were kept.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=1)
        >>> comparison = ms.compare(tasks, ["thompson"], seeds=2, learner=learner)
        >>> "logistic regression alone" in comparison.table()
        True
        >>> sorted(comparison.summary()["methods"])
        ['target-only', 'thompson', 'uniform']
        >>> page = comparison.report("page.html")
    """

    tasks: TaskSet
    outcomes: Sequence[Outcome]
    baseline: Baseline
    warnings: Sequence[str]
    ours: str
    out: Path | None = None

    @cached_property
    def cell(self) -> CellRuns:
        """The runs by method, as reports read them."""
        return of_outcomes(self.outcomes, self._remarks).cells[0]

    @cached_property
    def _remarks(self) -> Remarks:
        """What a report says of these runs that they do not say themselves."""
        (cell,) = by_cell(self.outcomes)
        return Remarks(
            cell=cell,
            methods=tuple(dict.fromkeys(outcome.method for outcome in self.outcomes)),
            seeds=tuple(dict.fromkeys(outcome.spec.seed for outcome in self.outcomes)),
            measure="accuracy" if self.tasks.target_size is None else "score",
            linear=self.baseline.name,
            score=self.baseline.score,
            lines=tuple(self.warnings),
        )

    @cached_property
    def decision(self) -> Verdict:
        """The case that the verdict states, and the sentence."""
        ours, uniform, alone = (self.cell.methods[name] for name in (self.ours, BASELINE, TARGET_ONLY))
        finals = [list(method.finals().values()) for method in (ours, uniform, alone)]
        return decide(*finals, fewer=statistics.gain_to_final(uniform, ours), subject=ours.subject)

    @property
    def verdict(self) -> str:
        """One sentence."""
        return self.decision.sentence

    def table(self, width: int = 100) -> str:
        """A line for each method, the linear model among them, best first; and where the batches of ours came from.

        Args:
            width: of the table, in characters.

        Returns:
            Several lines of text.
        """
        headings = [heading.replace("rows to ", "rows to\n") for heading in methods.headings(self.cell)]
        lines = [[row.name, str(row.score), str(row.difference), str(row.rows)] for row in methods.rows(self.cell)]
        console = Console(file=io.StringIO(), width=width, color_system=None)
        console.print(tables.terminal(headings, lines))
        console.print(self._sources(), soft_wrap=True, highlight=False, markup=False)
        written = console.file.getvalue()  # type: ignore[attr-defined]
        return "\n".join(line.rstrip() for line in written.splitlines())

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, with figures and tables in a folder beside it; needs the extra ``report``.

        Args:
            path: of the page, ``.html``.

        Returns:
            The same path.

        Raises:
            MetaschedError: if the extra is missing or the page cannot be written.
        """
        from metasched.report import page

        place = Path(path)
        page.write(page.build(of_outcomes(self.outcomes, self._remarks)), place)
        return place

    def summary(self) -> dict[str, Any]:
        """Everything that the command prints.

        Returns:
            What JSON can hold: ``verdict``, ``case``, ``methods``, ``tasks``, ``baseline``, ``warnings``.
        """
        uniform = self.cell.methods[BASELINE]
        return {
            "verdict": self.verdict,
            "case": self.decision.case,
            "methods": {
                name: {
                    "test_accuracy": method.finals(),
                    "difference": _plain(statistics.difference(method, uniform)),
                    "samples": [run.samples[-1] for run in method.runs if run.samples],
                    "drawn": [run.drawn for run in method.runs if run.drawn],
                }
                for name, method in self.cell.methods.items()
            },
            "tasks": list(self.cell.about.tasks),
            "baseline": self.baseline._asdict(),
            "warnings": list(self.warnings),
        }

    def _sources(self) -> str:
        """The share of each source in the draws of ours."""
        drawn = [run.drawn for run in self.cell.methods[self.ours].runs if run.drawn]
        total = np.sum(drawn, axis=0) if drawn else np.zeros(1)
        if not total.sum():
            return f"{self.ours} drew nothing"
        order = np.argsort(-total, kind="stable")
        names = self.cell.about.tasks
        return f"{self.ours} drew " + ", ".join(f"{names[place]} {total[place] / total.sum():.0%}" for place in order)


@clear_arguments
def compare(
    tasks: SetLike,
    schedulers: Sequence[str] | None = None,
    *,
    learner: LearnerSettings | str = "joint",
    reward: str = "transfer",
    abstain: bool = False,
    seeds: int | Sequence[int] = 10,
    network: Network | str = "auto",
    out: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    executor: str = AUTO,
    workers: int | None = None,
    address: str | None = None,
) -> Comparison:
    """Run methods on the same rows and say whether choosing helps.

    Args:
        tasks: the sources and the target, or the name or path of a data set that needs no options.
        schedulers: words as ``ms.train`` takes them, and ``"best-single"``: the one source that did best on folds of
            the target's labelled rows. By default ``thompson`` (ours), ``uniform``, ``target-only`` and
            ``best-single``. The verdict is on ``thompson``, or else on the first one named; ``uniform`` and
            ``target-only``, which it is held against, are always there.
        learner: :class:`Joint` or :class:`AlgorithmOne` with their settings, or the word for one, as in
            :func:`train`; the learning rates are where tuning starts (:mod:`metasched.runs.compare` has the rule).
        reward: what the schedulers are told after each batch.
        abstain: whether every scheduler may also draw no source.
        seeds: how many, or which; every method has the same. They decide initial weights and every draw, not the rows.
        network: a :class:`Network`, or ``"auto"``, ``"mlp"``, ``"cnn"``.
        out: folder of all runs. A comparison that was interrupted there goes on, to the same numbers; with more seeds
            than before only these are run.
        on_progress: called with what is being done, the runs finished and all runs.
        executor: where runs are made: ``"in-process"``, ``"local"`` in others of this machine, ``"ray"`` on a
            Ray cluster; ``"auto"`` is ``"local"`` where that is faster. The numbers are the same.
        workers: how many runs are made at once; by default as many as there are cores, or accelerators.
        address: of a Ray cluster, ``"host:6379"`` or ``"auto"``; without it ``"ray"`` starts one on this machine.

    Returns:
        The comparison.

    Raises:
        MetaschedError: for tasks, words or settings that cannot run, or a folder that holds something else.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=1)
        >>> ms.compare(tasks, ["thompson"], seeds=2, learner=learner).verdict.startswith("Too few seeds")
        True
    """
    tasks = as_tasks(tasks)
    named = DEFAULT if schedulers is None else tuple(schedulers)
    words = (*named, *(word for word in (BASELINE, TARGET_ONLY) if word not in named))
    for word in words:
        check_word(word, besides=(SINGLE_BEST, BEST_SINGLE))
    numbers = tuple(counting(_at_least_two(seeds))) if isinstance(seeds, int) else tuple(seeds)
    settings = settings_of(learner)
    smaller = diagnostics.small_source(tasks, settings.batch_size)
    settings = replace(settings, batch_size=min(settings.batch_size, *tasks.sizes))
    where = None if out is None else Path(out)
    grid, machines = Grid(tasks, network, settings, numbers, reward, abstain), Machines(executor, workers, address)
    outcomes = run_methods(grid, words, where, on_progress, machines)
    linear = baseline(tasks, settings.balanced_accuracy)
    by_method: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_method.setdefault(outcome.method, []).append(outcome)
    names = dict(zip(words, by_method, strict=True))
    ours = names[named_first(words)]
    lines = [*tasks.warnings, *diagnostics.of_tasks(tasks), *smaller]
    lines += diagnostics.of_runs(by_method[ours], linear, by_method[TARGET_ONLY])
    rivals = {_used(word, by_method[name][0], where): by_method[name] for word, name in names.items()}
    lines += diagnostics.above(
        by_method[ours], {use: runs for use, runs in rivals.items() if runs[0].method not in (ours, TARGET_ONLY)}
    )
    comparison = Comparison(tasks, outcomes, linear, lines, ours, where)
    if where is not None:
        remarks.write(where / remarks.REMARKS, comparison._remarks)
    return comparison


def _used(word: str, run: Outcome, out: Path | None) -> str:
    """What to type to use the method that was asked for by a word."""
    if out is not None:
        return f"metasched predict {shlex.quote(str(runs_of(out, word)))} FILE"
    return f"ms.train(tasks, scheduler={run.spec.scheduler if word == SINGLE_BEST else word!r})"


def _at_least_two(seeds: int) -> int:
    if isinstance(seeds, bool) or seeds < 2:
        raise ConfigError(f"seeds is {seeds}; a comparison needs at least 2, and 10 to tell")
    return seeds


def _plain(interval: Any) -> Mapping[str, float] | None:
    return None if interval is None else interval._asdict()
