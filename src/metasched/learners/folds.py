"""Folds stratified by label: for rewards on rows that a copy of the learner never trains on, and for tuning."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.learners.losses import Rows
from metasched.tasks import RowNumbers


class Folds(NamedTuple):
    """Folds of q of n rows, stacked: ``held`` (k, q, …), and ``kept`` (k, n − q, …), the rows that a copy trains on."""

    kept: Rows
    held: Rows


def stratified_folds(labels: ArrayLike, folds: int, *, equal: bool = False) -> NDArray[np.int64]:
    """The fold (n,) of every row: rows sorted by label, at random among equals, are dealt out like cards.

    Every fold has its share of every label, up to one row. The first n % K folds have one row more than the others.
    With ``equal`` all folds have n // K rows, and those left over are in none (−1). Every call gives the same folds.

    >>> stratified_folds([0, 0, 0, 1, 1], 2).tolist()
    [0, 0, 1, 1, 0]
    >>> stratified_folds([0, 0, 0, 1, 1], 2, equal=True).tolist()
    [1, 0, 0, -1, 1]
    """
    given = np.asarray(labels)
    rank = np.random.default_rng(0).permutation(len(given))
    if equal:
        # Folds of equal size have always used the inverse permutation. Stored results depend on both orders.
        rank = np.argsort(rank)
    order = np.lexsort((rank, given))
    numbers = np.empty(len(given), np.int64)
    numbers[order] = np.arange(len(given)) % folds
    if equal:
        numbers[order[len(given) // folds * folds :]] = -1
    return numbers


def equal_splits(labels: ArrayLike, folds: int) -> list[tuple[RowNumbers, RowNumbers]]:
    """Row numbers (rest, held out) of folds of equal size; rows that are left over are in every rest.

    Equal sizes let one compiled program serve all folds. There are none when there are fewer rows than folds.
    """
    numbers = stratified_folds(labels, folds, equal=True)
    if len(numbers) < folds:
        return []
    return [(np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)) for fold in range(folds)]


def folds_of(rows: Rows, folds: int) -> tuple[Folds, ...]:
    """The K = ``folds`` ways to hold rows out; none with 0.

    Arrays of one shape can be stacked, so there are up to two groups: the folds with one row more, and the others.
    """
    if folds == 0:
        return ()
    numbers = stratified_folds(rows.labels, folds)
    larger = len(numbers) % folds
    groups = [group for group in (range(larger), range(larger, folds)) if group]
    return tuple(
        Folds(
            rows.take(np.stack([np.flatnonzero(numbers != fold) for fold in group])),
            rows.take(np.stack([np.flatnonzero(numbers == fold) for fold in group])),
        )
        for group in groups
    )
