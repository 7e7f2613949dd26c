"""``compare``: does choosing help on these tasks? Runs, and what they say."""

import io
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from metasched.datasets import SetLike, as_tasks
from metasched.errors import ConfigError
from metasched.learners import rewards
from metasched.learners.networks import Network
from metasched.learners.renamed import clear_arguments
from metasched.learners.settings import LEARNERS, LearnerSettings, settings_of
from metasched.references.baseline import Baseline, baseline
from metasched.report import compare as statistics
from metasched.report import diagnostics, overview, tables
from metasched.report.cells import CellRuns
from metasched.report.remarks import REMARKS, Remarks
from metasched.report.remarks import write as write_remarks
from metasched.report.results import Results, of_outcomes
from metasched.report.verdict import Verdict, decide_on
from metasched.runs.compare import OnProgress, methods_of, run_methods, runs_of, subject
from metasched.runs.executors import AUTO, Machines
from metasched.runs.outcome import Outcome
from metasched.runs.sweep import Method, Setup
from metasched.schedulers.resolve import BASELINE, SINGLE, TARGET_ONLY, USEFUL
from metasched.seeds import counting
from metasched.tasks import TaskSet
from metasched.tasks.checks import refuse_untested

PAGE = "page.html"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Finished runs of several methods on one task set: the verdict, a table, a page, and what is off.

    Attributes:
        tasks: the task set.
        outcomes: a line for every method and seed.
        baseline: the score of a linear model on the target's labelled rows alone.
        warnings: a line for each thing that is off.
        ours: the method that the verdict is on.
        results: the same runs by method, as reports read them.
        out: the folder of all runs, if they were kept.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=1)
        >>> comparison = ms.compare(tasks, ["thompson"], seeds=2, learner=learner)
        >>> "logistic regression alone" in comparison.table()
        True
        >>> sorted(comparison.summary()["methods"])
        ['target-only', 'thompson', 'uniform']
        >>> sorted(comparison.sources())
        ['north', 'south']
        >>> page = comparison.report("page.html")
    """

    tasks: TaskSet
    outcomes: Sequence[Outcome]
    baseline: Baseline
    warnings: Sequence[str]
    ours: str
    results: Results
    out: Path | None = None

    @property
    def cell(self) -> CellRuns:
        """The runs, which are all of one cell."""
        return self.results.cells[0]

    @cached_property
    def decision(self) -> Verdict:
        """The case that the verdict states, and the sentence."""
        return decide_on(self.cell, self.cell.methods[self.ours], self.cell.methods[BASELINE])

    def __repr__(self) -> str:
        return f"{self.verdict}\n\n{self.table()}"

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
        headings = [heading.replace("rows to ", "rows to\n") for heading in overview.method_headings(self.cell)]
        lines = [[str(value) for value in row] for row in overview.method_rows(self.cell)]
        console = Console(file=io.StringIO(), width=width, color_system=None)
        console.print(tables.terminal(headings, lines))
        shares = self.sources()
        drew = ", ".join(f"{name} {share:.0%}" for name, share in shares.items()) if any(shares.values()) else "nothing"
        console.print(f"{self.ours} drew {drew}", soft_wrap=True, highlight=False, markup=False)
        written = console.file.getvalue()  # type: ignore[attr-defined]
        return "\n".join(line.rstrip() for line in written.splitlines())

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, with figures and tables in a folder beside it; needs the extra ``report``.

        Args:
            path: of the page, ``.html``.

        Returns:
            The same path.
        """
        from metasched.report import page

        page.write(page.build(self.results), Path(path))
        return Path(path)

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
                    "difference": gap and gap._asdict(),
                    "samples": [run.samples[-1] for run in method.runs if run.samples],
                    "drawn": [run.drawn for run in method.runs if run.drawn],
                }
                for name, method in self.cell.methods.items()
                for gap in [statistics.difference(method, uniform)]
            },
            "tasks": list(self.cell.about.tasks),
            "baseline": self.baseline._asdict(),
            "warnings": list(self.warnings),
        }

    def sources(self) -> dict[str, float]:
        """The share of each source in the rows that ours drew, over all seeds, largest first.

        Returns:
            Shares by the names of the sources; all 0 if it drew nothing.
        """
        drawn = [run.drawn for run in self.cell.methods[self.ours].runs if run.drawn]
        total = np.sum(drawn, axis=0) if drawn else np.zeros(len(self.tasks.tasks))
        shares = total / max(total.sum(), 1)
        return {self.tasks.tasks[index].name: float(shares[index]) for index in np.argsort(-shares, kind="stable")}


@clear_arguments
def compare(
    tasks: SetLike,
    methods: Sequence[str | Method] | None = None,
    *,
    learner: LearnerSettings | str = "joint",
    reward: str = rewards.DEFAULT,
    abstain: bool = False,
    seeds: int | Sequence[int] = 10,
    network: Network | str = "auto",
    tune: bool = True,
    out: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    executor: str = AUTO,
    workers: int | None = None,
    address: str | None = None,
    schedulers: Sequence[str] | None = None,
) -> Comparison:
    """Run methods on the same rows and say whether choosing helps.

    Args:
        tasks: the sources and the target, or the name or path of a data set that needs no options.
        methods: words as ``ms.train`` takes them for schedulers, :class:`Method` objects, or both. ``"best-single"`` is
            the one source that does best on folds of the target's labelled rows. By default ``thompson`` (ours),
            ``uniform``, ``target-only`` and ``best-single``. The verdict is on the method with the role ``"ours"``,
            else on ``thompson``, else on the first one; ``uniform`` and ``target-only``, which it is held against, are
            always there.
        learner: :class:`Joint` or :class:`AlgorithmOne` with their settings, or the word for one, as in
            :func:`train`; the learning rates are where tuning starts (:mod:`metasched.runs.compare` has the rule).
        reward: what schedulers are told after each batch, unless a :class:`Method` has a reward of its own.
        abstain: whether the schedulers of methods given as words may also draw no source.
        seeds: how many, or which; every method has the same. They decide initial weights and every draw, not the rows.
        network: a :class:`Network`, or ``"auto"``, ``"mlp"``, ``"cnn"``.
        tune: whether the rates are tuned, alike for every method; else all have those of the settings.
        out: folder of all runs. A comparison that was interrupted there goes on, to the same numbers; with more seeds
            than before only these are run.
        on_progress: called with what is being done, the runs finished and all runs.
        executor: where runs are made: ``"in-process"``, ``"local"`` in others of this machine, ``"ray"`` on a
            Ray cluster; ``"auto"`` is ``"local"`` where that is faster. The numbers are the same.
        workers: how many runs are made at once; by default as many as there are cores, or accelerators.
        address: of a Ray cluster, ``"host:6379"`` or ``"auto"``; without it ``"ray"`` starts one on this machine.
        schedulers: the old name of ``methods``.

    Returns:
        The comparison.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=1)
        >>> methods = ["thompson", ms.Method("wide", "ucb", {"upper": 2.0}), ms.Method("narrow", "ucb", {"upper": 0.5})]
        >>> ms.compare(tasks, methods, seeds=2, learner=learner).verdict.startswith("Too few seeds")
        True
    """
    if schedulers is not None:
        warnings.warn("compare(schedulers=…) is now compare(methods=…)", DeprecationWarning, stacklevel=2)
        if methods is not None:
            raise ConfigError("schedulers is the old name of methods; give methods alone")
        methods = schedulers
    tasks = as_tasks(tasks)
    refuse_untested(tasks)
    settings = settings_of(learner)
    found = methods_of(methods, reward, abstain)
    numbers = tuple(counting(_at_least_two(seeds))) if isinstance(seeds, int) else tuple(seeds)
    smaller: list[str] = []
    if settings.batching == "per_source":
        smaller = diagnostics.small_source(tasks, settings.batch_size)
        settings = replace(settings, batch_size=min(settings.batch_size, *tasks.sizes))
    path = None if out is None else Path(out)
    outcomes = run_methods(
        *(Setup(settings, network), tasks, found, numbers),
        tuned=tune,
        out=path,
        on_progress=on_progress,
        machines=Machines(executor, workers, address),
    )
    count = len(numbers)
    runs = {method.name: outcomes[place * count :][:count] for place, method in enumerate(found)}
    ours = runs[subject(found).name]
    linear = baseline(tasks, settings.balanced_accuracy)
    lines = [*tasks.warnings, *diagnostics.of_tasks(tasks), *smaller]
    lines += diagnostics.of_runs(ours, linear, runs[TARGET_ONLY])
    # In tables best-single is called by the source that it has become. Nobody can use what draws the useful sources.
    rivals = {runs[each.name][0].method: each for each in found if each.scheduler not in (TARGET_ONLY, USEFUL)}
    results = of_outcomes(outcomes)
    lines += _better(results.cells[0], ours[0].method, rivals, path)
    remarks = Remarks(
        cell=results.cells[0].key,
        methods=tuple(dict.fromkeys(outcome.method for outcome in outcomes)),
        seeds=tuple(dict.fromkeys(outcome.spec.seed for outcome in outcomes)),
        measure="accuracy" if tasks.target_size is None else "score",
        linear=linear.name,
        score=linear.score,
        lines=tuple(lines),
    )
    if path is not None:
        write_remarks(path / REMARKS, remarks)
    return Comparison(tasks, outcomes, linear, lines, ours[0].method, results.remarked(remarks), path)


def _better(cell: CellRuns, ours: str, rivals: Mapping[str, Method], out: Path | None) -> list[str]:
    """The best of the other methods where it ends above ours, with what to type to use it."""
    gaps = {name: statistics.difference(cell.methods[name], cell.methods[ours]) for name in rivals if name != ours}
    known = {name: gap for name, gap in gaps.items() if gap is not None}
    best = max(known, key=lambda name: known[name].value, default=None)
    if best is None or not diagnostics.is_above_zero(known[best]):
        return []
    spec = cell.methods[best].runs[0].spec
    word = spec.scheduler
    if word.startswith(SINGLE):  # a run stores the number of the source; people know its name
        word = f"{SINGLE}{cell.methods[best].runs[0].about.tasks[int(word.removeprefix(SINGLE)) - 1]}"
    given = [f"scheduler={word!r}", *([f"options={spec.options}"] if spec.options else [])]
    if (batching := rivals[best].batching) is not None:
        kind = LEARNERS[spec.learner].__name__
        given.append(f"learner=ms.{kind}(batching={batching!r})")
    use = f"ms.train(tasks, {', '.join(given)})"
    if out is not None:
        use = f"metasched predict {shlex.quote(str(runs_of(out, rivals[best])))} FILE"
    return [f"{best} ends above {ours} (+{known[best].value:.3f}); if it stays so on other rows, use it: {use}"]


def _at_least_two(seeds: int) -> int:
    if isinstance(seeds, bool) or seeds < 2:
        raise ConfigError(f"seeds is {seeds}; a comparison needs at least 2, and 10 to tell")
    return seeds
