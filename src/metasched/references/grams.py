"""Sums over the rows of each source, from which ridge fits on any sources follow for any rows of the target.

Let x be the rows, with a 1 for the bias, and y the answers. A fit on sources S and the target's rows, which have weight
10, is w = (Σ_S G + 10·G_target + λ)⁻¹ (Σ_S c + 10·c_target), where G = Σ x xᵀ and c = Σ x yᵀ. Errors on a held-out fold
of the target's rows need no second fit. They are (I − 10·X A⁻¹ Xᵀ)⁻¹ (Y − X w), with X and Y the rows of the fold and A
the matrix that w was solved with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from metasched.learners.folds import stratified_folds
from metasched.references.linear import Scale, leading, scaler
from metasched.references.rows import answers_of, flat
from metasched.references.threads import one_thread
from metasched.tasks import Split, TaskSet

Floats: TypeAlias = NDArray[np.float64]

TARGET_WEIGHT = 10.0
"""One labelled row of the target counts as much as this many rows of a source."""
SHARES = (0.001, 0.01, 0.1, 1.0)
"""Penalties λ, as a share of the weight of all rows."""
FEATURES = 500
"""With more features, rows are projected onto the ``COMPONENTS`` directions in which they vary most."""
COMPONENTS = 300
FOLDS = 5
JUDGED = 500
"""The most rows of the target on which errors are computed."""


class Known(NamedTuple):
    """The target's labelled rows: their sums, and which rows (j, p) with answers (j, k) are held out in which fold."""

    gram: Floats
    cross: Floats
    weight: float
    rows: Floats
    answers: Floats
    folds: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Grams:
    """The sums of every source of a task set. They serve every draw of its target's rows (``TaskSet.redrawn``).

    Attributes:
        names: the names of the sources, in order.
        scale: how inputs become rows: standardised over the rows of all sources.
        classes: the number of classes.
        grams: (sources, p, p).
        crosses: (sources, p, k).
        counts: (sources,) rows.
    """

    names: tuple[str, ...]
    scale: Scale
    classes: int
    grams: Floats
    crosses: Floats
    counts: Floats

    @classmethod
    def of(cls, tasks: TaskSet) -> "Grams":
        """The sums of the sources of a task set with shared labels."""
        classes = len(tasks.classes)
        with one_thread():
            pooled = np.concatenate([flat(task.inputs) for task in tasks.tasks])
            scale = scaler(pooled)._replace(turn=None)
            if pooled.shape[1] > FEATURES:
                scale = leading(scale, pooled, COMPONENTS)
            sums = [_sums(scale(task.inputs), answers_of(task, classes)) for task in tasks.tasks]
        names = tuple(task.name for task in tasks.tasks)
        grams, crosses = (np.stack(parts) for parts in zip(*sums, strict=True))
        return cls(names, scale, classes, grams, crosses, np.asarray(tasks.sizes, np.float64))

    def rows(self, inputs: NDArray[np.float32]) -> Floats:
        """Inputs (n, *shape) as rows (n, p). The last column has ones."""
        return self.scale(inputs)

    def known(self, labelled: Split) -> Known:
        """The sums of labelled target rows, with the rows that are held out in each fold."""
        rows, answers = self.rows(labelled.inputs), answers_of(labelled, self.classes)
        judged = np.sort(np.random.default_rng(0).permutation(len(rows))[:JUDGED])
        folds = stratified_folds(labelled.labels[judged], min(FOLDS, len(judged)))
        gram, cross = _sums(rows, answers)
        return Known(
            TARGET_WEIGHT * gram,
            TARGET_WEIGHT * cross,
            TARGET_WEIGHT * len(rows),
            rows[judged],
            answers[judged],
            folds,
        )

    def fit(self, known: Known, sources: Sequence[int], share: int) -> Floats:
        """Coefficients (p, k) of a fit on some sources and the target's rows, with the penalty ``SHARES[share]``."""
        matrix, cross, penalties = self._system(known, sources)
        return np.asarray(np.linalg.solve(matrix + np.diag(penalties[share]), cross))

    def held_out_errors(self, known: Known, sources: Sequence[int]) -> Floats:
        """The mean squared error of target rows that a fit has not seen, for each of ``SHARES``."""
        matrix, cross, penalties = self._system(known, sources)
        wanted = np.column_stack([cross, known.rows.T])
        errors = []
        for penalty in penalties:
            solved = np.linalg.solve(matrix + np.diag(penalty), wanted)
            fitted, spread = solved[:, : cross.shape[1]], solved[:, cross.shape[1] :]
            seen = known.answers - known.rows @ fitted
            total = 0.0
            for fold in range(int(known.folds.max()) + 1):
                held = known.folds == fold
                own = np.eye(int(held.sum())) - TARGET_WEIGHT * known.rows[held] @ spread[:, held]
                total += float((np.linalg.solve(own, seen[held]) ** 2).sum())
            errors.append(total / len(known.rows))
        return np.asarray(errors)

    def _system(self, known: Known, sources: Sequence[int]) -> tuple[Floats, Floats, Floats]:
        """The matrix and right side without a penalty, and the penalties (shares, p), almost 0 for the bias."""
        chosen = list(sources)
        weight = known.weight + float(self.counts[chosen].sum())
        penalties = np.repeat(np.asarray(SHARES)[:, None] * weight, len(known.gram), axis=1)
        penalties[:, -1] = 1e-9 * weight
        return known.gram + self.grams[chosen].sum(axis=0), known.cross + self.crosses[chosen].sum(axis=0), penalties


def _sums(rows: Floats, answers: Floats) -> tuple[Floats, Floats]:
    return rows.T @ rows, rows.T @ answers
