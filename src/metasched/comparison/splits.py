"""Which labelled rows of the target each fit of a comparison learns from, and which rows judge it.

The verdict must also hold for other labelled rows, so fits differ in their labelled rows:

- *redrawn*: the target has more labelled rows than are used. Every seed draws its own labelled rows, and the other rows
  judge.
- *cross-validation*: there are no rows to spare. The labelled rows are cut into folds several times, and every fold
  judges a fit on the other folds. All folds of one repeat are one *unit*, which judges every row once.
- *given*: you gave validation and test rows. They do not change, and seeds differ in everything else.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from metasched.errors import DataError
from metasched.learners.evaluation import judged_rows
from metasched.learners.folds import stratified_folds
from metasched.tasks import RowNumbers, TaskSet
from metasched.tasks.task import TEST, Provenance

Kind = Literal["redrawn", "cross-validation", "given"]
FOLDS = 5
FEWEST_ROWS = 2 * FOLDS
FEW_ROWS = 200
"""If you do not divide a target with at most this many rows, they all count as labelled rows and are cross-validated.
"""
FOLD_SEED = 1001
"""The seed of fits on folds, to which the number of the repeat is added. No fit that judges other rows has this seed.
"""


class Split(NamedTuple):
    """One fit: its unit and seed, its task set, and the numbers of the rows that judge it.

    ``rows`` (n,) belong to ``judged_rows(tasks)``. A row that judges several fits has the same number in all of them.
    """

    unit: int
    seed: int
    tasks: TaskSet
    rows: RowNumbers


class Splits(NamedTuple):
    """How methods are judged (``judging``), and the folds of the official labelled rows (``folds``).

    The validation rows of ``official`` are all rows that the final model may learn from. The folds decide how long to
    train and which model is best. If there are too few labelled rows, there are no folds.
    """

    kind: Kind
    official: TaskSet
    judging: tuple[Split, ...]
    folds: tuple[Split, ...]

    @property
    def scored(self) -> TaskSet:
        """The official set for final networks, which need test rows.

        If all rows are labelled rows, they also serve as test rows. Nobody reads the scores on them.
        """
        tasks = self.official
        if len(tasks.test.labels):
            return tasks
        seen = Provenance("the validation rows, because there are no others", np.arange(len(tasks.validation.labels)))
        return replace(tasks, test=tasks.validation, provenance={**tasks.provenance, TEST: seen}, recipe=None)

    @property
    def units(self) -> int:
        """How often every method is judged: the number of seeds, or of repeats of the cross-validation."""
        return len({split.unit for split in self.judging})

    @property
    def judges(self) -> int:
        """The number of different rows that judge. They are numbered from 0."""
        return 1 + max(int(split.rows.max()) for split in self.judging)


def split(tasks: TaskSet, seeds: Sequence[int]) -> Splits:
    """The splits of a task set for these seeds."""
    answers = np.concatenate([tasks.validation.labels, tasks.test.labels])
    if tasks.target_size is None and len(np.unique(answers)) == 1:
        raise DataError(
            f"{tasks.name}: all labelled rows of the target are '{tasks.classes[answers[0]]}', so there is nothing to "
            "learn; add rows with other labels"
        )
    kind = kind_of(tasks)
    official = tasks.all_labelled() if kind == "cross-validation" else tasks
    folds = repeat_of(official, 0) if len(official.validation.labels) >= FEWEST_ROWS else ()
    if kind == "cross-validation":
        if not folds:
            raise DataError(
                f"{tasks.name}: the target has {len(official.validation.labels)} labelled rows and no other rows "
                f"to judge models on; label at least {FEWEST_ROWS}"
            )
        repeats = range(1, repeats_for(len(seeds)))
        judging = (*folds, *(split for repeat in repeats for split in repeat_of(official, repeat)))
    elif kind == "redrawn":
        judging = tuple(_seeded(seed, tasks.redrawn(seed)) for seed in seeds)
    else:
        judging = tuple(Split(seed, seed, tasks, judged_rows(tasks)) for seed in seeds)
    return Splits(kind, official, _numbered(judging), folds)


def kind_of(tasks: TaskSet) -> Kind:
    """Which way of judging the target's rows allow."""
    rows = len(tasks.validation.labels) + len(tasks.test.labels)
    if not len(tasks.test.labels) or (tasks.split == "drawn" and rows <= FEW_ROWS):
        return "cross-validation"
    return "given" if tasks.split == "given" else "redrawn"


def units_for(kind: Kind, seeds: int) -> int:
    """How often every method is judged with this many seeds."""
    return repeats_for(seeds) if kind == "cross-validation" else seeds


def repeats_for(seeds: int) -> int:
    """The repeats of the cross-validation that replace this many seeds: about twice as many fits.

    >>> [repeats_for(seeds) for seeds in (2, 10, 20)]
    [2, 4, 8]
    """
    return max(2, -(-2 * seeds // FOLDS))


def seeds_for(repeats: int) -> int:
    """The number of seeds that stands for this many repeats.

    >>> [seeds_for(repeats) for repeats in (2, 4, 8)]
    [5, 10, 20]
    """
    return repeats * FOLDS // 2


def repeat_of(official: TaskSet, repeat: int) -> tuple[Split, ...]:
    """The folds of one repeat. They have equal sizes, so that one compiled program serves them all."""
    labels = official.validation.labels
    numbers = stratified_folds(labels, FOLDS, equal=True, seed=repeat)
    parts = [np.flatnonzero(numbers == fold) for fold in range(FOLDS)]
    sets = [official.held_out(part) for part in parts]
    return tuple(
        Split(repeat, FOLD_SEED + repeat, tasks, part[judged_rows(tasks)])
        for tasks, part in zip(sets, parts, strict=True)
    )


def _numbered(splits: Sequence[Split]) -> tuple[Split, ...]:
    """The same with rows numbered from 0 without gaps."""
    known = np.unique(np.concatenate([split.rows for split in splits]))
    return tuple(split._replace(rows=np.searchsorted(known, split.rows)) for split in splits)


def _seeded(seed: int, tasks: TaskSet) -> Split:
    return Split(seed, seed, tasks, tasks.provenance[TEST].rows[judged_rows(tasks)])
