"""What an experiment is: data, a network, and cells, each with its settings. Nothing is run here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from metasched import datasets
from metasched.experiments.methods import paper_methods
from metasched.learners.settings import Batching, LearnerSettings
from metasched.runs.sweep import Method
from metasched.tasks import TEST, VALIDATION, Split, TaskSet, few_labels

Regime = Literal["paper", "few-label", "robust", "sources"]
REGIMES: tuple[Regime, ...] = ("paper", "few-label", "robust", "sources")
LABELS = (10, 30, 100)
"""The numbers of target labels of the few-label cells."""
ROBUST_LABELS = 30


@dataclass(frozen=True)
class Cell:
    """One setting of an experiment, in which all methods are compared.

    Attributes:
        name: unique within the experiment, such as ``few-label-30``.
        regime: one of ``REGIMES``.
        variant: what distinguishes it within the regime, for people.
        config: the learner with its settings, the same for all methods but for the tuned rates.
        threshold: the test accuracy up to which samples are counted. It is fixed here, and so before any run.
        data: options of ``datasets.load``.
        noisy: tasks whose labels are shuffled, numbered from 1.
        irrelevant: the number of a task whose inputs have their values in a fixed random order.
        draw_labels: how many rows of the target have labels, drawn anew for every seed; None leaves that to the data
            set, and then they are the same for all seeds.
    """

    name: str
    regime: Regime
    variant: str
    config: LearnerSettings
    threshold: float
    data: Mapping[str, Any] = field(default_factory=dict)
    noisy: tuple[int, ...] = ()
    irrelevant: int | None = None
    draw_labels: int | None = None

    @property
    def learner(self) -> str:
        """``meta`` or ``joint``."""
        return self.config.name


@dataclass(frozen=True)
class Experiment:
    """A data set, a network and the cells in which methods are compared on it.

    Rates are tuned in the cell ``tuned_in``. In a regime of several learners, the name of the cell begins with the
    learner (``joint-30``).
    """

    name: str
    title: str
    dataset: str
    network: Literal["mlp", "cnn"]
    tuned_in: str
    cells: tuple[Cell, ...]
    methods: Callable[[TaskSet, Batching], tuple[Method, ...]] = paper_methods

    def cell(self, name: str) -> Cell:
        """A cell by name."""
        return next(cell for cell in self.cells if cell.name == name)

    def load(self, cell: Cell, extra: Mapping[str, Any] | None = None) -> TaskSet:
        """The task set of a cell. ``extra`` are options from the user, such as the path of a weather file."""
        tasks = datasets.load_stored(self.dataset, {**cell.data, **(extra or {})})
        if cell.noisy:
            tasks = tasks.variant(noise={tasks.tasks[number - 1].name: 1.0 for number in cell.noisy})
        if cell.irrelevant is not None:
            tasks = tasks.with_irrelevant(tasks.tasks[cell.irrelevant - 1].name)
        return tasks


def few_label_cells(config: LearnerSettings, threshold: Mapping[int, float], **data: Any) -> tuple[Cell, ...]:
    """Cells with 10, 30 and 100 target labels."""
    return tuple(
        Cell(f"few-label-{n}", "few-label", f"{n} labels", config, threshold[n], {"target_labels": n, **data})
        for n in LABELS
    )


def robust_cells(config: LearnerSettings, threshold: float, num_tasks: int, **data: Any) -> tuple[Cell, ...]:
    """Cells with shuffled labels in 40 % and 80 % of the tasks, and with one irrelevant task."""
    options = {"target_labels": ROBUST_LABELS, **data}
    some = (2, 3)
    most = tuple(range(1, num_tasks))
    return (
        Cell("robust-40", "robust", "40% noisy", config, threshold, options, noisy=some),
        Cell("robust-80", "robust", "80% noisy", config, threshold, options, noisy=most),
        Cell("robust-irrelevant", "robust", "irrelevant task", config, threshold, options, irrelevant=1),
    )


TUNING_SHARE = 0.2
"""This share of the target's rows is only for tuning: labels and test rows."""
FEW_ROWS = 1000
"""With fewer rows than this, the share is doubled."""


def target_drawn(tasks: TaskSet, labels: int, seed: int, tuning: bool) -> TaskSet:
    """The same sources, with ``labels`` of the target's rows drawn by ``seed`` and stratified, and the others for test.

    Rows for tuning, labelled or not, are never among the reported ones.
    """
    count = len(tasks.validation.labels) + len(tasks.test.labels)
    share = TUNING_SHARE if count >= FEW_ROWS else 2 * TUNING_SHARE
    order = np.random.default_rng(0).permutation(count)
    part = np.sort(order[: round(share * count)] if tuning else order[round(share * count) :])
    pool = Split(*(np.concatenate(both) for both in zip(tasks.validation, tasks.test, strict=True)))
    validation, test = few_labels(pool.labels[part], labels, seed)
    first, second = tasks.provenance[VALIDATION], tasks.provenance[TEST]
    origin, numbers = second, np.concatenate([first.rows, second.rows])
    if first.source != second.source:
        origin, numbers = replace(second, source=f"{first.source}, then {second.source}"), np.arange(count)
    note = f"{'tuning' if tuning else 'reported'} part, drawn by seed {seed}"
    provenance = {
        **tasks.provenance,
        VALIDATION: replace(origin, rows=numbers[part][validation], note=note),
        TEST: replace(origin, rows=numbers[part][test], note=note),
    }
    return replace(
        tasks,
        validation=pool.take(part[validation]),
        test=pool.take(part[test]),
        provenance=provenance,
        recipe=None,
    )
