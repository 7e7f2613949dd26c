"""Rates for every method alike: the same grid, the same seeds, and rows that no result is measured on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metasched.errors import DataError
from metasched.learners.folds import equal_splits
from metasched.runs.outcome import Outcome
from metasched.tasks import TEST, VALIDATION, TaskSet

Rates = tuple[float, ...]
"""The learning rates of a learner, in the order of its ``rate_names``."""
GRIDS: dict[str, tuple[Rates, ...]] = {
    "meta": tuple((inner, outer) for inner in (0.01, 0.03, 0.1) for outer in (1e-3, 3e-3)),
    "joint": ((3e-4,), (1e-3,), (3e-3,)),
}
"""Rates that are tried for every method alike, by learner."""
FOLDS = 4
SEED = 1001
"""Of the runs on folds; never reported."""
FEWEST_ROWS = 2 * FOLDS


def mean_finals(finished: Sequence[Outcome], repeats: int) -> list[float]:
    """Mean final score of every ``repeats`` neighbouring runs; one that diverged counts as −1, below any accuracy."""
    finals = [-1.0 if outcome.final is None else outcome.final.test_accuracy for outcome in finished]
    return [float(mean) for mean in np.reshape(finals, (-1, repeats)).mean(axis=1)]


def fold_sets(tasks: TaskSet) -> list[TaskSet]:
    """The same sources with each fold of the target's labelled rows as test rows once; the real test rows are gone.

    All folds have one shape, so that one compiled program serves them.
    """
    rows, origin = tasks.validation, tasks.provenance[VALIDATION]
    if len(rows.labels) < FEWEST_ROWS:
        raise DataError(
            f"{tasks.name}: the target has {len(rows.labels)} labelled rows; rates are tuned on {FOLDS} folds of them: "
            f"label at least {FEWEST_ROWS}"
        )
    return [
        replace(
            tasks,
            validation=rows.take(rest),
            test=rows.take(part),
            provenance={**tasks.provenance, VALIDATION: origin.take(rest), TEST: origin.take(part)},
            recipe=None,
        )
        for rest, part in equal_splits(rows.labels, FOLDS)
    ]
