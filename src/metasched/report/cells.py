"""The content of a report: the runs of each cell (an experiment in one regime and variant), by method."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from metasched.learners.metrics import Metric
from metasched.report.outputs import EXPERIMENTS
from metasched.report.remarks import Remarks
from metasched.report.statistics import Floats
from metasched.runs.outcome import About, Family, Origin, Outcome
from metasched.schedulers.resolve import TARGET_ONLY as TARGET_ONLY
from metasched.schedulers.resolve import USEFUL as USEFUL


@dataclass(frozen=True, eq=False)
class MethodRuns:
    """One method of a cell: its runs, which differ only by seed. A run that diverged counts as ``chance``.

    "Accuracy" stands for the score by the metric of the runs, whatever it is. Higher is always better.
    """

    name: str
    runs: tuple[Outcome, ...]
    chance: float

    @property
    def family(self) -> Family:
        """The family of its scheduler, or ceiling."""
        return self.runs[0].family

    @property
    def metric(self) -> Metric:
        """The metric of its scores."""
        return self.runs[0].metric

    @property
    def margin(self) -> float:
        """Scores that differ by less than this count as alike."""
        return self.metric.margin_of(self.runs[0].about.deviation)

    @property
    def subject(self) -> str:
        """The beginning of a sentence about it."""
        return "Choosing" if self.family == "active" else self.name.capitalize()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each run."""
        return tuple(run.spec.seed for run in self.runs)

    @cached_property
    def updates(self) -> tuple[int, ...]:
        """The numbers of the meta-updates after which the test accuracy was measured (P,)."""
        return max((run.updates for run in self.runs), key=len)

    def curves(self, name: Literal["samples", "test_accuracy"]) -> Floats:
        """The test accuracy after these updates, by run (S, P). NaN if a run was not measured."""
        values = np.full((len(self.runs), len(self.updates)), np.nan)
        for row, run in zip(values, self.runs, strict=True):
            row[: len(run.updates)] = getattr(run, name)
        return values

    def finals(self, measure: str = "test_accuracy") -> dict[int, float]:
        """The final accuracy by seed, in order: chance for a seed that diverged, nothing for one without a score."""
        measures = {run.spec.seed: getattr(run.final, measure) for run in self.runs if run.final}
        finals = {seed: float(value) for seed, value in measures.items() if value is not None}
        diverged = {run.spec.seed: self.chance for run in self.runs if run.diverged}
        return dict(sorted({**diverged, **finals}.items())) if finals or not measures else {}

    @cached_property
    def median_final(self) -> float:
        """Median final accuracy over seeds."""
        return float(np.median(list(self.finals().values())))

    @property
    def seconds(self) -> list[float]:
        """How long its runs take, if they were timed."""
        return [run.seconds for run in self.runs if run.seconds is not None]

    @cached_property
    def schedule(self) -> Floats | None:
        """Batches of each task, and abstained ones, in each update: the mean over the seeds that recorded them (K, N +
        1).

        If batches are mixed, these are rows.
        """
        schedules = [np.array(run.schedule, np.float64) for run in self.runs if run.schedule]
        longest = max(map(len, schedules), default=0)
        whole = [schedule for schedule in schedules if len(schedule) == longest]
        return np.asarray(np.mean(whole, axis=0), np.float64) if whole else None

    @property
    def drawn_by_label(self) -> Floats | None:
        """Source rows drawn by task and label, mean over the seeds that recorded them (N, C')."""
        tables = [run.final.drawn_by_label for run in self.runs if run.final and run.final.drawn_by_label]
        return np.mean(np.array(tables, np.float64), axis=0) if tables else None


@dataclass(frozen=True, eq=False)
class CellRuns:
    """One experiment in one regime and variant: all methods on the same data."""

    key: str
    experiment: str
    regime: str
    variant: str
    title: str
    threshold: float | None
    about: About
    origin: Origin
    versions: Mapping[str, str]
    methods: Mapping[str, MethodRuns]
    remarks: Remarks | None = None

    @property
    def metric(self) -> Metric:
        """The metric of all scores of the cell."""
        return next(iter(self.methods.values())).metric

    @property
    def exploratory(self) -> bool:
        """Whether it belongs to an experiment but was not planned."""
        study = next(iter(self.methods.values())).runs[0].study
        return study is not None and study.exploratory

    @property
    def simulated(self) -> bool:
        """Whether its data are simulated."""
        return self.about.simulated

    @property
    def own(self) -> bool:
        """Whether it consists of the user's own runs."""
        return self.regime not in EXPERIMENTS.regimes

    @property
    def label(self) -> str:
        """The experiment and variant, for a row of a table."""
        return f"{self.experiment}, {self.variant}" + (" (simulated)" if self.simulated else "")

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds of its methods."""
        return tuple(sorted({seed for method in self.methods.values() for seed in method.seeds}))


class Source(Protocol):
    """Where the numbers of a figure or table come from: a cell, or a file that a plugin reads."""

    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def experiment(self) -> str: ...  # noqa: D102
    @property
    def simulated(self) -> bool: ...  # noqa: D102
    @property
    def seeds(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def origin(self) -> Origin: ...  # noqa: D102
    @property
    def versions(self) -> Mapping[str, str]: ...  # noqa: D102
