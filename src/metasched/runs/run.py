"""A finished run: its records, its scores, its models, and how it is shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from metasched.errors import ConfigError
from metasched.learners.engine import Record
from metasched.learners.gradients import MetaParameters
from metasched.learners.metrics import Metric, metric_of
from metasched.learners.model import Model
from metasched.notebook import html
from metasched.optional import require
from metasched.runs.outcome import Outcome
from metasched.tasks import TaskSet


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run: all records, and the parameters and the model of each seed.

    Attributes:
        records: one for each update of each seed (``seed``, ``update``, ``samples``, ``test_accuracy``, …). The last
            record of a seed has ``final``, evaluated on all test rows.
        parameters: the trained parameters by seed; with Algorithm 1, the meta-parameters.
        tasks: the task set.
        out: the folder of the run, if it was kept.
        outcomes: one per seed.
        reason: why this scheduler was chosen, for ``"auto"``.
        models: for each seed a function that makes or reads the model. :meth:`model` calls it.

    Examples:
        >>> print(repr(run).splitlines()[0])
        Run of auto on arrays, learner joint, seed 0
        >>> len(run.records), list(run.final), run.diverged
        (2, [0], {})
        >>> run.to_frame()["update"].tolist()
        [1, 2]
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
        """A few lines: what the run was, how accurate it is, where it is, and warnings about its rows."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        method, accuracy = f"Run on {self.tasks.name}", "no seed finished"
        if self.outcomes:
            spec, count = self.outcomes[0].spec, len(self.outcomes)
            seeds = f"seed {spec.seed}" if count == 1 else f"{count} seeds"
            learner = (
                spec.learner if spec.settings.get("batching") == "mixed" else f"{spec.learner}, one source per batch"
            )
            method = f"Run of {self.outcomes[0].method} on {self.tasks.name}, learner {learner}, {seeds}"
        if self.final:
            metric = self.outcomes[0].metric if self.outcomes else metric_of(None)
            called = metric.title if self.outcomes and self.outcomes[0].spec.settings.get("metric") else "test accuracy"
            values = [metric.shown(final["test_accuracy"]) for final in self.final.values()]
            spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
            lost = f", {len(self.diverged)} diverged" if self.diverged else ""
            accuracy = f"{called} {np.mean(values):.3f}{spread} on {len(self.tasks.test.labels):,} rows{lost}"
        folder = f"in {self.out or 'memory only (give out= to keep it)'}"
        return [method, accuracy, folder, *(f"! {line}" for line in self.tasks.warnings)]

    def _repr_html_(self) -> str:
        """The same lines, the loss of each seed as a curve, and a table of the seeds."""
        first, *others = self._lines()
        seeds = dict.fromkeys(record["seed"] for record in self.records)
        losses = {
            seed: [record["loss"] for record in self.records if record["seed"] == seed and "loss" in record]
            for seed in seeds
        }
        judge = self.outcomes[0].metric if self.outcomes else metric_of(None)
        rows = [(f"seed {seed}", *self._standing(seed, judge), html.curves([losses[seed]])) for seed in seeds]
        table = html.table(["", "updates", "rows drawn", judge.title, "loss"], rows)
        return html.page(html.line(first, strong=True), *map(html.line, others), table)

    def _standing(self, seed: int, judge: Metric) -> tuple[str, str, str]:
        """The updates of a seed, the rows that it drew, and its score."""
        own = [record for record in self.records if record["seed"] == seed]
        drawn = sum(max((record["drawn"] for record in own if "drawn" in record), key=sum, default=[]))
        score = f"{judge.shown(self.final[seed]['test_accuracy']):.3f}" if seed in self.final else "diverged"
        return f"{len(own):,}", f"{drawn:,}", score

    def to_frame(self) -> Any:
        """Make a pandas DataFrame with a row for each update of each seed.

        Returns:
            The frame: ``seed``, ``update``, ``samples``, ``loss``, the accuracies where they were measured, and in
            ``drawn NAME`` the number of rows drawn from a source so far.
        """
        names = [task.name for task in self.tasks.tasks]
        rows = []
        for record in self.records:
            row = {key: value for key, value in record.items() if not isinstance(value, list | dict)}
            drawn = record.get("drawn", ())
            rows.append(row | {f"drawn {name}": count for name, count in zip(names, drawn, strict=False)})
        return require("pandas").DataFrame(rows)

    @property
    def final(self) -> dict[int, dict[str, Any]]:
        """The last evaluation of each seed, with the test accuracy of the final and the initial model."""
        return {record["seed"]: record["final"] for record in self.records if "final" in record}

    @property
    def diverged(self) -> dict[int, Record]:
        """The last record of each seed whose loss was no longer finite: its ``update`` and the reason, ``diverged``."""
        return {record["seed"]: record for record in self.records if "diverged" in record}

    def model(self, seed: int | None = None) -> Model:
        """The model that ``final`` of a seed was evaluated with.

        Args:
            seed: the seed. You can leave it out if there is only one.

        Returns:
            The model.
        """
        seeds = ", ".join(map(str, self.models))
        if seed is None:
            if len(self.models) != 1:
                which = f"model(seed={next(iter(self.models))})"
                raise ConfigError(f"there are models of seeds {seeds}; say which: {which}")
            (seed,) = self.models
        if seed in self.models:
            return self.models[seed]()
        if seed in self.diverged:
            raise ConfigError(f"seed {seed} diverged and has no model; seeds {seeds} have one")
        raise ConfigError(f"there is no seed {seed!r}; this run has {seeds}")
